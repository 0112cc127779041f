"""The source in the encoder: cross-attention is attached, and the special tokens of a source are
seen from outside.

Special tokens are known where the ids are: in the encoder and on the whole model. From there they
reach the attached modules through the scope of the thread. They also go along with the encoder's
output, where ``generate`` repeats them for its beams, and lie on the storage of its states, for
decoders that are called by themselves.
"""

# the types of transformers are named here but imported only when attaching
from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from torch import nn

from dwindle.attaching.cross import ALONG, KNOWN_BY, CrossAttention, few, mark
from dwindle.attaching.find import Found, cross_attention
from dwindle.attaching.handwritten import HandWritten
from dwindle.attaching.hooks import Attached, Begin, Hook, Link, SourceStrategy, given, parameters
from dwindle.core.rules import Rule

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class EncoderSource(SourceStrategy):
    """The source is what the encoder reads."""

    name = None

    def find(self, model: PreTrainedModel, modules: list[str] | None) -> list[Found]:
        return cross_attention(model, modules)

    def refuse(self, model: PreTrainedModel, rule: Rule) -> None:
        if rule.protect == "special" and not model.config.is_encoder_decoder:
            raise ValueError(
                f"{type(model).__name__} does not see the tokens of its source: leave "
                "+protect(special) out"
            )

    def attached(self, link: Link, found: Found) -> Attached:
        return (CrossAttention if found.path == "registry" else HandWritten).of(link, found)

    def watch(self, link: Link) -> None:
        model = link.model
        if link.rule.protect != "special":
            link.before(model, Begin(link))
            return
        link.before(model, SeeSource(link, parameters(model)))
        encoder = model.get_encoder()
        link.after(encoder, MarkSource(link, parameters(encoder)))


@dataclass
class MarkSource(Hook):
    """After the encoder: the special tokens of its source go along with its output, anywhere."""

    parameters: list[str]

    def __call__(
        self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        ids = given(self.parameters, args, kwargs).get("input_ids")
        if ids is None:
            return
        special = self.link.special_among(ids)
        mark(output[0], special)
        if isinstance(output, dict):
            # ``generate`` repeats them for the beams
            output[ALONG], output[KNOWN_BY] = special, few(output[0])


@dataclass
class SeeSource(Begin):
    """On the whole model: the special tokens of the source, from its ids or its encoder."""

    parameters: list[str]

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().__call__(module, args, kwargs)
        named = given(self.parameters, args, kwargs)
        here, ids = self.link.here, named.get("input_ids")
        here.encoded, here.special = named.get("encoder_outputs"), None
        if here.encoded is None and ids is not None:
            here.special = self.link.special_among(ids)
