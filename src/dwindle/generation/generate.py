"""``generate``: finds the outputs of one batch exactly as ``DecodingSettings`` say.

It knows models, not text: a codec turns its sequences into words.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from dwindle.attaching.carrier import Carrier, carrier_of, source_of
from dwindle.attaching.handle import attach, detach, handle_of
from dwindle.core.rules import Plain, Rule
from dwindle.core.temporal import Temporal
from dwindle.generation.settings import DecodingSettings
from dwindle.models.codec import Codec
from dwindle.models.vocabulary import UNK
from dwindle.models.vocabulary_product import widened

if TYPE_CHECKING:
    from transformers import LogitsProcessor, PreTrainedModel

_KEPT = (
    "bos_token_id",
    "eos_token_id",
    "pad_token_id",
    "decoder_start_token_id",
    "forced_bos_token_id",
    "forced_eos_token_id",
    "suppress_tokens",
    "begin_suppress_tokens",
    "bad_words_ids",
)
"""Keys of a checkpoint's generation config that are kept: its special tokens."""


_FIRST = "dwindle_first_token"
"""Attribute of the generation config with the forced first token, for ``search: fairseq``."""
_OPENINGS = {"see": "see", "see-port": "port"}
"""The way in which a pointer-generator takes its first step, by the ``search`` of the settings."""
Watch = Callable[[Tensor], bool]
"""Called with the best hypothesis (1, 1 + t) after each step of the first source; True ends the
search."""


def generate(
    model: "PreTrainedModel",
    batch: dict[str, Any],
    settings: DecodingSettings,
    codec: Codec | None = None,
) -> Tensor:
    """The best hypothesis for each source.

    Args:
        model: an encoder-decoder model of the library, or one of ours.
        batch: what a codec's ``collate`` gives; labels are not looked at.
        settings: how to search.
        codec: the model's, which knows the token between sentences, and words: for n-gram blocking.

    Returns:
        (B, 1 + T): the start token, then T generated tokens, padded after the end token.
    """
    with prepared(model, settings):
        return search(model, batch, settings, codec)


def search(
    model: "PreTrainedModel",
    batch: dict[str, Any],
    settings: DecodingSettings,
    codec: Codec | None = None,
    watch: Watch | None = None,
) -> Tensor:
    """``generate`` on a model that is already ``prepared``."""
    from transformers import LogitsProcessorList, StoppingCriteriaList

    from dwindle.generation.search import Search

    ends = model.generation_config.eos_token_id
    processors = LogitsProcessorList(
        [*_original(model, settings), *_processors(settings, ends, codec)]
    )
    given = {
        k: v.to(model.device) if isinstance(v, Tensor) else v
        for k, v in batch.items()
        if k != "labels"
    }
    how: dict[str, Any] = {"custom_generate": Search(settings)} if settings.beams > 1 else {}
    if watch is not None:
        how["stopping_criteria"] = StoppingCriteriaList([_watched(watch)])
    with torch.no_grad():
        sequences: Tensor = model.generate(**given, logits_processor=processors, **how)
    return sequences


def _watched(watch: Watch) -> Callable[..., Tensor]:
    """Poses as a stopping criterion: the library asks it after each step, best hypothesis first."""

    def criterion(sequences: Tensor, scores: Any, **_: Any) -> Tensor:
        return torch.full((len(sequences),), watch(sequences[:1]), device=sequences.device)

    return criterion


def _original(model: "PreTrainedModel", settings: DecodingSettings) -> "Iterator[LogitsProcessor]":
    """Changes that the search of an original makes to the log-probabilities of a step."""
    from dwindle.generation.processors import OnlyAt, Unlikely

    if settings.search == "captioner" and settings.beams > 1:  # its greedy search does not
        yield Unlikely(UNK)
    if settings.search == "fairseq":
        first = getattr(model.generation_config, _FIRST, None)
        end = model.generation_config.eos_token_id
        if first is not None:
            yield OnlyAt(1, first)
        if isinstance(end, int):
            yield OnlyAt(settings.max_length, end)


def _processors(
    settings: DecodingSettings, ends: int | list[int] | None, codec: Codec | None
) -> "Iterator[LogitsProcessor]":
    """The processors that change the log-probabilities of a step."""
    from transformers.generation.logits_process import (
        LogitNormalization,
        RepetitionPenaltyLogitsProcessor,
    )

    from dwindle.generation.processors import BlockTokens, BlockWords, LeastLength, SoftTrigrams

    if settings.min_length and ends is not None:
        yield LeastLength(settings.min_length, ends)
    # our own: the library's would punish the start token, which often is the end token
    if settings.repetition_penalty != 1:
        yield LogitNormalization()  # as in a beam search: greedy search would hand over raw logits
        yield RepetitionPenaltyLogitsProcessor(settings.repetition_penalty, prompt_ignore_length=1)
    if settings.soft_trigrams:
        yield SoftTrigrams(settings.soft_trigrams)
    if settings.block_by == "words":
        if codec is None:
            raise ValueError(
                "decoding: block_by words needs to know what a word is: pass the model's codec"
            )
        yield BlockWords(settings.block_ngrams, codec.words)
    elif settings.block_ngrams:
        yield BlockTokens(settings.block_ngrams, None if codec is None else codec.sentence_break)


@contextmanager
def prepared(
    model: "PreTrainedModel", settings: DecodingSettings, layers: int | None = None
) -> Iterator[None]:
    """For the time of the block: evaluation mode, only these settings, counted attention where it
    is needed, and the fastest product with the vocabulary.

    ``layers``: as in ``counted``.
    """
    from transformers import GenerationConfig

    _check_length(model, settings)
    before, training = model.generation_config, model.training
    kept = {name: getattr(before, name, None) for name in _KEPT}
    first = kept["forced_bos_token_id"]
    if settings.search == "fairseq":  # which forces tokens in its own way
        kept |= {"forced_bos_token_id": None, "forced_eos_token_id": None}
    model.generation_config = GenerationConfig(
        **{name: value for name, value in kept.items() if value is not None},
        num_beams=settings.beams,
        do_sample=settings.sample,
        # 0 draws from all tokens; the library's default draws from the best 50
        **({"top_k": 0} if settings.sample else {}),
        use_cache=True,
        max_new_tokens=settings.max_length,
        **({"early_stopping": settings.stopping == "beams"} if settings.beams > 1 else {}),
    )
    setattr(model.generation_config, _FIRST, first)
    model.eval()
    try:
        with (
            widened(model),
            _opened(model, settings),
            _ruled(model, settings, layers),
            _attention(model, settings, layers),
        ):
            yield
    finally:
        model.generation_config = before
        model.train(training)


@contextmanager
def _opened(model: "PreTrainedModel", settings: DecodingSettings) -> Iterator[None]:
    """Inside the block, a pointer-generator takes its first step like the original that the
    settings name."""
    _check_search(model, settings)
    if settings.search not in _OPENINGS:
        yield
        return
    decoder: Any = model.decoder
    decoder.opening = _OPENINGS[settings.search]
    try:
        yield
    finally:
        decoder.opening = "trained"


def _check_search(model: "PreTrainedModel", settings: DecodingSettings) -> None:
    own = {
        "see": "pointer-generator",
        "see-port": "pointer-generator",
        "captioner": "top-down",
    }.get(settings.search)
    if own and own not in model.config.model_type:
        raise ValueError(
            f"decoding: search {settings.search} is for a {own}, and this is a "
            f"{type(model).__name__}: leave it out"
        )


@contextmanager
def _ruled(
    model: "PreTrainedModel", settings: DecodingSettings, layers: int | None
) -> Iterator[None]:
    """For the time of the block, the rule and the way of copying that the settings name; then the
    model's own again."""
    with _copying(model, settings):
        if settings.rule is None:
            yield
        elif isinstance(model, Carrier):
            before = model.rule
            model.set_rule(settings.rule)
            try:
                yield
            finally:
                model.set_rule(before or Plain())
        else:
            with _attached(model, settings.rule, layers):
                yield


@contextmanager
def _attached(model: "PreTrainedModel", rule: str, layers: int | None) -> Iterator[None]:
    """Inside the block, a library model has ``rule`` on the layers where it had one, or would have
    one."""
    from dwindle.models.build import rule_layers

    own = handle_of(model)
    where: Any = {
        "source": source_of(model),
        "layers": own.layers if own else rule_layers(model, layers),
    }
    if own is not None:
        where |= {"modules": own.settings.modules, "backend": own.backend}

    def put(rule: Rule | str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that the model was not trained with it is the point
            attach(model, rule, **where)

    put(rule)
    try:
        yield
    finally:
        if own is None:
            detach(model)
        else:
            put(own.rule)


@contextmanager
def _copying(model: "PreTrainedModel", settings: DecodingSettings) -> Iterator[None]:
    """For the time of the block, a pointer-generator that copies as the settings say."""
    if settings.copy is None:
        yield
        return
    if not hasattr(model.config, "copy"):
        raise ValueError(f"{type(model).__name__} does not copy: decode it without decoding.copy")
    before, model.config.copy = model.config.copy, settings.copy
    try:
        yield
    finally:
        model.config.copy = before


@contextmanager
def _attention(
    model: "PreTrainedModel", settings: DecodingSettings, layers: int | None
) -> Iterator[None]:
    """Temporal attention, or attention that is counted, if the settings ask for it."""
    if settings.temporal:
        with _temporal(model, layers):
            yield
    elif settings.coverage_penalty != "none":
        with counted(model, layers):
            yield
    else:
        yield


@contextmanager
def _temporal(model: "PreTrainedModel", layers: int | None) -> Iterator[None]:
    """For the time of the block, temporal attention on the layers that a rule would have."""
    from dwindle.models.build import rule_layers

    config = model.config
    if isinstance(model, Carrier):
        if not hasattr(config, "temporal"):
            raise ValueError(
                f"{type(model).__name__} has no temporal attention: decode with temporal=false"
            )
        before, config.temporal = config.temporal, True
        try:
            yield
        finally:
            config.temporal = before
        return
    rule = carrier_of(model).rule
    if rule is None:
        with attach(model, Temporal(), rule_layers(model, layers)):
            yield
    elif rule == Temporal():
        yield
    else:
        raise ValueError(
            f"this model has the rule {rule}, and temporal attention takes its place: decode "
            "without"
        )


@contextmanager
def counted(model: "PreTrainedModel", layers: int | None = None) -> Iterator[None]:
    """Inside the block, the coverage of ``model`` is counted: by its rule, or by a plain one.

    ``layers``: on how many of the last layers, where there is no rule; None: those that a rule
    would have.
    """
    from dwindle.models.build import rule_layers

    if carrier_of(model).rule is not None:
        yield
        return
    with attach(model, Plain(), rule_layers(model, layers), source=source_of(model)):
        yield


def _check_length(model: "PreTrainedModel", settings: DecodingSettings) -> None:
    limit = getattr(model.config.get_text_config(decoder=True), "max_position_embeddings", None)
    if limit is not None and settings.max_length > limit:
        raise ValueError(
            f"decoding: max_length {settings.max_length} is more than the {limit} positions this "
            f"{type(model).__name__} has: give {limit} or less"
        )
