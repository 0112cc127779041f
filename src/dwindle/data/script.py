"""Words and sentences of a text, by its script. The one place that knows what a word is.

A word is a run of letters and digits with their marks (accents, vowel signs). In scripts that put
no spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese, Tibetan and others) every
character is a word, as in sacrebleu's ``zh`` tokenizer: no dictionary is needed, and no two tools
can disagree. A sentence is a line; in a text of one line, it ends at an end mark of any script.
Rules, no model. Any string gives an answer. Knows no metric and no corpus.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable
from functools import cache

Span = tuple[int, int]
"""(first, last + 1) character of a text."""
SETTING = "own-words"
"""Entry under ``scripts`` in the signature of a metric that counts these words."""

_UNSPACED = (
    "\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Tibetan; Burmese; Khmer
    "\u1950-\u19ff\u1a20-\u1aaf\u1b00-\u1b7f"  # Tai Le, New Tai Lue; Tai Tham; Balinese
    # marks that repeat or count in Chinese and Japanese
    "\u3005-\u3007\u3021-\u3029\u3031-\u3035\u3038-\u303b"
    "\u3040-\u30ff\u3100-\u312f\u31a0-\u31bf\u31f0-\u31ff"  # Hiragana, Katakana; Bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\ua000-\ua4cf"  # Han; Yi
    # Javanese; Tai Viet; Han; narrow Katakana
    "\ua980-\ua9ff\uaa60-\uaadf\uf900-\ufaff\uff66-\uff9f"
    "\U0001aff0-\U0001b16f\U00020000-\U0003ffff"  # Kana and Han beyond the first plane
)
_LATIN = "\u0041-\u024f\u1e00-\u1eff\u2c60-\u2c7f\ua720-\ua7ff\uab30-\uab6f\uff21-\uff5a"
_RUNS = re.compile(r"\w+")
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_LETTERS, _OTHER_LETTERS = re.compile(r"[^\W\d_]"), re.compile(rf"[^\W\d_{_LATIN}]")
_UNMARKED = re.compile("[\u0e01-\u0e30\u0e81-\u0eb0]")  # letters of Thai and Lao
_JOINERS = "\u200c\u200d"  # invisible, inside words of Persian and of India
_OTHER_SHARE = 1 / 3
_LONG_RUN = 8
_LONG_SENTENCE = 100


@cache
def _marks() -> str:
    """Accents, vowel signs and the like, as the inside of a character class: those of the first
    plane, which every living script has its own in, and the variants of ideographs. Many others
    would make the class slow."""
    return (
        "".join(re.escape(c) for c in map(chr, range(0x300, 0x10000)) if _is_mark(c))
        + "\U000e0100-\U000e01ef"
    )


@cache
def _words() -> re.Pattern[str]:
    inside = rf"[^\W{_UNSPACED}]"
    return re.compile(rf"(?=\w)[{_UNSPACED}][{_marks()}]*|{inside}(?:{inside}|[{_marks()}])*")


def words(text: str) -> list[str]:
    """The words, case-folded, without punctuation."""
    return _pattern(text).findall(text.casefold())


def word_spans(text: str) -> list[Span]:
    """Positions of the words."""
    return [match.span() for match in _pattern(text).finditer(text)]


def _pattern(text: str) -> re.Pattern[str]:
    """Without marks and scripts without spaces, the plain pattern finds the same words in an eighth
    of the time."""
    return _RUNS if text.isascii() or not _special().search(text) else _words()


@cache
def _special() -> re.Pattern[str]:
    return re.compile(f"[{_UNSPACED}{_marks()}]")


def has_unspaced(text: str) -> bool:
    """True if a text has a character of a script that puts no spaces between words."""
    return _IS_UNSPACED.search(text) is not None


def is_unspaced(text: str) -> bool:
    """True if a text ends in a script that puts no spaces between words."""
    last = next((c for c in reversed(text) if c.isalpha()), "")
    return bool(_IS_UNSPACED.match(last))


def within_word(text: str, at: int) -> bool:
    """True if the characters before and at a position belong to one word."""
    before = at - 1
    while before >= 0 and _is_mark(text[before]):
        before -= 1
    if before < 0 or at >= len(text) or not text[before].isalnum():
        return False
    here, last = text[at], text[before]
    return _is_mark(here) or (
        here.isalnum() and not _IS_UNSPACED.match(last) and not _IS_UNSPACED.match(here)
    )


def _is_mark(character: str) -> bool:
    return character in _JOINERS or unicodedata.category(character)[0] == "M"


def is_latin(text: str) -> bool:
    """True if a text is in Latin letters, but for a few others; also if it has no letters."""
    if text.isascii():
        return True
    others = len(_OTHER_LETTERS.findall(text))
    return others < _OTHER_SHARE * len(_LETTERS.findall(text)) or not others


def has_spaces(texts: Iterable[str]) -> bool:
    """True if spaces part the words of these texts: not for Chinese or Thai as they are usually
    written, but for any text that a tokenizer has cut."""
    letters = unspaced = runs = 0
    for text in texts:
        if not text.isascii():
            unspaced += sum(c.isalpha() for c in _IS_UNSPACED.findall(text))
        letters += len(_LETTERS.findall(text))
        runs += len(text.split())
    return 2 * unspaced <= letters or letters <= _LONG_RUN * runs


def has_sentences(texts: Iterable[str]) -> bool:
    """True if it can be told where sentences of these texts end: not in Thai and Lao, which have no
    mark for it, unless a newline or a borrowed mark does, or every text is short enough to be one
    sentence."""
    longest = 0
    for text in texts:
        if len(sentence_spans(text)) > 1:
            return True
        longest = max(longest, 0 if text.isascii() else len(_UNMARKED.findall(text)))
    return longest < _LONG_SENTENCE


# A full stop after these ends no sentence.
_SHORT = frozenset(
    """mr mrs ms dr prof gen rep sen gov lt col sgt capt st jr sr no vs inc ltd co corp u.s u.k
    u.n d.c a.m p.m e.g i.e jan feb mar apr jun jul aug sep sept oct nov dec fig
    vol""".split()  # noqa: SIM905
)
_RAW_END = re.compile(
    r"(?:(?<=[.!?])|(?<=[.!?][\"'”’)\]»])|(?<=[.!?]''))\s+(?=[\"'“‘(\[`«¿¡„]*(\w))"
)
# In tokenised text a mark stands alone, with closing quotes after it.
_ALONE = re.compile(r"\s[.!?](\s|$)")
_TOKENISED_END = re.compile(r"(?<=\s[.!?])((?:\s(?:''|\"|\)|-rrb-|'(?!\s?\w)))*)\s+")
# Marks that end a sentence and nothing else, with or without a space behind: the sentence terminals
# of Unicode outside ASCII, and the Tibetan shad.
_MARKS = "։؝؞؟۔܀܁܂߹।॥။።፧፨།༎។៕‼‽⁇⁈⁉。｡﹒﹖﹗！？"
_CLOSING = "」』”’）)\\]】〉》〕»\"'"
# Behind a quotation that Japanese goes on with "to" (said), the sentence is not over.
_MARK_END = re.compile(
    rf"(?:[{_MARKS}]|．(?!\d)|(?<=[{_UNSPACED}])[.!?]+(?=[{_CLOSING}]*\s*[{_UNSPACED}]))++[{_CLOSING}]*+(?!と)\s*"
)


def sentences(text: str) -> list[str]:
    """The sentences of a text, without the blanks around them: its lines, or where it has only one,
    what full stops and their like end."""
    return [text[first:last].strip() for first, last in sentence_spans(text)]


def sentence_spans(text: str) -> list[Span]:
    """Positions of the sentences. Each begins where the one before ends, so that together they are
    the whole text; a text without a visible character has none."""
    if "\n" in text.strip():
        cuts = [at + 1 for at, character in enumerate(text) if character == "\n"]
        has_words: Callable[[str], object] = str.strip
    else:
        ends = _tokenised_ends(text) if _ALONE.search(text) else _raw_ends(text)
        cuts = sorted({*ends, *(match.end() for match in _MARK_END.finditer(text))})
        has_words = _RUNS.search
    spans: list[Span] = []
    start = 0
    for cut in (*cuts, len(text)):
        part = text[start:cut]
        # a blank line, or a closing quote alone, belongs to the sentence before
        if spans and part and not has_words(part):
            spans[-1] = (spans[-1][0], cut)
            start = cut
        elif part.strip():
            spans.append((start, cut))
            start = cut
    return spans


def _tokenised_ends(text: str) -> list[int]:
    return [match.end() for match in _TOKENISED_END.finditer(text)]


def _raw_ends(text: str) -> list[int]:
    ends, start = [], 0
    for match in _RAW_END.finditer(text):
        first = match[1]
        if first.islower() or first == "_":
            continue
        words_before = text[start : match.start()].rsplit(None, 1)
        last = words_before[-1].rstrip(".").lstrip("(\"'“‘").lower()
        initial = len(last) == 1 and text[match.start() - 1] == "."
        if last not in _SHORT and not initial:
            ends.append(match.end())
            start = match.end()
    return ends


def with_sentences(text: str) -> str:
    """A text of one line with a newline after each sentence; a text that has newlines already is
    left as it is."""
    return text if "\n" in text.strip() else "\n".join(sentences(text))
