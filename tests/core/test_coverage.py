"""Coverage moves with the batch."""

import torch

from dwindle import Coverage, Dim, Log
from tests.core.made import attention


def coverage(batch: int = 3) -> Coverage:
    return Dim(Log())(attention(batch, 2, 4, 5))[1]


def same(one: Coverage, other: Coverage) -> bool:
    return torch.equal(one.total, other.total) and torch.equal(one.peak, other.peak)


def test_it_is_the_sum_and_the_maximum():
    a = attention(3, 2, 4, 5)
    c = Dim(Log())(a)[1]
    torch.testing.assert_close(c.total, a.sum(-2))
    torch.testing.assert_close(c.peak, a.amax(-2))


def test_reorder_follows_the_beams():
    c = coverage()
    moved = c.reorder(torch.tensor([2, 0, 0]))
    for row, origin in enumerate([2, 0, 0]):
        assert torch.equal(moved.total[row], c.total[origin])
        assert torch.equal(moved.peak[row], c.peak[origin])
    assert not same(moved, c)


def test_repeat_keeps_copies_together():
    c = coverage(2)
    assert same(c.repeat(3), c.reorder(torch.tensor([0, 0, 0, 1, 1, 1])))


def test_select_by_index_or_mask():
    c = coverage()
    assert same(c.select(torch.tensor([True, False, True])), c.select(torch.tensor([0, 2])))


def test_nothing_is_changed_in_place():
    c = coverage()
    before = Coverage(c.total.clone(), c.peak.clone())
    c.reorder(torch.tensor([1, 1, 1]))
    Dim(Log())(attention(3, 2, 1, 5), c)
    assert same(c, before)


def test_half_precision_attention_has_float32_coverage():
    a = attention(1, 1, 2, 3, dtype=torch.bfloat16)
    assert Dim(Log())(a)[1].total.dtype == torch.float32
    assert Dim(Log())(a.double())[1].total.dtype == torch.float64
