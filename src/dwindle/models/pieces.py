"""Vocabularies that exist already: the codes of subword-nmt (on text that is tokenised already) and
the ``.model`` files of SentencePiece, as tokenizers of this library. They cut every text as the
original tools do; a test compares them.
"""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import SpmConverter, generate_merges

from dwindle.models.subword import SENTENCE, SPECIAL, with_ends

UNKNOWN = "<unk>"
END = "</w>"
"""Mark of subword-nmt on the last piece of a word."""


def pieces(path: str, texts: Iterable[str], kind: str) -> PreTrainedTokenizerBase:
    """The tokenizer of a file of pieces. ``texts`` show its characters; ``kind``: as
    ``trained``."""
    file = Path(path).expanduser()
    if not file.is_file():
        raise ValueError(
            f"there is no {file}: name the codes of subword-nmt, or a SentencePiece .model"
        )
    tokenizer = _sentencepiece(file) if file.suffix == ".model" else _codes(file, texts)
    tokenizer.add_special_tokens([UNKNOWN, SENTENCE, *SPECIAL.values()])
    return with_ends(tokenizer, kind, unk_token=UNKNOWN)


def _codes(file: Path, texts: Iterable[str]) -> Tokenizer:
    """Merges in their order; single characters come from the codes and the texts."""
    joined = merges(file)
    letters = {letter for merge in joined for letter in "".join(merge).replace(END, "")}
    letters.update(*(set(text) for text in texts))
    alphabet = sorted(letter for letter in letters if not letter.isspace())
    known = [
        *SPECIAL.values(),
        UNKNOWN,
        SENTENCE,
        *alphabet,
        *(f"{letter}{END}" for letter in alphabet),
    ]
    return bpe(
        {piece: i for i, piece in enumerate(dict.fromkeys([*known, *map("".join, joined)]))}, joined
    )


def merges(file: Path) -> list[tuple[str, str]]:
    """The pairs of a file of codes in their order: of subword-nmt, or of fastBPE, which adds a
    count to each."""
    try:
        lines = file.read_text(encoding="utf-8").rstrip("\n").split("\n")
    except UnicodeDecodeError:
        raise ValueError(
            f"{file} is not UTF-8, so it cannot be codes of subword-nmt: name another file"
        ) from None
    head = int(lines[0].startswith("#version: 0.2"))
    columns = 2 if head else 3
    if not head and len(lines[0].split()) != columns:
        raise ValueError(
            f"{file} does not begin with '#version: 0.2', as codes of subword-nmt do: name "
            "another file"
        )
    found: list[tuple[str, str]] = []
    for number, line in enumerate(lines[head:], head + 1):
        pair = line.strip("\r ").split(" ")  # a piece may have any other space in it
        if len(pair) != columns:
            raise ValueError(f"{file}, line {number} is not a pair of pieces: get the codes again")
        found.append((pair[0], pair[1]))
    return found


def bpe(vocabulary: dict[str, int], merges: list[tuple[str, str]]) -> Tokenizer:
    """Cuts words between spaces as subword-nmt does. The vocabulary has every merge."""
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=UNKNOWN, end_of_word_suffix=END))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.BPEDecoder(suffix=END)
    return tokenizer


class _Merges:
    """The merges of a BPE model of SentencePiece follow from its scores. In place of the library's
    own extractor, which cannot be called this way."""

    def __init__(self, file: str) -> None:
        pass

    def extract(self, scores: list[tuple[str, float]]) -> tuple[None, Any]:
        return None, generate_merges(
            {piece: i for i, (piece, _) in enumerate(scores)}, dict(scores)
        )


class _Converter(SpmConverter):
    SpmExtractor = _Merges


def _sentencepiece(file: Path) -> Tokenizer:
    try:
        tokenizer: Tokenizer = _Converter(SimpleNamespace(vocab_file=str(file))).converted()
    except ImportError:
        raise ValueError(
            "a SentencePiece .model needs protobuf: type pip install 'dwindle[data]'"
        ) from None
    except Exception as error:
        # protobuf has its own errors, by whichever implementation is installed.
        why = str(error).split("\n")[0]
        raise ValueError(
            f"{file} is not a SentencePiece model ({why}): name another file"
        ) from None
    return tokenizer
