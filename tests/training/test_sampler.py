"""The order of examples: a permutation that seed and epoch decide."""

from hypothesis import given
from hypothesis import strategies as st

from dwindle.training.sampler import Order, TokenOrder

sizes = st.tuples(st.integers(1, 200), st.integers(0, 5), st.integers(1, 9), st.integers(0, 3))


def drawn(order: Order, epoch: int) -> list[int]:
    order.epoch = epoch
    return list(order)


@given(sizes)
def test_full_batches_of_different_examples_and_the_same_again(size):
    count, seed, batch, epoch = size
    for lengths in (None, [i * 7 % 13 for i in range(count)]):
        order = Order(count, seed, batch, lengths)
        found = drawn(order, epoch)
        assert len(found) == len(set(found)) == len(order)
        assert set(found) <= set(range(count))
        assert (
            len(found) == count
            if count < batch
            else count - batch < len(found) == len(found) // batch * batch
        )
        assert drawn(Order(count, seed, batch, lengths), epoch) == found


def test_seeds_and_epochs_differ():
    found = {tuple(drawn(Order(50, seed, 8), epoch)) for seed in range(4) for epoch in range(4)}
    assert len(found) == 16


def test_by_length_pads_less_and_still_shuffles():
    lengths = [i * 37 % 101 for i in range(400)]

    def padding(order: Order) -> int:
        batches = [[lengths[i] for i in drawn(order, 0)[k : k + 8]] for k in range(0, 400, 8)]
        return sum(max(batch) * len(batch) - sum(batch) for batch in batches)

    by_length = Order(400, 1, 8, lengths)
    assert padding(by_length) < 0.2 * padding(Order(400, 1, 8))
    first = [lengths[i] for i in drawn(by_length, 0)]
    assert first != sorted(first)
    assert drawn(by_length, 0) != drawn(by_length, 1)


sides = st.lists(st.tuples(st.integers(1, 20), st.integers(1, 20)), min_size=1, max_size=80)


@given(sides, st.integers(20, 90), st.integers(1, 3))
def test_batches_of_tokens_are_full_and_whole(lengths, most, together):
    order = TokenOrder(lengths, 1, most, together)
    assert sorted(i for batch in order.batches for i in batch) == list(range(len(lengths)))
    for batch in order.batches:
        assert len(batch) * max(max(lengths[i]) for i in batch) <= most
        assert len(batch) <= 8 or len(batch) % 8 == 0 or batch is order.batches[-1]
    assert len(drawn(order, 0)) == len(order)
    assert len(order) % together == 0 or len(order.batches) < together


def test_batches_of_tokens_stay_together_and_change_places():
    lengths = [(1 + i * 37 % 19, 1 + i * 7 % 11) for i in range(300)]
    order = TokenOrder(lengths, 3, 60, 1)
    first, second = drawn(order, 0), drawn(order, 1)
    assert first != second
    assert sorted(first) == sorted(second)
    assert drawn(TokenOrder(lengths, 3, 60, 1), 1) == second
    padded = sum(len(b) * max(max(lengths[i]) for i in b) for b in first)
    assert padded < 1.25 * sum(max(both) for both in lengths)
