"""What is done to every text of a corpus before a codec sees it: Moses tokenisation, lower case. Both are off
unless a recipe asks for them. Cutting words into pieces belongs to the codec.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any

from dwindle.data.settings import DataSettings


@dataclass(frozen=True)
class Preparation:
    """Text to text, sentence by sentence, so that newlines stay."""

    language: str
    moses: bool
    lowercase: bool

    def __call__(self, text: str) -> str:
        if self.moses:
            text = "\n".join(_moses(self.language, part) for part in text.split("\n"))
        return text.lower() if self.lowercase else text


def preparation(settings: DataSettings, language: str | None = None) -> Preparation:
    """What the settings ask for. A language is two letters; anything else is taken for English."""
    known = language if language is not None and len(language) == 2 else "en"
    if settings.moses:
        _tools(known)
    return Preparation(known, settings.moses, settings.lowercase)


def _moses(language: str, text: str) -> str:
    """Punctuation normalised, then tokenised with ``-a`` (hyphens apart), as the WMT14 scripts of the field do."""
    normaliser, tokeniser = _tools(language)
    clean = normaliser.normalize(text)
    return str(tokeniser.tokenize(clean, aggressive_dash_splits=True, return_str=True, escape=False))


@cache
def _tools(language: str) -> tuple[Any, Any]:
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise ValueError("moses needs sacremoses: type pip install 'dwindle[data]'") from None
    return MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
