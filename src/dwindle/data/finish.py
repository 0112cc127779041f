"""Prepares every example of a text corpus for a codec: splits running text into sentences, and,
only where a recipe asks for it, tokenises as Moses does and lower-cases. Cutting words into pieces
belongs to the codec.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from dwindle.data import ptb, script
from dwindle.data.example import Example
from dwindle.data.settings import DataSettings


@dataclass(frozen=True)
class Finish:
    """Example as read -> example as used. Works sentence by sentence, so newlines stay."""

    languages: tuple[str, str]
    articles: bool
    moses: bool
    ptb: bool
    lowercase: bool

    def __call__(self, raw: Example) -> Example:
        source = "\n".join(script.sentences(raw.source)) if self.articles else raw.source
        source_language, target_language = self.languages
        references = tuple(self._text(reference, target_language) for reference in raw.references)
        return replace(raw, source=self._text(source, source_language), references=references)

    def _text(self, text: str, language: str) -> str:
        if self.moses:
            text = "\n".join(_moses(language, part) for part in text.split("\n"))
        if self.ptb:
            text = "\n".join(ptb.tokens(part) for part in text.split("\n"))
        return text.lower() if self.lowercase else text


def finish(
    settings: DataSettings, source: str = "en", target: str = "en", articles: bool = False
) -> Finish:
    """The preparation that the settings ask for. ``source`` and ``target`` are languages, two
    letters each; anything else, such as the name of a column, is taken for English. The sources of
    ``articles`` are split into sentences."""
    languages = (source if len(source) == 2 else "en", target if len(target) == 2 else "en")
    for language in languages if settings.moses else ():
        _tools(language)
    return Finish(languages, articles, settings.moses, settings.ptb, settings.lowercase)


def _moses(language: str, text: str) -> str:
    """Punctuation normalised, then tokenised with ``-a`` (hyphens apart), as the WMT14 scripts of
    the field do."""
    normaliser, tokeniser = _tools(language)
    clean = normaliser.normalize(text)
    return str(
        tokeniser.tokenize(clean, aggressive_dash_splits=True, return_str=True, escape=False)
    )


@cache
def _tools(language: str) -> tuple[Any, Any]:
    try:
        from sacremoses import MosesPunctNormalizer, MosesTokenizer  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise ValueError("moses needs sacremoses: type pip install 'dwindle[data]'") from None
    return MosesPunctNormalizer(lang=language), MosesTokenizer(lang=language)
