"""The notation of rules: ``dydim:log,power(0.5)+renormalise``, and the paper's settings by name.

``rule(str(r)) == r`` for every rule r. A rule is written

    plain | dim:G | dydim:G1,G2 | temporal | paper:NAME | recommended:NAME

and then any number of ``+OPTION``, where G is a function (``log``, ``log(2.2)``, ``power(0.65)``,
``boxcox(0.5)``, ``identity``) and OPTION is ``renormalise``, ``share_heads``, ``detach_gate``,
``protect(special)`` or ``protect(0,-1)``.
"""

import difflib
import re
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any

from dwindle.core.concave import BoxCox, Concave, Log, Power, functions
from dwindle.core.constant import constant
from dwindle.core.rules import Dim, DyDim, Plain, RowRule, Rule
from dwindle.core.temporal import Temporal

PRESETS: dict[str, RowRule] = {
    # The paper's settings as printed (appendix A), contradictions included.
    "paper:pg-dim": Dim(Log()),
    "paper:pg-dydim": DyDim(Log(), Power(0.5)),
    "paper:bert-dim": Dim(Log(2.2)),  # "g = 2.2" in the paper; read as the base of the log
    "paper:bert-dydim": DyDim(Log(2.2), Power(0.5)),
    "paper:bart-dim": Dim(Power(0.65)),
    "paper:bart-dydim": DyDim(Power(0.65), Power(0.6)),
    "paper:nmt-dim": Dim(Power(0.65)),
    "paper:nmt-dydim": DyDim(Power(0.65), Power(0.6)),
    "paper:image-dim": Dim(Log(1.9)),
    "paper:image-dydim": DyDim(Log(1.9), Log(1.95)),
    # For a pointer-generator, past the logarithm: ahead of See's coverage on news
    # (docs/RESULTS.md), where the dynamic one repeats a little more and writes no more new trigrams
    # than plain attention does.
    "recommended:pg-dim": Dim(BoxCox(-4)),
    "recommended:pg-dydim": DyDim(BoxCox(-2), BoxCox(0.5)),
    # For the others the paper's curves with unit slope, and with g1 the one that diminishes faster:
    # certified. (The image pair has one curve at two scales, so with unit slope nothing dynamic is
    # left of it.)
    "recommended:bert-dim": Dim(BoxCox(0)),
    "recommended:bert-dydim": DyDim(BoxCox(0), BoxCox(0.5)),
    "recommended:bart-dim": Dim(BoxCox(0.65)),
    "recommended:bart-dydim": DyDim(BoxCox(0.6), BoxCox(0.65)),
    "recommended:nmt-dim": Dim(BoxCox(0.65)),
    "recommended:nmt-dydim": DyDim(BoxCox(0.6), BoxCox(0.65)),
    "recommended:image-dim": Dim(BoxCox(0)),
    # For a model that was never trained with a rule: unit slope, rows keep their mass, sinks keep
    # their weight.
    "training-free": Dim(BoxCox(0.5), renormalise=True, protect="special"),
}

EXAMPLES: dict[type[Rule], str] = {
    Plain: "plain",
    Dim: "dim:log",
    DyDim: "dydim:boxcox(0),boxcox(0.5)",
    Temporal: "temporal",
}
"""Every rule, and how it is written."""
_RULES = {cls.__name__.lower(): cls for cls in EXAMPLES}


_READ: dict[str, Rule] = {}  # what was read before


def rule(text: str | Rule) -> Rule:
    """The rule that ``text`` names.

    Args:
        text: notation such as ``"dydim:log,power(0.5)+renormalise"``, a name that ``dwindle rules``
            lists, or a rule, which is returned as it is.

    Returns:
        The rule.

    Example:
        >>> dwindle.rule("dim:log") == dwindle.Dim(dwindle.Log())
        True
    """
    if isinstance(text, Rule):
        return text
    if isinstance(text, Concave):
        raise ValueError(f"{text} is a function, not a rule: write 'dim:{text}'")
    if not isinstance(text, str):
        raise ValueError(f"a rule is written like 'dim:log', not {text!r}: see 'dwindle rules'")
    _read(text)
    return _READ[text]


def row_rule(text: str | Rule) -> RowRule:
    """The rule that ``text`` names, if it can be called on rows of attention."""
    named = rule(text)
    if not isinstance(named, RowRule):
        raise ValueError(
            f"the rule {named} works from scores, not from rows of attention: choose another rule "
            "here"
        )
    return named


@constant
def _read(text: str) -> None:
    """Read a rule into ``_READ``, where compilers find it: they cannot follow the reading."""
    if text not in _READ:
        head, *options = _split("+", "".join(text.lower().split()))
        named = _head(head)
        _READ[text] = replace(named, **_options(options, of=named))


def _head(text: str) -> Rule:
    """``plain``, ``dim:log``, ``paper:bart-dim``."""
    if text in PRESETS:
        return PRESETS[text]
    name, colon, rest = text.partition(":")
    if name not in _RULES or (colon and not _functions(_RULES[name])):
        known = [
            *PRESETS,
            *EXAMPLES.values(),
            *(f"{n}:{rest}" for n, cls in _RULES.items() if rest and _functions(cls)),
        ]
        raise _unknown("rule", text, known)
    parts, cls = _split(",", rest) if rest else [], _RULES[name]
    if len(parts) != _functions(cls):
        amount = {1: "one function", 2: "two functions"}[_functions(cls)]
        raise ValueError(f"{name} takes {amount}, not {len(parts)}: write {EXAMPLES[cls]!r}")
    return cls(*map(_function, parts))


def _functions(cls: type[Rule]) -> int:
    """Number of functions that a rule takes."""
    return sum(f.type is Concave for f in fields(cls))


def _function(text: str) -> Concave:
    """``log``, ``power(0.65)``."""
    name, arguments = _call(text)
    known = functions()
    if name not in known:
        raise _unknown("function", name, known)
    try:
        numbers = [float(x) for x in arguments]
    except ValueError:
        raise ValueError(
            f"{text!r} has something that is not a number: write it like 'power(0.5)'"
        ) from None
    try:
        return known[name](*numbers)
    except TypeError:
        takes = [f.name for f in fields(known[name])]
        raise ValueError(
            f"{name} takes ({', '.join(takes)}), not {text!r}: see 'dwindle rules'"
        ) from None


def _options(texts: list[str], of: Rule) -> dict[str, Any]:
    """``renormalise``, ``protect(0,-1)`` as keyword arguments of the rule ``of``."""
    switches = [f.name for f in fields(of) if isinstance(f.default, bool)]
    values: dict[str, Any] = {}
    for text in texts:
        name, arguments = _call(text)
        if text in switches:
            values[text] = True
        elif name == "protect" and arguments == ["special"]:
            values[name] = "special"
        elif name == "protect" and arguments and all(re.fullmatch(r"-?\d+", x) for x in arguments):
            values[name] = tuple(int(x) for x in arguments)
        else:
            raise _unknown("option", text, [*switches, "protect(special)", "protect(0,-1)"])
    return values


def _call(text: str) -> tuple[str, list[str]]:
    """``name(a,b)`` -> name, [a, b]."""
    name, bracket, rest = text.partition("(")
    if not bracket:
        return name, []
    if not rest.endswith(")"):
        raise ValueError(f"{text!r} lacks its closing bracket: write it like 'power(0.5)'")
    return name, _split(",", rest[:-1])


def _split(separator: str, text: str) -> list[str]:
    """Split where the separator is not inside brackets."""
    return re.split(re.escape(separator) + r"(?![^(]*\))", text)


def _unknown(what: str, text: str, known: Iterable[str]) -> ValueError:
    nearest = difflib.get_close_matches(text, list(known), n=1, cutoff=0.0)[0]
    return ValueError(f"unknown {what} {text!r}: did you mean {nearest!r}? See 'dwindle rules'")
