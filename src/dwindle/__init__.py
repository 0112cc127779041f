"""Attention that remembers what it has already used."""

from dwindle.attach.handle import Handle, detach
from dwindle.attach.handle import attach as attach
from dwindle.attach.prompt import source_span
from dwindle.attach.record import Record, record
from dwindle.attach.saved import from_pretrained
from dwindle.attention.certify import Certificate, certify
from dwindle.attention.concave import BoxCox, Concave, Identity, Log, Power
from dwindle.attention.coverage import Coverage
from dwindle.attention.functional import attention as attention
from dwindle.attention.notation import rule
from dwindle.attention.rules import Dim, DyDim, Plain, Rule

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
    "from_pretrained",
    "record",
    "rule",
    "source_span",
]
