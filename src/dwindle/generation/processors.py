"""``SoftTrigrams``: what the library lacks among its logits processors."""

import math

import torch
from torch import Tensor
from transformers import LogitsProcessor


class SoftTrigrams(LogitsProcessor):
    """log p(w) - alpha ln 2 times the number of times that w has followed the last two tokens (Melas-Kyriazi 2018).

    The first ``skipped`` tokens of each sequence, such as the start token, were not generated and do not count.
    """

    def __init__(self, alpha: float, skipped: int = 1) -> None:
        self.alpha, self.skipped = alpha, skipped

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        written = input_ids[:, self.skipped :]  # (N, t)
        if written.shape[1] < 3:
            return scores
        trigrams = written.unfold(1, 3, 1)  # (N, t - 2, 3)
        same = (trigrams[..., :2] == written[:, None, -2:]).all(-1)
        counts = torch.zeros_like(scores).scatter_add_(1, trigrams[..., 2], same.to(scores.dtype))
        return scores - self.alpha * math.log(2) * counts
