"""Attention that remembers what it has already used."""

from typing import TYPE_CHECKING, Any

from dwindle.attaching.handle import Handle, detach
from dwindle.attaching.handle import attach as attach
from dwindle.attaching.prompt import source_span
from dwindle.attaching.record import Record, record
from dwindle.attaching.saved import from_pretrained
from dwindle.core.certify import Certificate, certify
from dwindle.core.concave import BoxCox, Concave, Identity, Log, Power
from dwindle.core.coverage import Coverage
from dwindle.core.functional import attention as attention
from dwindle.core.notation import rule
from dwindle.core.rules import Dim, DyDim, Plain, Rule

if TYPE_CHECKING:
    from dwindle.metrics.evaluate import evaluate

__version__ = "0.1.0"

__all__ = [
    "BoxCox",
    "Certificate",
    "Concave",
    "Coverage",
    "Dim",
    "DyDim",
    "Handle",
    "Identity",
    "Log",
    "Plain",
    "Power",
    "Record",
    "Rule",
    "attach",
    "attention",
    "certify",
    "detach",
    "evaluate",
    "from_pretrained",
    "record",
    "rule",
    "source_span",
]


def __getattr__(name: str) -> Any:
    """The metrics need numpy, which attention does not: they are imported when they are asked for."""
    if name == "evaluate":
        from dwindle.metrics.evaluate import evaluate

        return evaluate
    raise AttributeError(f"module 'dwindle' has no attribute {name!r}")
