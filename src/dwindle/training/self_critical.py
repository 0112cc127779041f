"""Self-critical training (Rennie et al., 2017): what the model writes is rewarded with CIDEr-D.

For every image a paragraph is drawn from the model, and its reward is measured against that of the paragraph the model
would write (the greedy one): the advantage. The loss is the drawn paragraph's negative log-likelihood times its
advantage, a mean over the drawn words of the whole step, on all processes.

Paragraphs are drawn and decoded by ``generate()`` without dropout; then one teacher-forced pass, in which dropout is on
as in all training, gives the log-likelihood its gradient. A rule's coverage is the same in both, so this is the policy
that was drawn from. Document frequencies come from the training references, once. It knows no recipe.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dwindle.data.example import Example
from dwindle.generation.generate import generate
from dwindle.generation.settings import DecodingSettings
from dwindle.metrics.cider import CiderScorer
from dwindle.models.codec import IGNORED, Batch, Row
from dwindle.models.top_down import TopDown
from dwindle.models.top_down_codec import RegionCodec
from dwindle.training.settings import TrainingSettings
from dwindle.training.trainer import Fit


class SelfCritical(Fit):
    """``Fit`` with another loss. The loss on dev is minus the reward of what the model would write."""

    def __init__(
        self,
        model: Any,
        codec: RegionCodec,
        train: Sequence[Example],
        dev: Sequence[Example],
        settings: TrainingSettings,
        *where: Any,
    ) -> None:
        if not isinstance(model, TopDown):
            raise ValueError(f"self-critical training is for a top-down captioner, not for a {type(model).__name__}")
        # The words of the metric, without punctuation: what is rewarded is what is scored.
        self.scorer = CiderScorer((example.references for example in train), unicode_words=True)
        self.decoding = DecodingSettings(beams=1, max_length=codec.target_length, soft_trigrams=settings.soft_trigrams)
        super().__init__(model, codec, train, dev, settings, *where)

    def row(self, example: Example) -> Row:
        return {**super().row(example), "references": example.references}

    def collate(self, rows: list[Row]) -> Batch:
        return {**super().collate(rows), "references": [row["references"] for row in rows]}

    def get_batch_samples(
        self, epoch_iterator: Iterator[Batch], num_batches: int, device: torch.device
    ) -> tuple[list[Batch], Tensor | None]:
        """The micro-batches of a step, each with what the model drew for it in place of its references."""
        return super().get_batch_samples(map(self.played, epoch_iterator), num_batches, device)

    def played(self, batch: Batch) -> Batch:
        """``labels`` (B, T) become a drawn paragraph, ``advantage`` (B,) says how much better than the greedy one."""
        batch = dict(batch)
        references = batch.pop("references")
        drawn, greedy = self.written(batch, sample=True), self.written(batch, sample=False)
        batch["labels"] = labels(drawn, self.model.config.eos_token_id)
        batch["advantage"] = self.rewards(drawn, batch, references) - self.rewards(greedy, batch, references)
        return batch

    def written(self, batch: Batch, sample: bool) -> Tensor:
        """(B, 1 + T): what the model writes for a batch, drawn at random or greedily."""
        return generate(self.accelerator.unwrap_model(self.model), batch, replace(self.decoding, sample=sample))

    def rewards(self, sequences: Tensor, batch: Batch, references: Sequence[Sequence[str]]) -> Tensor:
        """(B,): CIDEr-D, 0 to 10."""
        rewards = self.scorer.rewards(self.codec.decode(sequences.cpu(), batch), references)
        return torch.tensor(rewards, dtype=torch.float32, device=sequences.device)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if "advantage" not in batch:
            references = batch.pop("references")
            return -self.rewards(self.written(batch, sample=False), batch, references).mean()
        gain = batch.pop("advantage")
        logits = model(**batch).logits
        nll = F.cross_entropy(logits.transpose(1, 2).float(), batch["labels"], ignore_index=IGNORED, reduction="none")
        total: Tensor = (gain.unsqueeze(1) * nll).sum()
        return total / self.count(batch)


def labels(sequences: Tensor, end: int) -> Tensor:
    """Sequences (B, 1 + T) from the start token on, as labels (B, T): what follows the end is ignored."""
    words = sequences[:, 1:]
    ended = (words == end).long()
    return words.masked_fill(ended.cumsum(-1) - ended > 0, IGNORED)
