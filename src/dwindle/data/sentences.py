"""Running text to sentences: rules, no model. For articles that come as one string; a text with newlines has its
sentences already.
"""

import re

# A full stop after these ends no sentence.
_SHORT = frozenset(
    """mr mrs ms dr prof gen rep sen gov lt col sgt capt st jr sr no vs inc ltd co corp u.s u.k u.n d.c a.m p.m e.g i.e
    jan feb mar apr jun jul aug sep sept oct nov dec fig vol""".split()  # noqa: SIM905
)
_END = re.compile(r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)\]])|(?<=[.!?]''))\s+(?=[\"'“‘(\[`]*[A-Z0-9])")
# In tokenised text a mark stands alone, with closing quotes after it.
_TOKENISED_END = re.compile(r"(?<=\s[.!?])((?:\s(?:''|\"|\)|-rrb-|'(?!\s?\w)))*)\s+")


def split(text: str) -> list[str]:
    """The sentences of a text: its lines, or where it has only one, what full stops and their like end."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    if len(lines) != 1:
        return lines
    if re.search(r"\s[.!?](\s|$)", text):
        return _with_words(_TOKENISED_END.sub(r"\1\n", lines[0]).split("\n"))
    return _raw(lines[0])


def _with_words(parts: list[str]) -> list[str]:
    """Parts of punctuation alone, such as a closing quote, go to the sentence before them."""
    sentences: list[str] = []
    for part in map(str.strip, parts):
        if sentences and not re.search(r"\w", part):
            sentences[-1] = f"{sentences[-1]} {part}".strip()
        elif part:
            sentences.append(part)
    return sentences


def _raw(text: str) -> list[str]:
    sentences: list[str] = []
    joined = ""
    for part in _END.split(text):
        joined = f"{joined} {part}" if joined else part
        last = joined.rsplit(None, 1)[-1].rstrip(".").lstrip("(\"'“‘").lower()
        initial = len(last) == 1 and joined.endswith(".")
        if last in _SHORT or initial:
            continue
        sentences.append(joined)
        joined = ""
    return [*sentences, joined] if joined else sentences
