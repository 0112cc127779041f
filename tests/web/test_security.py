"""Tokens, proofs and limits."""

from hypothesis import given
from hypothesis import strategies as st

from dwindle.web import security
from dwindle.web.security import Limiter


def test_tokens_are_long_and_differ():
    tokens = {security.new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert min(map(len, tokens)) >= 43


@given(st.text(), st.integers(0, 5), st.integers(0, 5))
def test_a_proof_is_good_for_its_own_place_only(claim, rater, place):
    key = b"k" * 32
    good = security.proof(key, rater, place)
    assert security.proves(key, good, rater, place)
    assert not security.proves(key, claim, rater, place)
    assert not security.proves(key, good, rater + 1, place)
    assert not security.proves(key, good, rater, place + 1)
    assert not security.proves(b"j" * 32, good, rater, place)


def test_a_limiter_allows_a_burst_and_then_a_rate():
    now = [0.0]
    limiter = Limiter(rate=2, burst=3, clock=lambda: now[0])
    assert [limiter.allows("x") for _ in range(4)] == [True] * 3 + [False]
    assert limiter.allows("y")
    now[0] += 0.5
    assert [limiter.allows("x") for _ in range(2)] == [True, False]
    now[0] += 1000
    assert sum(limiter.allows("x") for _ in range(10)) == 3


def test_a_limiter_remembers_so_many_names_only():
    limiter = Limiter(rate=1, burst=1, names=10)
    for i in range(1000):
        limiter.allows(str(i))
    assert len(limiter._buckets) == 10
