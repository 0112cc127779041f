"""Text to words: the two ways this room splits a text. Both are total: any string gives a list.

``rouge_tokens`` is how ROUGE-1.5.5 sees a text: bytes, ASCII letters and digits only. ``words`` is for every
other count of n-grams: Unicode words, case-folded, without punctuation.
"""

import re

_ROUGE = re.compile(rb"[a-z0-9]+")
_WORDS = re.compile(r"\w+")


def rouge_tokens(text: str) -> list[bytes]:
    """Maximal runs of ASCII letters and digits, lower-cased byte by byte.

    The script puts spaces around hyphens, blanks every other byte, and keeps the tokens that start with a
    letter or digit: what is left is exactly these runs.
    """
    return _ROUGE.findall(text.encode("utf-8", "surrogatepass").lower())


def words(text: str) -> list[str]:
    """Unicode letters, digits and underscores in a row, case-folded; punctuation and newlines part words."""
    return _WORDS.findall(text.casefold())


def sentences(text: str) -> list[str]:
    """The parts between newlines that are not blank."""
    return [part for part in text.split("\n") if part.strip()]


_TITLES = ("Mr", "Mrs", "Ms", "Dr", "Prof", "St", "Gen", "Sen", "Rep", "Gov", "No")
_NO_TITLE = "".join(rf"(?<!\b{title})" for title in _TITLES)
_ATTACHED = rf"""{_NO_TITLE}(?<!\b[A-Z])[.!?]["'”’)]*(?=[ \t]+["'“‘(]?[A-Z0-9])"""
_ALONE = r"""(?<=\s)[.!?](?:[ \t]+(?:''|["'”’)]))?(?=[ \t]+\S)"""
_END = re.compile(rf"({_ATTACHED}|{_ALONE})[ \t]+")


def with_sentences(text: str) -> str:
    """A text of one line with a newline after each sentence; a text that has newlines already is left as it is.

    A sentence ends at an end mark before a capital or a digit, except behind an initial or a common title, and in
    tokenised text at an end mark that stands alone.
    """
    return text if "\n" in text.strip() else _END.sub("\\1\n", text)
