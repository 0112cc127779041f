"""Logits processors that the library lacks: the soft trigram penalty, n-gram blocking and forced
tokens as originals have them, and a least length that costs nothing once it is reached.

Shapes: N hypotheses, t tokens each, the start token first; V tokens of the vocabulary.
"""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from transformers import LogitsProcessor

NEVER = -1e9
"""Score that the library's beam search gives to hypotheses that must not be chosen."""


class LeastLength(LogitsProcessor):
    """Forbids the end token before ``length`` tokens. The library's own copies all scores at every
    step, however long the sequence is."""

    def __init__(self, length: int, ends: int | list[int]) -> None:
        self.length, self.ends = length, torch.as_tensor(ends).view(-1)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if input_ids.shape[1] > self.length:  # the start token is one of them
            return scores
        return scores.index_fill(1, self.ends.to(scores.device), -math.inf)


class OnlyAt(LogitsProcessor):
    """Allows only ``token`` at position ``place`` of the sequence, counted from 0 with the start
    token.

    The token keeps its log-probability, as in fairseq; the library's own counts a forced token as
    certain.
    """

    def __init__(self, place: int, token: int) -> None:
        self.place, self.token = place, token

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        if input_ids.shape[1] != self.place:
            return scores
        column = slice(self.token, self.token + 1)
        only = torch.full_like(scores, -math.inf)
        only[:, column] = scores[:, column]
        return only


class Unlikely(LogitsProcessor):
    """Lowers the log-probability of one token by ``by``: the captioner avoids its unknown word
    so."""

    def __init__(self, token: int, by: float = 1000.0) -> None:
        self.token, self.by = token, by

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        less = scores.clone()
        less[:, self.token] -= self.by
        return less


class SoftTrigrams(LogitsProcessor):
    """log p(w) - alpha ln 2 times the number of times that w has followed the last two tokens
    (Melas-Kyriazi 2018).

    The first ``skipped`` tokens of each sequence, such as the start token, were not generated and
    do not count.
    """

    def __init__(self, alpha: float, skipped: int = 1) -> None:
        self.alpha, self.skipped = alpha, skipped

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        written = input_ids[:, self.skipped :]
        return scores - self.alpha * math.log(2) * _followed(written, 3, scores)


class BlockTokens(LogitsProcessor):
    """Forbids that an n-gram of tokens occurs twice, as fairseq's ``ngram_repeat_block.py``.

    The ``separator`` that separates sentences is not seen: the models of See and of fairseq have
    none, and with it a second sentence could not begin like another one after a full stop.
    """

    def __init__(self, size: int, separator: int | None) -> None:
        self.size, self.separator = size, separator

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        parts = (
            torch.zeros_like(input_ids, dtype=torch.bool)
            if self.separator is None
            else input_ids == self.separator
        )
        # separators, then all else as it was
        first = parts.int().argsort(dim=1, descending=True, stable=True)
        again = _followed(input_ids.gather(1, first), self.size, scores, skipped=parts.sum(1))
        return scores.masked_fill(again > 0, -math.inf)


class BlockWords(LogitsProcessor):
    """PreSumm's blocking (nlpyang/PreSumm, src/models/predictor.py): n-grams of whole words, the
    token between sentences being one. A hypothesis whose last n-gram has been there before is not
    continued.

    ``words``: the words that tokens write.
    """

    def __init__(self, size: int, words: Callable[[list[int]], list[str]]) -> None:
        self.size, self.words = size, words

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        dead = torch.tensor(
            [self._twice(self.words(row)) for row in input_ids.tolist()], device=scores.device
        )
        return scores + NEVER * dead.unsqueeze(1)

    def _twice(self, words: list[str]) -> bool:
        ngrams = [words[i : i + self.size] for i in range(len(words) - self.size + 1)]
        return bool(ngrams) and ngrams[-1] in ngrams[:-1]


def _followed(written: Tensor, size: int, scores: Tensor, skipped: Tensor | None = None) -> Tensor:
    """(N, V): how often each token has followed the last ``size - 1`` ones of ``written`` (N, t).

    ``skipped``: (N,), how many tokens of each row do not count, from its beginning.
    """
    counts = torch.zeros_like(scores)
    if written.shape[1] < size:
        return counts
    ngrams = written.unfold(1, size, 1)  # (N, t - size + 1, size)
    same = (ngrams[..., :-1] == written[:, None, written.shape[1] - size + 1 :]).all(-1)
    if skipped is not None:
        same &= torch.arange(ngrams.shape[1], device=written.device) >= skipped.unsqueeze(1)
    return counts.scatter_add_(1, ngrams[..., -1], same.to(scores.dtype))
