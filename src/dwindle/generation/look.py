"""``look``: what any saved model writes of one text, step by step. Knows where models come from; draws nothing."""

from pathlib import Path
from typing import Any

from dwindle.attaching.carrier import Carrier, carrier_of
from dwindle.core.rules import Plain
from dwindle.data.example import Example
from dwindle.folder.traces import Trace
from dwindle.generation.generate import generate
from dwindle.generation.settings import DecodingSettings
from dwindle.generation.tracing import traced
from dwindle.models.build import put_rule
from dwindle.models.codec import Codec
from dwindle.models.opened import opened
from dwindle.models.top_down_codec import RegionCodec

_LONGEST = 128
"""Generated tokens, for a model that does not say how many."""


def look(name: str, source: str, rule: str | None = None) -> dict[str, Trace]:
    """The trace of a model's output for ``source`` by the name of the model; with ``rule``, also that of the model with
    it."""
    model, codec = opened(name)
    if isinstance(codec, RegionCodec):
        raise ValueError(f"{name} reads the regions of an image, not text: take a model of texts")
    short = Path(name).name
    own = _rule_of(model)
    found = {f"{short} ({own})" if own else short: _trace(model, codec, source)}
    if rule is not None:
        put_rule(model, rule, None)
        found[f"{short} with {rule}"] = _trace(model, codec, source)
    return found


def _rule_of(model: Any) -> str | None:
    """The rule that a model carries, if it is not plain."""
    rule = carrier_of(model).rule
    return None if rule is None or isinstance(rule, Plain) else str(rule)


def _trace(model: Any, codec: Codec, source: str) -> Trace:
    batch = codec.collate([codec.encode(source)])
    if isinstance(model, Carrier):  # one of ours has no way of decoding of its own
        sequences = generate(model, batch, DecodingSettings(max_length=_LONGEST))
    else:  # as its makers meant it to decode; the library's own limit is 20 tokens
        config = model.generation_config
        limited = config.max_new_tokens is not None or config.max_length not in (None, 20)
        sequences = model.generate(**batch, **({} if limited else {"max_new_tokens": _LONGEST}))
    return traced(model, codec, Example("text", source, ()), batch, sequences)
