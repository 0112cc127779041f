"""Attention that remembers what it has already used.

The public names are imported when they are first used: ``import dwindle`` alone does not even
import torch, which keeps the command's help and completion quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dwindle.attaching.handle import Handle, attach, detach, handle_of, source_span
    from dwindle.attaching.record import Record, record
    from dwindle.auditing.audit import omissions
    from dwindle.auditing.auditor import Auditor
    from dwindle.auditing.choose import listeners
    from dwindle.auditing.listeners import Finding, Listeners
    from dwindle.auditing.repair import repair
    from dwindle.auditing.reverse import Reverse
    from dwindle.core.certify import Certificate, certify
    from dwindle.core.concave import BoxCox, Concave, Identity, Log, Power
    from dwindle.core.coverage import Coverage
    from dwindle.core.functional import attention
    from dwindle.core.notation import rule
    from dwindle.core.rules import Dim, DyDim, Plain, Rule
    from dwindle.metrics.evaluate import compare, evaluate
    from dwindle.models.loading import from_pretrained
    from dwindle.training.watch import Watch

__version__ = "0.2.0"

__all__ = [
    "Auditor",
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
    "Reverse",
    "Rule",
    "Watch",
    "attach",
    "attention",
    "certify",
    "compare",
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
    "auditing.audit": ["omissions"],
    "auditing.auditor": ["Auditor"],
    "auditing.choose": ["listeners"],
    "auditing.listeners": ["Finding", "Listeners"],
    "auditing.reverse": ["Reverse"],
    "auditing.repair": ["repair"],
    "metrics.evaluate": ["compare", "evaluate"],
    "models.loading": ["from_pretrained"],
    "training.watch": ["Watch"],
}
_HOME = {name: f"dwindle.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'dwindle' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
