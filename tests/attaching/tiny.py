"""How a tiny random model is drawn, fed and run, whatever its family. No downloads, no training.

All weights are drawn anew, wide enough that cross-attention is sharp: on a nearly uniform attention
every beam has the same coverage, and a forgotten reorder would pass unseen. ``zoo.py`` lists the
families.

Shapes: B = 3 sources, S source positions (right-padded where the family takes a mask), T = 7 target
rows.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import transformers as hf
from torch import Tensor

B, S, T, VOCABULARY = 3, 9, 7, 48
LENGTHS = (9, 7, 5)
Inputs = dict[str, Any]


@dataclass(frozen=True)
class Tiny:
    """One family: a model and the inputs it takes.

    ``style`` says how the decoder is reached: "seq2seq" encodes the source and takes
    ``decoder_input_ids``; "decoder" takes ``input_ids`` and the source as it is.
    """

    name: str
    make: Callable[[], hf.PreTrainedModel]
    source: Callable[[], Inputs]
    style: str = "seq2seq"
    auto: type = hf.AutoModelForSeq2SeqLM
    spread: float = 0.4
    """Of the weights."""
    target: tuple[int, ...] = (B, T)
    """The shape of the target rows; dimension 1 is time."""
    once: tuple[str, ...] = ()
    """Inputs that the cache remembers: they come with the first piece only."""
    generate: Inputs = field(default_factory=dict)
    """More inputs of ``generate()``."""
    seed: int = 0

    def build(self) -> hf.PreTrainedModel:
        """The model: eval mode, float32, every weight drawn from ``seed``."""
        torch.manual_seed(self.seed)
        model = self.make().eval()
        draw(model, self.spread, self.seed)
        return model

    def rows(self) -> Tensor:
        """The target rows of teacher forcing, (B, T) ids."""
        generator = torch.Generator().manual_seed(self.seed + 1)
        return torch.randint(4, VOCABULARY, self.target, generator=generator)

    def logits(self, model: hf.PreTrainedModel, cuts: tuple[int, ...] | None = None) -> Tensor:
        """(B, T, V) of teacher forcing: all rows in one call without a cache, or with a cache, cut
        into pieces of these many rows."""
        given, rows = self.encoded(model), self.rows()
        name = "decoder_input_ids" if self.style == "seq2seq" else "input_ids"
        with torch.no_grad():
            if cuts is None:
                return model(**given, **{name: rows}, use_cache=False).logits
            past, found = None, []
            for piece in rows.split(list(cuts), dim=1):
                out = model(**given, **{name: piece}, past_key_values=past, use_cache=True)
                past = out.past_key_values
                found.append(out.logits)
                given = {k: v for k, v in given.items() if k not in self.once}
            return torch.cat(found, dim=1)

    def encoded(self, model: hf.PreTrainedModel) -> Inputs:
        """The inputs of every decoder call, the source encoded once."""
        source = self.source()
        if self.style == "decoder":
            return source
        with torch.no_grad():
            states = model.get_encoder()(**source)
        mask = {"attention_mask": source["attention_mask"]} if "attention_mask" in source else {}
        return {"encoder_outputs": states, **mask}

    def generated(
        self, model: hf.PreTrainedModel, beams: int, cache: bool
    ) -> tuple[Tensor, Tensor]:
        """Eight generated tokens of each source, and the scores of all beams at every step."""
        out = model.generate(
            **self.source(),
            **self.generate,
            num_beams=beams,
            do_sample=False,
            use_cache=cache,
            suppress_tokens=[1],  # padding among the rows shifts the positions of some families
            min_new_tokens=8,
            max_new_tokens=8,
            return_dict_in_generate=True,
            output_scores=True,
        )
        return out.sequences, torch.stack(out.scores).clamp_min(-1e4)


def draw(model: hf.PreTrainedModel, spread: float, seed: int) -> None:
    """Draw every matrix from N(0, spread). Vectors stay as they were, and so do tables that are
    computed (some of them are not saved)."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() >= 2 and parameter.requires_grad:
                parameter.normal_(0, spread, generator=generator)


def text() -> Inputs:
    """(B, S) ids and their right-padded mask. Padding is id 1 for all: it is masked."""
    generator = torch.Generator().manual_seed(7)
    mask = (torch.arange(S) < torch.tensor(LENGTHS)[:, None]).long()
    ids = torch.randint(4, VOCABULARY, (B, S), generator=generator)
    return {"input_ids": ids.where(mask.bool(), 1), "attention_mask": mask}


def states(width: int = 16) -> Callable[[], Inputs]:
    """Ready encoder states (B, S, width) for a bare decoder."""

    def source() -> Inputs:
        generator = torch.Generator().manual_seed(7)
        return {
            "encoder_hidden_states": torch.randn(B, S, width, generator=generator),
            "encoder_attention_mask": text()["attention_mask"],
        }

    return source


def image() -> Inputs:
    """Pixels (B, 3, 12, 12): nine patches of 4 x 4."""
    return {"pixel_values": torch.randn(B, 3, 12, 12, generator=torch.Generator().manual_seed(7))}


def whisper_features() -> Inputs:
    """Log-mel features (B, 8, 24) that the encoder halves to S = 12."""
    return {"input_features": torch.randn(B, 8, 24, generator=torch.Generator().manual_seed(7))}


def patches() -> Inputs:
    """Pix2Struct's flattened patches (B, S, 2 + 12): row and column first, zeros are padding."""
    values = torch.randn(B, S, 14, generator=torch.Generator().manual_seed(7))
    values[..., :2] = torch.stack([torch.arange(S) // 3, torch.arange(S) % 3], dim=-1) + 1
    mask = text()["attention_mask"]
    return {"flattened_patches": values * mask[..., None], "attention_mask": mask.float()}


def mllama_image() -> Inputs:
    """One tile of (3, 12, 12) pixels each, which every row may attend to."""
    return {
        "pixel_values": image()["pixel_values"][:, None, None],
        "aspect_ratio_ids": torch.ones(B, 1, dtype=torch.long),
        "aspect_ratio_mask": torch.ones(B, 1, 1, dtype=torch.long),
        "cross_attention_mask": torch.ones(B, T, 1, 1, dtype=torch.long),
    }


def moonshine_audio() -> Inputs:
    """Samples (B, 4096) that the convolutions cut to S = 9, with their mask."""
    mask = torch.arange(4096) < 4096 * torch.tensor(LENGTHS)[:, None] // S
    generator = torch.Generator().manual_seed(7)
    return {
        "input_values": torch.randn(B, 4096, generator=generator),
        "attention_mask": mask.long(),
    }


def speech_frames() -> Inputs:
    """Filter banks (B, 4 S, 8) that two convolutions quarter to S, with their mask."""
    mask = text()["attention_mask"].repeat_interleave(4, dim=1)
    generator = torch.Generator().manual_seed(7)
    return {"input_features": torch.randn(B, 4 * S, 8, generator=generator), "attention_mask": mask}


def speech_samples() -> Inputs:
    """Samples (B, 40) that one convolution cuts to 9, with their mask."""
    mask = text()["attention_mask"].repeat_interleave(4, dim=1)
    generator = torch.Generator().manual_seed(7)
    return {"input_values": torch.randn(B, 4 * S, generator=generator), "attention_mask": mask}


def streamed_audio() -> Inputs:
    """Samples (B, 320 S), of which 320 make one position, with their mask."""
    mask = text()["attention_mask"].repeat_interleave(320, dim=1)
    generator = torch.Generator().manual_seed(7)
    return {"input_values": torch.randn(B, 320 * S, generator=generator), "attention_mask": mask}


def boxes() -> Inputs:
    """Text whose tokens have places on a page (B, S, 4)."""
    return {**text(), "bbox": torch.rand(B, S, 4, generator=torch.Generator().manual_seed(7))}
