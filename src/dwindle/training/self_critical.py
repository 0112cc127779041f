"""Self-critical training (Rennie et al., 2017): what the model writes is rewarded with CIDEr-D.

For every image a paragraph is drawn from the model, and its reward is measured against that of the
paragraph the model would write (the greedy one): the advantage. The loss is the drawn paragraph's
negative log-likelihood times its advantage, a mean over the drawn words of the whole step, on all
processes.

All is as in the paper's baseline (lukemelas/image-paragraph-captioning): the paragraph is drawn
from the very distribution whose likelihood is learnt, dropout and all (train.py,
models/AttModel.py: `_sample`); the trigram penalty is on the greedy one alone, which has no dropout
(the same, `sample_max`; misc/rewards.py). A reward reads the numbers of words in the model's
vocabulary, so that punctuation and unknown words count, and the end token is a word
(misc/rewards.py: `array_to_str`; scripts/prepro_ngrams.py). Document frequencies come from the
training references.

Paragraphs are drawn before the loss, for the mean needs the words of the whole step. The likelihood
then comes from a second pass that meets the same random numbers. It knows no recipe.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from dwindle.attaching.record import until_end
from dwindle.data.example import Example
from dwindle.generation.generate import generate
from dwindle.generation.settings import DecodingSettings
from dwindle.metrics.cider import CiderScorer
from dwindle.models.codec import IGNORED, Batch, Row
from dwindle.models.top_down import TopDown
from dwindle.models.top_down_codec import RegionCodec
from dwindle.models.vocabulary import END
from dwindle.training.settings import TrainingSettings
from dwindle.training.trainer import Fit


class SelfCritical(Fit):
    """``Fit`` with another loss. The loss on dev is minus the reward of the model's outputs."""

    codec: RegionCodec

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
            raise ValueError(
                "self-critical training is for a top-down captioner, not for a "
                f"{type(model).__name__}"
            )
        self.scorer = CiderScorer(_read(codec, example) for example in train)
        self.decoding = DecodingSettings(
            beams=1, max_length=codec.target_length, soft_trigrams=settings.soft_trigrams
        )
        super().__init__(model, codec, train, dev, settings, *where)

    def row(self, example: Example) -> Row:
        """With references as the reward reads them: as long as a paragraph may be, their end
        counted if it is in."""
        return {
            **super().row(example),
            "references": _read(self.codec, example, self.codec.target_length),
        }

    def collate(self, rows: list[Row]) -> Batch:
        return {**super().collate(rows), "references": [row["references"] for row in rows]}

    def get_batch_samples(
        self, epoch_iterator: Iterator[Batch], num_batches: int, device: torch.device
    ) -> tuple[list[Batch], Tensor | None]:
        """The micro-batches of a step, each with the model's draws in place of its references."""
        return super().get_batch_samples(map(self.played, epoch_iterator), num_batches, device)

    def played(self, batch: Batch) -> Batch:
        """``labels`` (B, T) become a drawn paragraph, ``advantage`` (B,) says how much better than
        the greedy one; ``seed`` is of the random numbers that drew it."""
        batch = dict(batch)
        references = batch.pop("references")
        seed = int(torch.randint(2**62, ()))
        drawn, greedy = self.drawn(batch, seed), self.greedy(batch)
        batch["labels"], batch["seed"] = labels(drawn, self.model.config.eos_token_id), seed
        batch["advantage"] = self.rewards(drawn, references) - self.rewards(greedy, references)
        return batch

    def drawn(self, batch: Batch, seed: int) -> Tensor:
        """(B, 1 + T): a paragraph for each image, drawn from the model as it is trained."""
        model = self.accelerator.unwrap_model(self.model).train()
        with _random(seed, model.device), self.accelerator.autocast():
            return model.draw(batch["features"], batch["attention_mask"], self.decoding.max_length)  # type: ignore[no-any-return]

    def greedy(self, batch: Batch) -> Tensor:
        """(B, 1 + T): the paragraph that the model would write for each image."""
        return generate(self.accelerator.unwrap_model(self.model), batch, self.decoding)

    def rewards(self, sequences: Tensor, references: Sequence[Sequence[str]]) -> Tensor:
        """(B,): CIDEr-D, 0 to 10."""
        words = [[id for id in row if id != IGNORED] for row in labels(sequences, END).tolist()]
        return torch.tensor(
            self.scorer.rewards(_as_texts(words), references),
            dtype=torch.float32,
            device=sequences.device,
        )

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        if "advantage" not in batch:
            references = batch.pop("references")
            return -self.rewards(self.greedy(batch), references).mean()
        gain, seed = batch.pop("advantage"), batch.pop("seed")
        with _random(seed, gain.device):
            logits = model(**batch, drawn=0.0).logits
        nll = F.cross_entropy(
            logits.transpose(1, 2).float(), batch["labels"], ignore_index=IGNORED, reduction="none"
        )
        total: Tensor = (gain.unsqueeze(1) * nll).sum()
        return total / self.count(batch)


@contextmanager
def _random(seed: int, device: torch.device) -> Iterator[None]:
    """The random numbers of ``seed``; those of before go on after the block."""
    devices, kind = ([], "cuda") if device.type == "cpu" else ([device.index or 0], device.type)
    with torch.random.fork_rng(devices, device_type=kind):
        torch.manual_seed(seed)
        yield


def _read(codec: RegionCodec, example: Example, most: int | None = None) -> list[str]:
    """The references as a reward reads them, ``most`` words of each."""
    return _as_texts(
        [*codec.vocabulary.ids(text.split()), END][:most] for text in example.references
    )


def _as_texts(rows: Iterable[Iterable[int]]) -> list[str]:
    """The numbers of words, as the words that the scorer reads."""
    return [" ".join(map(str, row)) for row in rows]


def labels(sequences: Tensor, end: int) -> Tensor:
    """Sequences (B, 1 + T) from the start on, as labels (B, T), ignoring what follows the end."""
    words = sequences[:, 1:]
    return words.masked_fill(~until_end(words, end), IGNORED)
