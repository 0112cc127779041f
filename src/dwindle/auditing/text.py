"""``TextReader``: feeds texts to a text-to-text model, each piece with its characters."""

import random
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from dwindle.auditing.source import ReadSource, words
from dwindle.bulk.batches import batches
from dwindle.data.script import Span, is_unspaced
from dwindle.models.token_offsets import places
from dwindle.models.vocabulary_product import widened

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

_LONGEST = 1024
"""Largest number of tokens where neither the tokenizer nor the model has a limit."""
MOST_LOGITS = 2**26
"""Numbers that the output layer writes at once (256 MB): a vocabulary for each token."""
_PROBE = "Listeners, 2 of 34: ¿qué? 注意力 внимание."
_AS_TEXT: dict[str, Any] = {"split_special_tokens": True, "verbose": False}
"""A text that has ``</s>`` written in it does not end there."""


class TextReader:
    """Texts, counted in characters."""

    unit = "characters"

    def __init__(self, model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> None:
        self.model, self.tokenizer = model, tokenizer
        _check(model, tokenizer)
        positions = getattr(model.config, "max_position_embeddings", None) or _LONGEST
        self.longest = int(min(tokenizer.model_max_length, positions))

    def read(self, source: str) -> ReadSource:
        ids = self.tokenizer(source, **_AS_TEXT)["input_ids"]
        pieces = self._pieces(source, ids)
        cut = len(ids) > self.longest
        if cut:
            ids, pieces = [*ids[: self.longest - 1], ids[-1]], [*pieces[: self.longest - 1], (0, 0)]
        parts, owner = words(source, pieces)
        read = int(max((part.end for part in parts), default=0)) if cut else len(source)
        return ReadSource({"input_ids": ids}, parts, owner, len(source), read)

    def batch(
        self, sources: Sequence[ReadSource], outputs: Sequence[str]
    ) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        read = self._shifted(self._labels(outputs))
        special = torch.tensor(self.tokenizer.all_special_ids, device=read.device)
        return self._inputs(sources), read, ~torch.isin(read, special)

    def likelihood(self, sources: Sequence[str], outputs: Sequence[str]) -> list[float]:
        """The log-probability of each output, given its source."""
        return [-float(each.sum()) for each in self.surprise(sources, outputs)]

    @torch.inference_mode()
    def surprise(self, sources: Sequence[str], outputs: Sequence[str]) -> list[Tensor]:
        """(T,) for each pair: minus the log-probability of the output's tokens given its source."""
        labels = self._labels(outputs)
        vocabulary = int(self.model.get_output_embeddings().weight.shape[0])
        at_once = max(1, MOST_LOGITS // (vocabulary * labels.shape[1]))
        found: list[Tensor] = []
        for some in batches(zip(sources, labels, strict=True), at_once):
            inputs = self._inputs([self.read(source) for source, _ in some])
            wanted = torch.stack([row for _, row in some])
            with widened(self.model, every=True):
                logits = self.model(
                    **inputs, decoder_input_ids=self._shifted(wanted), use_cache=False
                ).logits.float()
            each = nn.functional.cross_entropy(
                logits.transpose(1, 2), wanted, reduction="none"
            ).cpu()
            found += [row[mask] for row, mask in zip(each, (wanted != -100).cpu(), strict=True)]
        return found

    def written(self, output: str) -> list[Span]:
        """Position in a text of each token that the model would write, (T,); empty for one that is
        not in the text."""
        return self._pieces(output, self._target_ids([output])[0], target=True)

    def _target_ids(self, outputs: Sequence[str]) -> list[list[int]]:
        encoded = self.tokenizer(
            text_target=list(outputs), truncation=True, max_length=self.longest, **_AS_TEXT
        )
        return [list(ids) for ids in encoded["input_ids"]]

    def _labels(self, outputs: Sequence[str]) -> Tensor:
        return _padded(self._target_ids(outputs), -100).to(self.model.device)

    def write(self, sources: Sequence[str]) -> list[str]:
        inputs = self._inputs([self.read(source) for source in sources])
        with widened(self.model, every=True):
            written = self.model.generate(**inputs, **self._limits())
        return list(self.tokenizer.batch_decode(written, skip_special_tokens=True))

    def best(self, sources: Sequence[str], beams: int) -> list[list[tuple[str, float]]]:
        """The hypotheses of a beam search for each source, the best first, with their
        log-probabilities per token."""
        how = {
            "num_beams": beams,
            "num_return_sequences": beams,
            "do_sample": False,
            "length_penalty": 1.0,
        }
        inputs = self._inputs([self.read(source) for source in sources])
        with widened(self.model, every=True):
            found = self.model.generate(
                **inputs, **self._limits(), **how, return_dict_in_generate=True, output_scores=True
            )
        texts = self.tokenizer.batch_decode(found.sequences, skip_special_tokens=True)
        told = list(zip(texts, found.sequences_scores.tolist(), strict=True))
        return [told[n : n + beams] for n in range(0, len(told), beams)]

    def _limits(self) -> dict[str, Any]:
        """Arguments for ``generate`` besides the model's own: a length, and the language."""
        config = self.model.generation_config
        # a max_length of 20 is the library's default, not a choice of the model's makers
        limited = config.max_new_tokens is not None or config.max_length not in (None, 20)
        more: dict[str, Any] = {} if limited else {"max_new_tokens": self.longest // 2}
        language = getattr(self.tokenizer, "tgt_lang", None)
        if (
            language
            and config.forced_bos_token_id is None
            and language in self.tokenizer.get_vocab()
        ):
            more["forced_bos_token_id"] = self.tokenizer.convert_tokens_to_ids(language)
        return more

    def join(self, sources: Sequence[str]) -> tuple[str, list[tuple[float, float]]]:
        gap = "" if is_unspaced(sources[0]) else " "
        ends = torch.tensor([len(source) + len(gap) for source in sources]).cumsum(0).tolist()
        return gap.join(sources), [
            (end - len(s) - len(gap), end) for s, end in zip(sources, ends, strict=True)
        ]

    def shorten(self, source: str, rng: random.Random) -> tuple[str, tuple[float, float]] | None:
        parts = [part for part in self.read(source).parts if part.end - part.start > 1]
        if len(parts) < 2:
            return None
        part = rng.choice(parts)
        return source[: int(part.start)] + source[int(part.end) :], (part.start, part.end)

    def join_outputs(self, outputs: Sequence[str]) -> str:
        return ("" if is_unspaced(outputs[0]) else " ").join(outputs)

    def probe(self) -> list[int]:
        return list(self.tokenizer(_PROBE, **_AS_TEXT)["input_ids"])

    def _inputs(self, sources: Sequence[ReadSource]) -> dict[str, Tensor]:
        ids = [source.given["input_ids"] for source in sources]
        pad, device = self.tokenizer.pad_token_id, self.model.device
        mask = _padded([[1] * len(row) for row in ids], 0)
        return {"input_ids": _padded(ids, pad).to(device), "attention_mask": mask.to(device)}

    def _shifted(self, labels: Tensor) -> Tensor:
        """The decoder's input: the output behind its start token."""
        prepare = getattr(self.model, "prepare_decoder_input_ids_from_labels", None)
        if prepare is not None:
            shifted: Tensor = prepare(labels)
            return shifted
        start = torch.full_like(labels[:, :1], self.model.config.decoder_start_token_id)
        read = torch.cat([start, labels[:, :-1]], 1)
        return read.masked_fill(read == -100, self.tokenizer.pad_token_id)

    def _pieces(self, text: str, ids: list[int], target: bool = False) -> list[Span]:
        """Position of each token in the text, (S,); empty for one that is not in the text."""
        if self.tokenizer.is_fast:
            given = {"text_target" if target else "text": text}
            encoded = self.tokenizer(**given, return_offsets_mapping=True, **_AS_TEXT)
            return [(int(a), int(b)) for a, b in encoded["offset_mapping"][: len(ids)]]
        tokens = [self.tokenizer.convert_ids_to_tokens(i) for i in ids]
        at = places(tokens, _plain(text))
        return [
            (a, a + len(t.strip("▁ "))) if a >= 0 else (0, 0)
            for a, t in zip(at, tokens, strict=True)
        ]


def _plain(text: str) -> str:
    """The text with full-width letters and digits as vocabularies have them, one for one."""
    return "".join(n if len(n := unicodedata.normalize("NFKC", c)) == 1 else c for c in text)


def _padded(rows: Sequence[Sequence[int]], value: int) -> Tensor:
    return pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], True, value)


def _check(model: "PreTrainedModel", tokenizer: "PreTrainedTokenizerBase") -> None:
    """A tokenizer of another model gives ids that mean something else."""
    size = int(model.get_input_embeddings().num_embeddings)
    ours, theirs = model.config.eos_token_id, tokenizer.eos_token_id
    ends = ours if isinstance(ours, list) else [ours]
    if len(tokenizer) > size or (theirs is not None and ours is not None and theirs not in ends):
        raise ValueError(
            f"the tokenizer has {len(tokenizer)} tokens and ends a text with {theirs}, the model "
            f"has {size} and ends it"
            f" with {ours}: load both from one folder"
        )
