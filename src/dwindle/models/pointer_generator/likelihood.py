"""The log-likelihood of words that are written or copied, without ever holding P(w) of all words for all of them.

log P = log(p_gen P_vocab + (1 - p_gen) P_copy). Of P_vocab it needs the log-sum-exp of a row of scores and the score of
the word itself, so rows of scores are computed a chunk at a time. Once log P of a word is known, so is the gradient of
its scores: a chunk adds its part to the gradients and is overwritten by the next, and no score is computed twice. It
knows no model.

Shapes: N words, H hidden size, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dwindle.core.coverage import state_dtype

_CHUNK = 6 * 2**20
"""Scores at a time."""
_CACHE = 2**18
"""Scores that stay in the cache while they are gone over again."""
NEVER = -1e4
"""The logarithm of a probability that is zero, finite so that gradients are."""


@dataclass
class Words:
    """N words to be written or copied."""

    ids: Tensor
    """(N,), from V on for words that can only be copied."""
    hidden: Tensor
    """(N, H): what the scores of the vocabulary are made of."""
    switch: Tensor
    """(N,): the logit of p_gen."""
    copied: Tensor
    """(N,): log P_copy."""
    share: Tensor
    """(N,): the part that each has in the sum. Without a gradient."""


def log_likelihood(words: Words, weight: Tensor, bias: Tensor) -> Tensor:
    """The sum of log P over the words, each by its share: a scalar. The scores are hidden weight^T + bias, (N, V)."""
    given = (words.hidden, words.switch, words.copied, weight, bias, words.ids, words.share)
    total: Tensor = _LogLikelihood.apply(*given)  # type: ignore[no-untyped-call]
    return total


class _LogLikelihood(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        switch: Tensor,
        copied: Tensor,
        weight: Tensor,
        bias: Tensor,
        ids: Tensor,
        share: Tensor,
    ) -> Tensor:
        learns = any(ctx.needs_input_grad)
        total, responsible = switch.new_zeros(()), []
        with torch.autocast(hidden.device.type, enabled=False):
            vocabulary = _Vocabulary(hidden.to(weight.dtype), weight, bias, learns)
            for rows in range(0, len(ids), vocabulary.chunk):
                chunk = slice(rows, rows + vocabulary.chunk)
                by_writing = F.logsigmoid(switch[chunk]) + vocabulary.log_probability(chunk, ids[chunk])
                by_copying = F.logsigmoid(-switch[chunk]) + copied[chunk]
                total += share[chunk] @ torch.logaddexp(by_writing, by_copying)
                responsible.append((by_writing - by_copying).sigmoid())
                if learns:
                    vocabulary.learn(chunk, ids[chunk], share[chunk] * responsible[-1])
        written = torch.cat(responsible)
        ctx.gradients = (
            vocabulary.dhidden,
            share * (written - switch.sigmoid()),
            share * (1 - written),
            vocabulary.dweight,
            vocabulary.dbias,
        )
        ctx.dtypes = hidden.dtype, switch.dtype, copied.dtype, weight.dtype, bias.dtype
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, total: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError("the gradients of this loss have been taken: compute the loss again to have them twice")
        gradients, ctx.gradients = ctx.gradients, None  # handed over, not copied: that of the vocabulary is large
        scaled = gradients if total == 1 else [x * total for x in gradients]
        return *(x.to(dtype) for x, dtype in zip(scaled, ctx.dtypes, strict=True)), None, None


class _Vocabulary:
    """Rows of scores of all words, a chunk at a time in the same place, and the gradients of what they are made of."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor, learns: bool) -> None:
        self.hidden, self.weight, self.bias = hidden, weight, bias
        self.chunk = max(1, _CHUNK // len(weight))
        self.scores = hidden.new_empty(min(self.chunk, len(hidden)), len(weight))
        if learns:
            self.dhidden = torch.empty_like(hidden)
            self.dweight = torch.empty_like(weight)
            self.dbias = torch.empty_like(bias)

    def log_probability(self, rows: slice, ids: Tensor) -> Tensor:
        """(n,): log P_vocab of one word in each row; never, if it is outside. Leaves all probabilities behind, each row
        times its ``mass``."""
        hidden = self.hidden[rows]
        scores = torch.mm(hidden, self.weight.mT, out=self.scores[: len(hidden)])
        self.risen = scores.to(state_dtype(scores))
        picked = self.risen.gather(1, self._inside(ids)).squeeze(1) + self.bias[self._inside(ids).squeeze(1)]
        few = torch.split(self.risen, max(1, _CACHE // len(self.weight)))
        highest, self.mass = (torch.cat(x) for x in zip(*(_rise(x, self.bias) for x in few), strict=True))
        return (picked - highest - self.mass.log()).where(ids < len(self.weight), NEVER)

    def learn(self, rows: slice, ids: Tensor, share: Tensor) -> None:
        """Add the gradients of this chunk, the last one whose ``log_probability`` was asked for."""
        # Less its mass at the word itself, a row is minus the gradient of log P_vocab, times its mass.
        beside = self.risen.scatter_add_(1, self._inside(ids), -self.mass.unsqueeze(1)).to(self.weight.dtype)
        less = -(share * (ids < len(self.weight)) / self.mass).to(beside.dtype).unsqueeze(1)
        so_far = int(rows.start > 0)  # what the first chunk finds in its place is nothing
        self.dhidden[rows] = less * (beside @ self.weight)
        self.dweight.addmm_(beside.mT, less * self.hidden[rows], beta=so_far)
        self.dbias.addmv_(beside.mT, less.squeeze(1), beta=so_far)

    def _inside(self, ids: Tensor) -> Tensor:
        """(n, 1): the ids, 0 for those outside."""
        return ids.where(ids < len(self.weight), 0).unsqueeze(1)


def _rise(scores: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """e^(score + bias - highest) of every row, in place; the highest (n,), and the sum (n,)."""
    highest = scores.add_(bias).amax(1)
    return highest, scores.sub_(highest.unsqueeze(1)).exp_().sum(1)
