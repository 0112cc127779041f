"""The log-likelihood in chunks against the whole distribution and autograd."""

import pytest
import torch

from dwindle.models.pointer_generator import likelihood
from dwindle.models.pointer_generator.likelihood import NEVER, Words, log_likelihood

N, H, V = 9, 6, 11


def drawn(dtype=torch.float64):
    """Hidden, switch, copied, weight and bias with gradients, the words and their shares."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(N, H), (N,), (N,), (V, H), (V,)]
    given = [torch.randn(shape, generator=generator).to(dtype).requires_grad_() for shape in shapes]
    given[2] = torch.where(
        torch.arange(N) % 3 == 0, NEVER, -given[2].detach().abs()
    ).requires_grad_()
    ids = torch.tensor([0, 3, 12, 10, 3, 11, 5, 7, 2])
    return given, ids, torch.rand(N, generator=generator).to(dtype)


def twin(given, ids, share):
    hidden, switch, copied, weight, bias = given
    known = ids < V
    p_vocab = (hidden @ weight.mT + bias).softmax(-1)[torch.arange(N), ids.where(known, 0)] * known
    return (share * (switch.sigmoid() * p_vocab + (-switch).sigmoid() * copied.exp()).log()).sum()


@pytest.mark.parametrize("rows", [1, 4, 100])
@pytest.mark.parametrize("scale", [1.0, -2.5])
def test_chunks_are_as_the_whole(rows, scale, path, monkeypatch):
    monkeypatch.setattr(likelihood, "_CHUNK", rows * V)
    given, ids, share = drawn()
    # a word that can be neither written nor copied
    share = share * ((ids < V) | (given[2] > NEVER))
    hidden, switch, copied, weight, bias = given
    ours = scale * log_likelihood(Words(ids, hidden, switch, copied, share), weight, bias)
    theirs = scale * twin(given, ids, share).nan_to_num()
    torch.testing.assert_close(ours, theirs)
    for mine, slow in zip(
        torch.autograd.grad(ours, given), torch.autograd.grad(theirs, given), strict=True
    ):
        torch.testing.assert_close(mine, slow)


def test_with_words_of_the_source_only():
    """None of them has a score, so the vocabulary learns nothing: a gradient of zeros."""
    given, ids, share = drawn()
    hidden, switch, copied, weight, bias = given
    log_likelihood(Words(ids + V, hidden, switch, copied, share), weight, bias).backward()
    assert not weight.grad.any()
    assert not bias.grad.any()
    assert switch.grad.all()


def test_without_gradients_it_is_the_same(path):
    given, ids, share = drawn()
    hidden, switch, copied, weight, bias = given
    words = Words(ids, hidden, switch, copied, share)
    with_them = log_likelihood(words, weight, bias)
    with torch.no_grad():
        torch.testing.assert_close(log_likelihood(words, weight, bias), with_them.detach())


def test_gradients_are_given_once():
    given, ids, share = drawn()
    hidden, switch, copied, weight, bias = given
    loss = log_likelihood(Words(ids, hidden, switch, copied, share), weight, bias)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="compute the loss again"):
        loss.backward()
