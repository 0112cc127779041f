"""Attention that remembers what it has already used.

The public names are imported when they are first used: ``import dwindle`` alone does not even import torch, which keeps
the command's help and completion quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dwindle.attaching.handle import Handle, attach, detach, handle_of, source_span
    from dwindle.attaching.record import Record, record
    from dwindle.core.certify import Certificate, certify
    from dwindle.core.concave import BoxCox, Concave, Identity, Log, Power
    from dwindle.core.coverage import Coverage
    from dwindle.core.functional import attention
    from dwindle.core.notation import rule
    from dwindle.core.rules import Dim, DyDim, Plain, Rule
    from dwindle.listening.audit import omissions
    from dwindle.listening.choose import listeners
    from dwindle.listening.listeners import Finding, Listeners
    from dwindle.listening.repair import repair
    from dwindle.metrics.evaluate import evaluate
    from dwindle.models.loading import from_pretrained

__version__ = "0.1.0"

__all__ = [
    "BoxCox",
    "Certificate",
    "Concave",
    "Coverage",
    "Dim",
    "DyDim",
    "Finding",
    "Handle",
    "Identity",
    "Listeners",
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
    "listeners",
    "omissions",
    "record",
    "repair",
    "rule",
    "source_span",
]

_HOMES = {
    "attaching.handle": ["Handle", "attach", "detach", "handle_of", "source_span"],
    "attaching.record": ["Record", "record"],
    "core.certify": ["Certificate", "certify"],
    "core.concave": ["BoxCox", "Concave", "Identity", "Log", "Power"],
    "core.coverage": ["Coverage"],
    "core.functional": ["attention"],
    "core.notation": ["rule"],
    "core.rules": ["Dim", "DyDim", "Plain", "Rule"],
    "listening.audit": ["omissions"],
    "listening.choose": ["listeners"],
    "listening.listeners": ["Finding", "Listeners"],
    "listening.repair": ["repair"],
    "metrics.evaluate": ["evaluate"],
    "models.loading": ["from_pretrained"],
}
_HOME = {name: f"dwindle.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dwindle' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
