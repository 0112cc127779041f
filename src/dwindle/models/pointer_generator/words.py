"""``WordCodec``: texts to the tensors of the pointer-generator, and back, copied words included.

A text is words separated by spaces, in lower case. Between the sentences of a target is a word of
their own, which comes back as a newline; a source is read without. A vocabulary without such a
word, as See's, separates none; what is written gets a newline after each full stop, as See's code
has it. Words outside the vocabulary get numbers behind it, source by source. It knows neither
corpora nor weights.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from dwindle.models.codec import IGNORED, Batch, Row, padded
from dwindle.models.vocabulary import END, PAD, SPECIAL, START, UNK, Vocabulary

FILE = "words.json"
SENTENCE = "<sentence>"
_BREAK = len(SPECIAL)


class WordCodec:
    """A codec for sources and targets of up to these numbers of words; the end of a target
    counts."""

    def __init__(
        self, vocabulary: Vocabulary, source_length: int = 400, target_length: int = 100
    ) -> None:
        for name, length in (("source_length", source_length), ("target_length", target_length)):
            if length < 1:
                raise ValueError(f"{name} is {length}: give 1 or more")
        self.vocabulary = vocabulary
        self.parted = vocabulary.words[_BREAK : _BREAK + 1] == [SENTENCE]
        self.source_length, self.target_length = source_length, target_length

    @classmethod
    def fitted(
        cls,
        pairs: Iterable[tuple[str, str]],
        size: int | None = 50_000,
        source_length: int = 400,
        target_length: int = 100,
    ) -> Self:
        """A codec with the ``size`` most frequent words of these texts, special ones included."""
        texts = (text.lower() for pair in pairs for text in pair)
        often = Vocabulary.counted(texts, None if size is None else size - 1).words[len(SPECIAL) :]
        return cls(
            Vocabulary([SENTENCE, *(w for w in often if w != SENTENCE)]),
            source_length,
            target_length,
        )

    def encode(self, source: str, target: str | None = None) -> Row:
        words = source.lower().split()
        cut, words = len(words) > self.source_length, words[: self.source_length]
        if not words:
            raise ValueError("a source has no words: leave such examples out")
        ids = [self._id(word) for word in words]
        oov = list(dict.fromkeys(word for word, id in zip(words, ids, strict=True) if id == UNK))
        row: Row = {
            "input_ids": ids,
            "extended_ids": self._extended(words, oov),
            "oov": oov,
            "cut": cut,
        }
        if target is not None:
            ids = self._written(target.lower().split("\n"), oov)
            # a target that is cut has no end, as in See's code
            row["labels"] = [*ids, END][: self.target_length]
        return row

    def limit(self, source: int, target: int) -> None:
        self.source_length, self.target_length = source, target

    def collate(self, rows: list[Row]) -> Batch:
        batch = {
            "input_ids": padded([row["input_ids"] for row in rows], PAD),
            "attention_mask": padded([[1] * len(row["input_ids"]) for row in rows], 0),
            "extended_ids": padded([row["extended_ids"] for row in rows], PAD),
            "oov": _as_bytes([row["oov"] for row in rows]),
        }
        if "labels" in rows[0]:
            batch["labels"] = padded([row["labels"] for row in rows], IGNORED)
        return batch

    def decode(self, sequences: Tensor, batch: Batch) -> list[str]:
        oov = _as_words(batch["oov"])
        times = len(sequences) // max(len(oov), 1)
        return [self._text(ids, oov[i // times]) for i, ids in enumerate(sequences.tolist())]

    @property
    def sentence_break(self) -> int | None:
        return _BREAK if self.parted else None

    def words(self, ids: list[int]) -> list[str]:
        return [str(id) for id in ids]  # a token is a word, copied ones too

    def source_tokens(self, source: str) -> list[str]:
        return source.lower().split()[: self.source_length]

    def unknown(self, source: str) -> list[str]:
        return [word for word in source.lower().split() if self._id(word) == UNK]

    def save_pretrained(self, folder: Path) -> None:
        self.vocabulary.save(Path(folder))
        settings = {"source_length": self.source_length, "target_length": self.target_length}
        (Path(folder) / FILE).write_text(json.dumps(settings), encoding="utf-8")

    @classmethod
    def from_pretrained(cls, folder: Path) -> Self:
        file = Path(folder) / FILE
        if not file.is_file():
            raise ValueError(
                f"{folder} has no {FILE}: name the folder of a pointer-generator that this "
                "project saved"
            )
        return cls(Vocabulary.load(Path(folder)), **json.loads(file.read_text(encoding="utf-8")))

    def _written(self, lines: list[str], oov: list[str]) -> list[int]:
        """The ids of a target, with the word between its sentences if there is one."""
        between = [_BREAK] if self.parted else []
        sentences = [self._extended(words, oov) for line in lines if (words := line.split())]
        return [
            id for n, sentence in enumerate(sentences) for id in (between if n else []) + sentence
        ]

    def _id(self, word: str) -> int:
        """A text that has ``</s>`` written in it must not end there: such words are unknown."""
        id = self.vocabulary.id(word)
        return id if id >= _BREAK + self.parted else UNK

    def _extended(self, words: list[str], oov: list[str]) -> list[int]:
        """Ids, from the vocabulary's end on for words of ``oov``; other unknown words stay so."""
        numbers = {word: len(self.vocabulary) + i for i, word in enumerate(oov)}
        ids = ((word, self._id(word)) for word in words)
        return [numbers.get(word, UNK) if id == UNK else id for word, id in ids]

    def _text(self, ids: list[int], oov: list[str]) -> str:
        """Words up to the end; sentences without words are left out."""
        if END in ids:
            ids = ids[: ids.index(END)]
        words = [*self.vocabulary.words, *oov]
        if self.parted:
            words[_BREAK] = "\n"
        elif "." in self.vocabulary:
            words[self.vocabulary.id(".")] = ".\n"
        text = " ".join(words[i] for i in ids if i not in (START, PAD))
        return "\n".join(filter(None, (line.strip() for line in text.split("\n"))))


def _as_bytes(words: list[list[str]]) -> Tensor:
    """(B, K, L): K words of L bytes, padded with zeros: a tensor goes wherever its batch goes."""
    coded = [[list(word.encode()) for word in row] for row in words]
    most = max(map(len, coded))
    longest = max((len(word) for row in coded for word in row), default=0)
    filled = [
        [word + [0] * (longest - len(word)) for word in row + [[]] * (most - len(row))]
        for row in coded
    ]
    return torch.tensor(filled, dtype=torch.uint8).reshape(len(words), most, longest)


def _as_words(coded: Tensor) -> list[list[str]]:
    rows: list[Any] = coded.tolist()
    return [[bytes(word).rstrip(b"\0").decode() for word in row if any(word)] for row in rows]
