"""``Author``: a saved model that writes about one text at a time, with its own rule or another, and
can be watched.

Its attention is computed afterwards, by one pass over what is written so far, so looking in the
middle of a search does not change it. Knows where models come from; draws nothing.
"""

import copy
import itertools
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from torch import Tensor

from dwindle.attaching.carrier import Carrier, carrier_of, source_of
from dwindle.attaching.find import Found, cross_attention, self_attention
from dwindle.attaching.handle import handle_of
from dwindle.core.notation import rule as parse
from dwindle.core.rules import Plain
from dwindle.data.example import Example
from dwindle.data.script import has_unspaced, word_spans
from dwindle.generation.generate import counted, prepared, search
from dwindle.generation.settings import DecodingSettings
from dwindle.generation.tracing import traced
from dwindle.models.codec import Batch
from dwindle.models.opened import opened
from dwindle.models.subword import PromptCodec, SubwordCodec
from dwindle.models.top_down_codec import RegionCodec
from dwindle.runfiles.arrays import Trace
from dwindle.runfiles.run import Run

_LONGEST = 128
"""Largest number of generated tokens for a model that does not name one."""
_STRANGE = 0.3
"""Share of unknown words in a text above which a model has little to write about."""
_SHOWN = 60
"""Most characters of unknown words that are told."""
_PAUSE = 0.15
"""Fewest seconds between two looks. A slow model is looked at less often."""


class Author:
    """One open model of texts."""

    def __init__(self, path: str) -> None:
        self.path, self.name = path, _name(path)
        one = opened(path)
        if one.codec is None:
            kind = one.model.main_input_name
            raise ValueError(
                f"{path} reads sounds or images ({kind}), not text: take a model of texts"
            )
        if isinstance(one.codec, RegionCodec):
            raise ValueError(
                f"{path} reads the regions of an image, not text: take a model of texts"
            )
        self.model, self.codec = one.model, one.codec
        carried, handle = carrier_of(self.model).rule, handle_of(self.model)
        self.rule = None if carried is None or isinstance(carried, Plain) else str(carried)
        """The rule it was saved with, if it is not plain."""
        self._saved_layers = handle.layers if handle else None
        self.layers = None if isinstance(self.model, Carrier) else len(_attention(self.model))
        """Number of layers that can have a rule; None where the rule is built in."""
        self.usual = _usual(self.model, Path(path))
        """Default decoding settings: those of its run or of its makers."""

    def twin(self) -> Self:
        """The same author once more: a model of its own for another rule, which shares the weights.

        So one search can go on while another, with another rule, waits in the middle.
        """
        other = copy.copy(self)
        tensors = itertools.chain(self.model.parameters(), self.model.buffers())
        other.model = copy.deepcopy(self.model, {id(tensor): tensor for tensor in tensors})
        return other

    def remarks(self, text: str) -> list[str]:
        """Warnings about ``text``: a part that is not read, words that are not known."""
        said, words = [], _words(text) if isinstance(self.codec, SubwordCodec) else text.split()
        row = self.codec.encode(text)
        if row["cut"]:
            said.append(
                f"The text is longer than {self.name} reads: it was cut after "
                f"{len(row['input_ids'])} tokens, and what comes after was not given to it."
            )
        strange = self.codec.unknown(" ".join(words))
        if len(strange) > _STRANGE * len(words):
            some = ", ".join(dict.fromkeys(strange[:50]))
            if len(some) > _SHOWN:
                some = some[:_SHOWN].rpartition(",")[0] or strange[0][:_SHOWN]
            said.append(
                f"{len(strange)} of the {len(words)} words of this text are not in the vocabulary "
                f"of {self.name} "
                f"({some}): it was trained on other texts, and what it writes here says little."
            )
        return said

    def put(self, rule: str | None, layers: int | None = None) -> list[str]:
        """Make ``rule`` its only rule, on the last ``layers``; None is the rule it was saved with.
        Returns warnings about it."""
        from dwindle.models.build import rule_layers

        with warnings.catch_warnings(record=True) as notes:
            warnings.simplefilter("always")
            if rule is None:
                carrier_of(self.model, self._saved_layers).set_rule(self.rule or "plain")
            else:
                carrier_of(self.model, rule_layers(self.model, layers)).set_rule(parse(rule))
        return (
            []
            if rule is None
            else [str(note.message) for note in notes if issubclass(note.category, UserWarning)]
        )

    def write(
        self,
        text: str,
        settings: DecodingSettings | None = None,
        show: Callable[[Trace], None] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Trace:
        """Write about ``text``, step by step.

        Args:
            text: the source. settings: how to search; None for the usual way. show: is given the
            best output so far, now and then. stop: asked after each step; True ends the search. It
            may wait, so that others can work.
        """
        settings = settings or self.usual
        batch = self.codec.collate([self.codec.encode(text)])
        self.check_room(batch, settings)
        look = _Look(lambda tokens: self._trace(text, batch, tokens), show, stop)
        with prepared(self.model, settings), counted(self.model):
            return self._trace(text, batch, search(self.model, batch, settings, self.codec, look))

    def check_room(self, batch: Batch, settings: DecodingSettings) -> None:
        """Refuse more than there is room for: the prompt of a decoder-only model and what it writes
        share its positions."""
        given, most = batch["input_ids"].shape[1], _positions(self.model)
        if isinstance(self.codec, PromptCodec) and most and given + settings.max_length > most:
            raise ValueError(
                f"decoding: the prompt has {given} of the {most} positions of {self.name}: "
                f"write at most {most - given} tokens"
            )

    def _trace(self, text: str, batch: Batch, tokens: Tensor) -> Trace:
        return traced(self.model, self.codec, Example("text", text, ()), batch, tokens)


def _attention(model: Any) -> list[Found]:
    """The modules that a rule can be in."""
    return self_attention(model) if source_of(model) == "prompt" else cross_attention(model)


def _name(path: str) -> str:
    """Name of the model: its folder or its hub name; for a run of an arena, arm and seed."""
    folder = Path(path).resolve()
    if not folder.exists():
        return path
    return "/".join(folder.parts[-2:]) if folder.name.startswith("seed-") else folder.name


def _words(text: str) -> list[str]:
    """Words between blanks; in scripts without blanks, every character."""
    return [
        word[first:last]
        for word in text.split()
        for first, last in (word_spans(word) if has_unspaced(word) else [(0, len(word))])
    ]


class _Look:
    """Watches a search: shows what is written so far, at most half of the time."""

    def __init__(
        self,
        trace: Callable[[Tensor], Trace],
        show: Callable[[Trace], None] | None,
        stop: Callable[[], bool],
    ) -> None:
        self.trace, self.show, self.stop = trace, show, stop
        self.next = 0.0

    def __call__(self, tokens: Tensor) -> bool:
        begun = time.monotonic()
        if self.show and begun >= self.next:
            self.show(self.trace(tokens))
            done = time.monotonic()
            self.next = done + max(_PAUSE, done - begun)
        waiting = time.monotonic()
        ended = self.stop()
        self.next += time.monotonic() - waiting  # while others worked, this one has not written
        return ended


def _positions(model: Any) -> int | None:
    """Longest sequence of the decoder; None where there is no limit."""
    found: int | None = getattr(
        model.config.get_text_config(decoder=True), "max_position_embeddings", None
    )
    return found


def _usual(model: Any, path: Path) -> DecodingSettings:
    """The decoding of the model's run; else of its makers, as far as settings here can say it."""
    said = Run(path).settings.get("decoding")
    if isinstance(said, dict):
        return DecodingSettings(**said)
    if isinstance(model, Carrier):
        return DecodingSettings(max_length=_LONGEST)
    config = model.generation_config
    # a max_length of 20 is the library's default, not a choice of the model's makers
    length = config.max_new_tokens or (config.max_length if config.max_length != 20 else None)
    positions = _positions(model) or _LONGEST
    length = min(
        length or _LONGEST, positions if model.config.is_encoder_decoder else positions // 2
    )
    return DecodingSettings(
        beams=config.num_beams or 1,
        max_length=length,
        min_length=min(config.min_length or 0, length - 1),
        alpha=max(config.length_penalty if config.length_penalty is not None else 1.0, 0.0),
        stopping="beams" if config.early_stopping is True else "bound",
        block_ngrams=config.no_repeat_ngram_size or 0,
        repetition_penalty=config.repetition_penalty or 1.0,
    )
