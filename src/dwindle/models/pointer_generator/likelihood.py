"""The log-likelihood of words that are written or copied, without ever holding P(w) of all words
for all of them.

log P = log(p_gen P_vocab + (1 - p_gen) P_copy). Of P_vocab it needs the log-sum-exp of a row of
scores and the score of the word itself, so rows of scores are computed a chunk at a time. Once log
P of a word is known, so is the gradient of its scores: a chunk adds its part to the gradients and
is gone, and no score is computed twice. It knows no model.

Shapes: N words, H hidden size, V vocabulary.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from dwindle.core.coverage import state_dtype
from dwindle.models.vocabulary_product import product
from dwindle.native.functions import KERNEL

_CHUNK = 2**23
"""Number of scores computed at a time: in float32 the most that a C library takes from its heap
instead of from fresh pages."""
_BLOCK = 16
"""Number of rows of which matrix products prefer multiples."""
_CACHE = 2**18
"""Number of scores that stay in the cache while they are read again."""
NEVER = -1e4
"""The logarithm of a probability that is zero, finite so that gradients are."""


@dataclass
class Words:
    """N words to be written or copied."""

    ids: Tensor
    """(N,), from V on for words that can only be copied."""
    hidden: Tensor
    """(N, H): the states from which the vocabulary is scored."""
    switch: Tensor
    """(N,): the logit of p_gen."""
    copied: Tensor
    """(N,): log P_copy."""
    share: Tensor
    """(N,): the weight of each in the sum. Has no gradient."""


def log_likelihood(words: Words, weight: Tensor, bias: Tensor) -> Tensor:
    """The sum of log P over the words, each by its share: a scalar. The scores are hidden weight^T
    + bias, (N, V)."""
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
        by_copying = F.logsigmoid(-switch) + copied
        by_writing = torch.full_like(by_copying, NEVER)
        inside = (ids < len(weight)).nonzero().squeeze(1)  # other words have no score
        with torch.autocast(hidden.device.type, enabled=False):
            vocabulary = _Vocabulary(
                hidden.to(weight.dtype), weight, bias, learns=any(ctx.needs_input_grad)
            )
            for rows in torch.split(inside, vocabulary.chunk):
                words = Choice(ids[rows], F.logsigmoid(switch[rows]), by_copying[rows], share[rows])
                by_writing[rows] = vocabulary.written(rows, words)
        written = (by_writing - by_copying).sigmoid()
        dhidden, dweight, dbias = vocabulary.gradients()
        ctx.gradients = (
            dhidden,
            share * (written - switch.sigmoid()),
            share * (1 - written),
            dweight,
            dbias,
        )
        ctx.dtypes = hidden.dtype, switch.dtype, copied.dtype, weight.dtype, bias.dtype
        return (share * torch.logaddexp(by_writing, by_copying)).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, total: Tensor) -> tuple[Tensor | None, ...]:
        if ctx.gradients is None:
            raise RuntimeError(
                "the gradients of this loss have been taken: compute the loss again to have them "
                "twice"
            )
        # handed over, not copied: that of the vocabulary is large
        gradients, ctx.gradients = ctx.gradients, None
        scaled = gradients if total == 1 else [x * total for x in gradients]
        return *(x.to(dtype) for x, dtype in zip(scaled, ctx.dtypes, strict=True)), None, None


class _Vocabulary:
    """Rows of scores of all words, a chunk at a time, and the gradients of their inputs."""

    def __init__(self, hidden: Tensor, weight: Tensor, bias: Tensor, learns: bool) -> None:
        self.hidden, self.weight, self.bias = hidden, weight, bias.to(state_dtype(bias))
        rows = max(1, _CHUNK // len(weight))
        self.chunk = rows - rows % _BLOCK or rows
        self._dhidden = torch.zeros_like(hidden)
        self._dbias = torch.zeros_like(self.bias) if learns else None
        self._dweight: Tensor | None = None

    def written(self, rows: Tensor, words: "Choice") -> Tensor:
        """(n,): the logarithm of writing one word in each of these rows. Adds their gradients."""
        hidden = self.hidden[rows]
        scores = product(hidden, self.weight)
        risen = scores.to(state_dtype(scores))
        written, less = rise(risen, self.bias, words, self._dbias)
        if self._dbias is not None:
            beside, less = risen.to(scores.dtype), less.to(scores.dtype).unsqueeze(1)
            self._dhidden[rows] = less * product(beside, self.weight.mT)
            hidden = less * hidden
            self._dweight = (
                beside.mT @ hidden
                if self._dweight is None
                else self._dweight.addmm_(beside.mT, hidden)
            )
        return written

    def gradients(self) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Gradients of hidden, weight and bias; None if nothing learns."""
        nothing = self._dweight is None and self._dbias is not None
        return (
            self._dhidden,
            torch.zeros_like(self.weight) if nothing else self._dweight,
            self._dbias,
        )


class Choice(NamedTuple):
    """n words of the vocabulary, each to be written or copied."""

    ids: Tensor
    """(n,)."""
    writing: Tensor
    """(n,): log p_gen."""
    copying: Tensor
    """(n,): log (1 - p_gen) P_copy."""
    share: Tensor
    """(n,)."""


def rise(
    scores: Tensor, bias: Tensor, words: Choice, dbias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """log p_gen P_vocab of words (n,), from scores (n, V) before the bias (V,), and ``less`` (n,).

    Each row becomes e^(score - highest), less the sum of all at the word itself; times ``less``
    that is the gradient of the scores, and is added to ``dbias``. Without ``dbias`` nothing is
    learnt: then neither rows nor ``less`` count.
    """
    if KERNEL.do(scores):
        written, less = words.writing.clone(), torch.empty_like(words.writing)
        arrays = scores, bias, words.ids, words.copying, words.share, written, less, dbias
        KERNEL("words", scores.dtype, scores.shape, arrays)
        return written, less
    ids = words.ids.unsqueeze(1)
    picked = scores.gather(1, ids).squeeze(1) + bias[words.ids]
    few = torch.split(scores, max(1, _CACHE // len(bias)))
    highest, mass = (torch.cat(x) for x in zip(*(_rise(x, bias) for x in few), strict=True))
    written = words.writing + picked - highest - mass.log()
    less = -words.share * (written - words.copying).sigmoid() / mass
    if dbias is not None:
        dbias.addmv_(scores.scatter_add_(1, ids, -mass.unsqueeze(1)).mT, less)
    return written, less


def _rise(scores: Tensor, bias: Tensor) -> tuple[Tensor, Tensor]:
    """e^(score + bias - highest) of every row, in place; the highest (n,), and the sum (n,)."""
    highest = scores.add_(bias).amax(1)
    return highest, scores.sub_(highest.unsqueeze(1)).exp_().sum(1)
