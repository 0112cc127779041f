"""Builds a model and its codec from settings, saves both in a folder and loads them. Knows no
corpus.

A model begins with random weights and a vocabulary of the training texts, or with ``start``: a
folder that ``save`` has written, or a published checkpoint by its name on the hub or its folder.
The rule goes in last.
"""

import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSeq2SeqLM, BertModel, PreTrainedModel

from dwindle.attaching.carrier import carrier_of
from dwindle.attaching.find import cross_attention
from dwindle.models import presets
from dwindle.models.codec import Codec
from dwindle.models.fairseq import FairseqConfig
from dwindle.models.library import bars_on_terminals
from dwindle.models.loading import from_pretrained
from dwindle.models.pieces import pieces
from dwindle.models.pointer_generator.config import PointerGeneratorConfig
from dwindle.models.pointer_generator.model import PointerGenerator
from dwindle.models.pointer_generator.words import WordCodec
from dwindle.models.presumm import PreSummConfig
from dwindle.models.settings import ModelSettings
from dwindle.models.subword import FILE, NEWLINE, SENTENCE, SubwordCodec, published, trained
from dwindle.models.top_down import TopDown, TopDownConfig
from dwindle.models.top_down_codec import RegionCodec
from dwindle.runfiles import whole
from dwindle.system import cache
from dwindle.system.hub import absence

Texts = Callable[[], Iterable[tuple[Any, str]]]
"""A function that yields the training pairs, source and target, from the first one at every
call."""

_TYPES = {
    "pointer-generator": [PointerGeneratorConfig.model_type],
    "transformer": ["marian", "t5", FairseqConfig.model_type],
    "bertsum": [PreSummConfig.model_type, "bert"],
    "bart": ["bart"],
    "top-down": [TopDownConfig.model_type],
}
"""The model types that each kind starts from."""
_OWN: dict[str, tuple[Any, Any]] = {
    PointerGeneratorConfig.model_type: (PointerGenerator, WordCodec),
    TopDownConfig.model_type: (TopDown, RegionCodec),
}
"""Our own models and their codecs, by model type."""


def build(
    settings: ModelSettings, texts: Texts, seed: int, corpus: str | None = None
) -> tuple[PreTrainedModel, Codec]:
    """The model that ``settings`` describe, and its codec. ``seed`` draws what is new in it.

    ``corpus``: a fingerprint of the texts. A vocabulary of them is then learnt once and kept in the
    user's cache.
    """
    if settings.kind == "lead-3":
        raise ValueError(
            "lead-3 copies the first sentences of its source: it has no model to build"
        )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model, codec = (
            _new(settings, texts, corpus)
            if settings.start is None
            else _started(settings, settings.start)
        )
    with warnings.catch_warnings():
        # A recipe that puts a rule on a checkpoint without one means to train it.
        warnings.filterwarnings("ignore", message=".* was not trained with")
        put_rule(model, settings.rule, settings.layers)
    return model, codec


def put_rule(model: PreTrainedModel, rule: str, layers: int | None) -> None:
    """Make ``rule`` the only rule of ``model``, or none if plain. ``layers``: as in settings."""
    carrier_of(model, rule_layers(model, layers)).set_rule(rule)


def rule_layers(model: PreTrainedModel, layers: int | None) -> int | None:
    """Number of last layers of a library model that get a rule: ``layers``, or the paper's number;
    None for all."""
    if layers is None and model.config.model_type in presets.PAPER_LAYERS:
        return min(presets.PAPER_LAYERS[model.config.model_type], len(cross_attention(model)))
    return layers


def is_saved(folder: Path) -> bool:
    """True if ``load`` can read ``folder``: it holds a model that ``save`` wrote."""
    config = folder / "config.json"
    if not config.is_file():
        return False
    return (folder / FILE).is_file() or json.loads(config.read_text(encoding="utf-8")).get(
        "model_type"
    ) in _OWN


def save(model: PreTrainedModel, codec: Codec, folder: str | Path) -> None:
    """Write model, rule and codec, all or nothing: a folder of that name is replaced when the new
    one is whole."""
    folder = Path(folder)
    new, old = (folder.with_name(f".{folder.name}.{state}") for state in ("writing", "old"))
    for left in (new, old):  # left by a process that was killed
        shutil.rmtree(left, ignore_errors=True)
    new.mkdir(parents=True)
    try:
        with bars_on_terminals(), whole.writing(folder):
            model.save_pretrained(new)
        codec.save_pretrained(new)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise
    if folder.exists():
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def load(folder: str | Path, **changes: Any) -> tuple[PreTrainedModel, Codec]:
    """Load what ``save`` has written, with its rule. ``changes`` go into the config before the
    model is made."""
    folder = Path(folder)
    if not (folder / "config.json").is_file():
        raise ValueError(f"{folder} is not a saved model: it has no config.json")
    kind = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("model_type")
    if kind in _OWN:
        model_class, codec_class = _OWN[kind]
        with bars_on_terminals():
            model = from_pretrained(folder, model_class, **changes)
        return model, codec_class.from_pretrained(folder)
    if not (folder / FILE).is_file():
        raise ValueError(
            f"{folder} has no {FILE}: it is not the model of a run, though it may be the start of "
            "one"
        )
    with bars_on_terminals():
        return from_pretrained(folder, **changes), SubwordCodec.from_pretrained(folder)


def _new(
    settings: ModelSettings, texts: Texts, corpus: str | None
) -> tuple[PreTrainedModel, Codec]:
    """Random weights, and a vocabulary of the training texts."""
    codec = _learnt(settings, texts) if corpus is None else _kept(settings, texts, corpus)
    numbers = presets.shape(settings.kind, settings.size, settings.dropout)
    if isinstance(codec, WordCodec):
        config = PointerGeneratorConfig(
            vocab_size=len(codec.vocabulary), **_pointer(settings), **numbers
        )
        return PointerGenerator(config), codec
    if isinstance(codec, RegionCodec):
        regions = {"feature_size": codec.width, "max_regions": codec.max_regions}
        return TopDown(TopDownConfig(vocab_size=len(codec.vocabulary), **regions, **numbers)), codec
    longest = max(settings.source_length, settings.target_length)
    return presets.new(
        settings.kind, settings.size, settings.dropout, codec.tokenizer, longest
    ), codec


def _learnt(settings: ModelSettings, texts: Texts) -> WordCodec | RegionCodec | SubwordCodec:
    """A codec with a vocabulary of the training texts."""
    lengths = settings.source_length, settings.target_length
    if settings.kind == "pointer-generator":
        return WordCodec.fitted(texts(), settings.vocabulary, *lengths)
    if settings.kind == "top-down":
        return RegionCodec.fitted(texts(), settings.vocabulary, *lengths)
    both = (text for pair in texts() for text in pair)
    if settings.pieces is None:
        tokenizer, separator = trained(both, settings.vocabulary, settings.kind), NEWLINE
    else:
        tokenizer, separator = pieces(settings.pieces, both, settings.kind), SENTENCE
    return SubwordCodec(tokenizer, *lengths, separator, sentences=settings.kind == "bertsum")


def _kept(
    settings: ModelSettings, texts: Texts, corpus: str
) -> WordCodec | RegionCodec | SubwordCodec:
    """The same from the user's cache, learnt the first time."""
    file = Path(settings.pieces or "")
    cut = hashlib.blake2b(file.read_bytes()).hexdigest() if file.is_file() else None
    key = [
        corpus,
        settings.kind,
        settings.vocabulary,
        settings.source_length,
        settings.target_length,
        cut,
    ]
    folder = cache.kept(
        "vocabulary", key, lambda made: _learnt(settings, texts).save_pretrained(made)
    )
    own = {"pointer-generator": WordCodec, "top-down": RegionCodec}
    return own.get(settings.kind, SubwordCodec).from_pretrained(folder)  # type: ignore[attr-defined, no-any-return]


def _pointer(settings: ModelSettings) -> dict[str, Any]:
    return {"coverage": settings.coverage, "copy": settings.copy}


def _started(settings: ModelSettings, start: str) -> tuple[PreTrainedModel, Codec]:
    """Weights and vocabulary of ``start``, at the lengths of ``settings``."""
    kind = _type_of(start)
    if kind not in _TYPES[settings.kind]:
        raise ValueError(
            f"{start} is a model of type {kind}, and a {settings.kind} starts from one of type "
            f"{' or '.join(_TYPES[settings.kind])}: name another start or another kind"
        )
    if settings.kind == "pointer-generator":
        model, codec = _pointing(settings, start)
    elif kind in _OWN or (Path(start) / FILE).is_file():
        model, codec = load(start)
    else:
        with bars_on_terminals():
            model, codec = _published(settings, start, kind)
    if isinstance(codec, SubwordCodec):
        if settings.wordpiece not in (None, codec.wordpiece):
            raise ValueError(
                f"{start} was saved with wordpiece={codec.wordpiece}: leave model.wordpiece out"
            )
        presets.lengthen(model, max(settings.source_length, settings.target_length))
    codec.limit(settings.source_length, settings.target_length)
    return model, codec


def _pointing(settings: ModelSettings, start: str) -> tuple[PreTrainedModel, Codec]:
    """A saved pointer-generator with the coverage and the copying of ``settings``."""
    saved = json.loads((Path(start) / "config.json").read_text(encoding="utf-8"))
    if saved.get("coverage") and not settings.coverage:
        raise ValueError(
            f"{start} was trained with coverage: pass model.coverage=true, or name a start "
            "without it"
        )
    return load(start, **_pointer(settings))


def _type_of(start: str) -> str:
    """The model type of a folder or of a name on the hub."""
    if (file := Path(start) / "config.json").is_file():
        return str(json.loads(file.read_text(encoding="utf-8")).get("model_type"))
    if Path(start).exists():
        raise ValueError(
            f"{start} is not a saved model: it has no config.json (dwindle import opens what "
            "others have published)"
        )
    if why := absence(start, "model"):
        raise ValueError(f"there is no folder {start}, and {why}")
    try:
        return str(AutoConfig.from_pretrained(start).model_type)
    except (OSError, ValueError) as error:
        why = str(error).strip().partition("\n")[0]
        raise ValueError(
            f"{start} is not a folder, and could not be loaded from the hub: {why}"
        ) from None


def _published(
    settings: ModelSettings, start: str, kind: str
) -> tuple[PreTrainedModel, SubwordCodec]:
    """A checkpoint of the library: a whole model, or the BERT of a BertSum."""
    sentences = settings.kind == "bertsum"
    tokenizer, separator = published(start, settings.kind)
    if kind == "bert":
        encoder = BertModel.from_pretrained(start, add_pooling_layer=False)
        encoder.resize_token_embeddings(len(tokenizer))
        numbers = presets.shape("bertsum", settings.size, settings.dropout)
        model = presets.bertsum(numbers, tokenizer, settings.target_length, encoder)
    else:
        model = from_pretrained(start, AutoModelForSeq2SeqLM)
        if len(tokenizer) > model.get_input_embeddings().num_embeddings:
            model.resize_token_embeddings(len(tokenizer))
    lengths = settings.source_length, settings.target_length
    words = settings.wordpiece or ("spaces" if kind == "bert" else None)
    return model, SubwordCodec(tokenizer, *lengths, separator, sentences, wordpiece=words)
