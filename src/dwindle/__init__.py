"""Attention that remembers what it has already used."""

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
from dwindle.listening.audit import omissions
from dwindle.listening.choose import listeners
from dwindle.listening.listeners import Finding, Listeners

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
    "from_pretrained",
    "listeners",
    "omissions",
    "record",
    "rule",
    "source_span",
]
