"""Attention that remembers what it has already used.

The public names are imported when they are first used: ``import dwindle`` alone does not even import torch, which keeps
the command's help and completion quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dwindle.attaching.handle import Handle, attach, detach, handle_of, source_span
    from dwindle.attaching.record import Record, record
    from dwindle.attaching.saved import from_pretrained
    from dwindle.core.certify import Certificate, certify
    from dwindle.core.concave import BoxCox, Concave, Identity, Log, Power
    from dwindle.core.coverage import Coverage
    from dwindle.core.functional import attention
    from dwindle.core.notation import rule
    from dwindle.core.rules import Dim, DyDim, Plain, Rule
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
    "handle_of",
    "record",
    "rule",
    "source_span",
]

_HOMES = {
    "attaching.handle": ["Handle", "attach", "detach", "handle_of", "source_span"],
    "attaching.record": ["Record", "record"],
    "attaching.saved": ["from_pretrained"],
    "core.certify": ["Certificate", "certify"],
    "core.concave": ["BoxCox", "Concave", "Identity", "Log", "Power"],
    "core.coverage": ["Coverage"],
    "core.functional": ["attention"],
    "core.notation": ["rule"],
    "core.rules": ["Dim", "DyDim", "Plain", "Rule"],
    "metrics.evaluate": ["evaluate"],
}
_HOME = {name: f"dwindle.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dwindle' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
