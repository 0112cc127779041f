"""The order of examples: a permutation that seed and epoch decide."""

from hypothesis import given
from hypothesis import strategies as st

from dwindle.training.order import Order

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
        assert len(found) == count if count < batch else count - batch < len(found) == len(found) // batch * batch
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
