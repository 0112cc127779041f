"""How well ``data.ptb`` gives back the tokens of See et al.'s published processing.

    python benchmarks/ptb.py test.jsonl.gz

The file (gzip) has one JSON object a line with ``article`` (tokens between spaces) and
``highlights`` (a list of sentences). Raw stories could not be had, so sentences are joined to plain
text by the rules of `joined`, cut again by each tokeniser, and compared with what they were.
"""

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from itertools import islice

from sacremoses import MosesTokenizer

from dwindle.data import ptb

LEFT = {*",.;:?!)]}%", "''", "’", "”", "...", "'s", "n't", "'re", "'ve", "'m", "'d", "'ll"}
"""Tokens that stand close to the word before them."""
RIGHT = {*"([{$£#", "``", "‘", "“"}
"""Tokens that stand close to the word after them."""
CLOSING = (".", "?", "!", "''", ")", "’", "”")
"""Tokens that follow an end mark within the sentence."""
PLAIN = {"``": '"', "''": '"'}


def sentences(tokens: list[str]) -> Iterator[list[str]]:
    """A sentence ends with an end mark and the closing signs behind it."""
    begin, ended = 0, False
    for k, token in enumerate(tokens):
        if ended and token not in CLOSING:
            yield tokens[begin:k]
            begin, ended = k, False
        ended = ended or token in (".", "?", "!")
    yield tokens[begin:]


def joined(tokens: list[str]) -> str:
    """The sentence as a newspaper prints it. Of straight single quotes the first opens, the next
    closes, and so on; one that is left over closes."""
    quotes = [k for k, token in enumerate(tokens) if token == "'"]
    opening = set(quotes[: len(quotes) // 2 * 2 : 2])
    text, close = "", True
    for k, token in enumerate(tokens):
        left = token in LEFT or (token == "'" and k not in opening)
        text += ("" if close or left else " ") + PLAIN.get(token, token)
        close = token in RIGHT or k in opening
    return text


def moses(text: str) -> str:
    return str(_MOSES.tokenize(text, escape=False, return_str=True))


_MOSES = MosesTokenizer("en")
WAYS: dict[str, Callable[[str], str]] = {"data.ptb": ptb.tokens, "data.moses": moses, "spaces": str}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--stories", type=int, default=100)
    parser.add_argument("--skip", type=int, default=0, help="stories to leave out before")
    parser.add_argument(
        "--wrong", type=int, default=0, help="print so many differences of data.ptb"
    )
    asked = parser.parse_args()
    with gzip.open(asked.file, "rt", encoding="utf-8") as lines:
        wanted = islice(lines, asked.skip, asked.skip + asked.stories)
        stories = [json.loads(line) for line in wanted]
    right = [
        tokens
        for story in stories
        for text in (story["article"], *story["highlights"])
        for tokens in sentences(text.split())
    ]
    total = sum(map(len, right))
    print(f"{len(stories)} stories, {len(right):,} sentences, {total:,} tokens")
    for name, way in WAYS.items():
        kept = whole = 0
        wrong: Counter[str] = Counter()
        for tokens in right:
            found = way(joined(tokens)).split()
            parts = SequenceMatcher(None, tokens, found, autojunk=False).get_opcodes()
            for what, a, b, c, d in parts:
                if what == "equal":
                    kept += b - a
                else:
                    wrong[f"{' '.join(tokens[a:b])} -> {' '.join(found[c:d])}"] += 1
            whole += tokens == found
        print(f"{name:10} {kept / total:.2%} of the tokens, {whole:,} sentences as they were")
        if name == "data.ptb":
            for change, count in wrong.most_common(asked.wrong):
                print(f"    {count:4}  {change}")


if __name__ == "__main__":
    main()
