"""Finds the tokens of a codec in a source text. Strings only; knows no tokenizer.

A codec says what its model reads as a row of strings (``Codec.source_tokens``). Found again in the
text they came from, any number a position has can be drawn on that text, or summed over its
sentences, whoever cut it into tokens.
"""

from collections.abc import Sequence

_REACH = 24
"""Most characters that may be skipped to find a token: an unknown or differently spelt word."""


def places(tokens: Sequence[str], source: str) -> list[int]:
    """(S,): the character of ``source`` at which each token begins; -1 for one not of the text."""
    text = _lower(source)
    found, end = [], 0
    for token in tokens:
        word = _lower(bare(token))
        at = text.find(word, end, end + len(word) + _REACH) if word else -1
        found.append(at)
        if at >= 0:
            end = at + len(word)
            while end < len(text) and text[end].isspace():
                end += 1
    return found


def _lower(text: str) -> str:
    """Lower case, character by character, so that positions stay the same."""
    return "".join(c if len(c.lower()) != 1 else c.lower() for c in text)


def bare(token: str) -> str:
    """A token without the marks by which vocabularies begin or end words."""
    token = token.strip().removeprefix("##").removesuffix("@@").removesuffix("</w>")
    return token.lstrip("▁Ġ").strip()
