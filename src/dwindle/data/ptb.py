"""Penn Treebank tokens by rules, for the corpora of See et al. (2017) and PreSumm. English only.

Quotes become `` and '', contractions are split (``do n't``, ``he 's``, ``can not``), brackets and
punctuation stand alone, a full stop only at the end of the sentence; hyphens stay inside words.
Both originals ran Stanford's tokenizer, a Java program. What these rules do differently is in
docs/DATA.md.
"""

import re

_CONTRACTED = ("cannot", "gonna", "gotta", "wanna", "gimme", "lemme")
_RULES = [
    (r"(^|[\s(\[{<`'])\"(?=\S)", r"\1 `` "),  # a quote opens before a word
    (r"\"", " '' "),
    (r"(?<=[.,?!;:])([’”])(?=\s|$)", r" \1 "),  # closes a clause; behind a letter it stays
    (r"(^|[\s(\[{<])([‘“])(?=[^\s‘’“”]+(?:\s|$))", r"\1\2 "),  # not before it’s or yes”
    (r"(\.\.\.|--|[–—])", r" \1 "),
    (r"([;@#$%&?!\[\](){}<>])", r" \1 "),
    (r"([,:])(?=\D|$)|(?<!\d)([,:])", r" \1\2 "),  # not inside a number or a time
    (r"(?<!\.)\.(?=[\])}>'\"’”\s]*$)", " . "),  # the last full stop; others belong to abbreviations
    (  # opens before a plain word, not before one with a hyphen, digit or it’s
        r"(?<![\w'’.])'(?!(?:s|m|d|ll|re|ve|em|til|cause|n)\b)(?=[A-Za-z]+(?:[^\w\s*/’-]|\s|$))",
        " ' ",
    ),
    (r"(?<=[^\s'])'(?=\s|$)", " ' "),  # closes
    (r"(?i)(?<=[^\s'])('s|'m|'d|'ll|'re|'ve|n't)(?![\w’'])", r" \1"),
    *((rf"(?i)\b({word[:3]})({word[3:]})\b", r"\1 \2") for word in _CONTRACTED),
]
_COMPILED = [(re.compile(pattern), new) for pattern, new in _RULES]


def tokens(sentence: str) -> str:
    """The tokens of a sentence, separated by single spaces."""
    for pattern, new in _COMPILED:
        sentence = pattern.sub(new, sentence)
    return " ".join(sentence.split())
