"""One vocabulary for Python, C++ and Triton."""

import re
from pathlib import Path

import pytest

import dwindle
from dwindle.core.backends.cpu import with_terms
from dwindle.core.backends.polynomial import terms
from dwindle.native import vocabulary
from dwindle.native.vocabulary import RULE, TERMS, GainKind, KernelNumbers, Mode

SOURCES = {
    file.name: file.read_text(encoding="utf-8")
    for file in sorted(Path(vocabulary.__file__).parent.iterdir())
    if file.suffix in (".h", ".cpp")
}


def test_the_header_has_every_word():
    text = vocabulary.header()
    (fields,) = re.findall(r"struct RuleNumbers \{ double (.*), terms1\[TERMS\]", text)
    assert tuple(fields.split(", ")) == RULE
    assert f"TERMS = {TERMS};" in text
    for words in (Mode, GainKind):
        assert all(f"{word.name} = {word.value}" in text for word in words)


def test_no_source_defines_a_word_again():
    again = r"\b(enum (Mode|Kind)\b|struct RuleNumbers|int TERMS = )"
    assert not [name for name, text in SOURCES.items() if re.search(again, text)]


def test_sources_read_a_rule_by_its_words_only():
    read = {word for text in SOURCES.values() for word in re.findall(r"\brule\.(\w\w+)", text)}
    assert read <= {*RULE, "terms1", "terms2"}
    assert read > {"mode", "kind1", "kind2", "terms1", "terms2"}
    assert not [name for name, text in SOURCES.items() if re.search(r"\brule\[", text)]


@pytest.mark.parametrize(
    ("rule", "mode", "kinds"),
    [
        ("plain", Mode.PLAIN, (GainKind.NONE, GainKind.NONE)),
        ("dim:log", Mode.DIM, (GainKind.LOG, GainKind.NONE)),
        ("dim:boxcox(-2)+renormalise", Mode.DIM, (GainKind.BOUNDED, GainKind.NONE)),
        ("dydim:log,power(0.5)+share_heads", Mode.DYDIM, (GainKind.LOG, GainKind.POWER)),
    ],
)
def test_a_rule_in_numbers(rule, mode, kinds):
    rule = dwindle.rule(rule)
    told = with_terms(rule)
    named = dict(zip(RULE, told, strict=False))
    assert (named["mode"], (named["kind1"], named["kind2"])) == (mode, kinds)
    assert named["renormalise"] == rule.renormalise
    assert named["share_heads"] == rule.share_heads
    assert told[len(RULE) :] == (*terms(named["p1"]), *terms(named["p2"]))
    assert len(terms(0.5)) == TERMS
    assert KernelNumbers._fields == RULE[: len(KernelNumbers._fields)]
