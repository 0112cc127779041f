"""``SubwordCodec``: the codec of library models, around a tokenizer of `transformers`, and the
training of new tokenizers.

Sentences are encoded one by one and separated by a separator token, which comes back as a newline.
Where the vocabulary has the newline itself it is that one; where it has not, as BERT's, another is
chosen or added; a model that was trained on single lines has none. The codec knows no corpora and
no weights.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from torch import Tensor
from transformers import (
    AutoTokenizer,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from dwindle.attaching.library import PreTrainedConfig
from dwindle.models.codec import IGNORED, Batch, Row, padded
from dwindle.models.settings import WordPiece

FILE = "codec.json"
NEWLINE = "Ċ"
"""The newline in byte-level vocabularies."""
_SPACES = str.maketrans("Ġ▁", "  ")
"""The space before a word in byte-level and SentencePiece vocabularies."""
_IDEOGRAPHS = "\u2e80"
"""From here on, letters of Chinese, Japanese and Korean."""
SENTENCE = "<sentence>"
"""The separator that is added to a vocabulary without one."""
SPECIAL = {
    "pad_token": "<pad>",
    "bos_token": "<s>",
    "eos_token": "</s>",
    "cls_token": "<cls>",
    "sep_token": "<sep>",
}
"""The special tokens of a new vocabulary, in the order of their ids."""
TEMPLATES = {"transformer": "$A </s>", "bart": "<s> $A </s>", "bertsum": "<cls> $A <sep>"}
"""Positions of these in a source, by kind of model; but for BertSum, in a target too."""
PRESUMM = {"bos_token": "[unused0]", "eos_token": "[unused1]", "separator": "[unused2]"}
"""Special tokens of PreSumm's targets: tokens that BERT's pre-training did not use."""
AS_TEXT: dict[str, Any] = {
    "add_special_tokens": False,
    "split_special_tokens": True,
    "verbose": False,
}
"""A text that has ``</s>`` written in it must not end there."""
TARGET = "target"
"""Name of the folder with a vocabulary of targets, below the codec's."""
_SAVED = ("source_length", "target_length", "separator", "sentences", "known", "wordpiece")


@dataclass
class SubwordCodec:
    """Sentences to subwords and back, sources and targets in one vocabulary or in two."""

    tokenizer: PreTrainedTokenizerBase
    source_length: int
    """The longest source in tokens, special ones included."""
    target_length: int
    """The longest target in tokens. One that is cut loses its end token: the model must not learn
    to stop there."""
    separator: str | None = NEWLINE
    """The token between two sentences; None: a text is one line, and a newline in it a space."""
    sentences: bool = False
    """As BertSum reads: every source sentence between special tokens of its own, in segments 0, 1,
    0, 1, ..., and the target ends with another token than the source, also one that is cut."""
    known: int | None = None
    """Ids from here on are pieces that the model does not have: they read as unknown."""
    target_tokenizer: PreTrainedTokenizerBase | None = None
    """Tokenizer of targets that have a vocabulary of their own; else None."""
    wordpiece: WordPiece | None = None
    """Separation of words before WordPiece cuts them; None: as the tokenizer comes."""

    def __post_init__(self) -> None:
        if self.wordpiece == "spaces":
            _at_spaces(self.tokenizer)

    def encode(self, source: str, target: str | None = None) -> Row:
        ids, segments = self._source(self._lines(text=source))
        cut = len(ids) > self.source_length
        if cut:
            ids = [*ids[: self.source_length - 1], ids[-1]]
        row: Row = {"input_ids": ids, "cut": cut}
        if self.sentences:
            row["token_type_ids"] = segments[: self.source_length]
        if target is not None:
            row["labels"] = self._cut(self._target(self._lines(text_target=target)))
        return row

    def limit(self, source: int, target: int) -> None:
        self.source_length, self.target_length = source, target

    def collate(self, rows: list[Row]) -> Batch:
        padding = {"input_ids": self.tokenizer.pad_token_id, "token_type_ids": 0, "labels": IGNORED}
        batch: Batch = {
            name: padded([row[name] for row in rows], padding[name])
            for name in padding
            if name in rows[0]
        }
        return {**batch, "attention_mask": padded([[1] * len(row["input_ids"]) for row in rows], 0)}

    def decode(self, sequences: Tensor, batch: Batch) -> list[str]:
        return [self._text(ids) for ids in sequences.tolist()]

    @property
    def sentence_break(self) -> int | None:
        return (
            None if self.separator is None else self._writer.convert_tokens_to_ids(self.separator)
        )

    def words(self, ids: list[int]) -> list[str]:
        """Pieces are BERT's (a word goes on with ##), or a word begins with the sign of a space."""
        pieces = self._writer.convert_ids_to_tokens(ids)
        if self.separator == PRESUMM["separator"]:
            return " ".join(pieces).replace(" ##", "").split()
        special = {*self._writer.all_special_tokens, self.separator}
        return "".join(f" {p} " if p in special else p.translate(_SPACES) for p in pieces).split()

    def source_tokens(self, source: str) -> list[str]:
        return [self.tokenizer.decode([i]) for i in self.encode(source)["input_ids"]]

    def unknown(self, source: str) -> list[str]:
        """A vocabulary of subwords can spell any word: one that takes a piece for every letter or
        two was not in the texts it was learnt from. Where letters are words or nearly so, as in
        Chinese, only unknown pieces count."""
        words = source.split()
        pieces = dict(zip(words, self._pieces(words), strict=True)) if words else {}
        return [word for word in words if self._is_unknown(word, pieces[word])]

    def save_pretrained(self, folder: Path) -> None:
        self.tokenizer.save_pretrained(folder)
        if self.target_tokenizer:
            self.target_tokenizer.save_pretrained(Path(folder) / TARGET)
        settings = {n: getattr(self, n) for n in _SAVED}
        (Path(folder) / FILE).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")

    @classmethod
    def from_pretrained(cls, folder: Path) -> Self:
        settings = json.loads((Path(folder) / FILE).read_text(encoding="utf-8"))
        target = Path(folder) / TARGET
        return cls(
            _saved(folder), **settings, target_tokenizer=_saved(target) if target.is_dir() else None
        )

    @property
    def _writer(self) -> PreTrainedTokenizerBase:
        return self.target_tokenizer or self.tokenizer

    def _lines(self, **text: str) -> list[list[int]]:
        """The ids of each sentence of the ``text`` or ``text_target``."""
        ((name, whole),) = text.items()
        lines = [line for line in whole.split("\n") if line.strip()] or [""]
        if self.separator is None:
            lines = [" ".join(lines)]
        tokenizer = self._writer if name == "text_target" else self.tokenizer
        found: list[list[int]] = tokenizer(**{name: lines}, **AS_TEXT)["input_ids"]
        if self.known is None:
            return found
        return [[i if i < self.known else tokenizer.unk_token_id for i in line] for line in found]

    def _pieces(self, words: list[str]) -> list[list[int]]:
        """The ids of each word as it stands inside a text."""
        encoded = self.tokenizer([f" {word}" for word in words], **AS_TEXT)
        found: list[list[int]] = encoded["input_ids"]
        return found

    def _is_unknown(self, word: str, ids: list[int]) -> bool:
        letters = sum(letter.isalpha() and letter < _IDEOGRAPHS for letter in word)
        spelt = letters >= 4 and len(ids) >= max(letters - 1, 4)
        return (
            spelt
            or self.tokenizer.unk_token_id in ids
            or any(i >= self.known for i in ids if self.known)
        )

    def _source(self, lines: list[list[int]]) -> tuple[list[int], list[int]]:
        """The ids of the source, and the segment of each."""
        start, end = self._ends()
        if not self.sentences:
            lines = [self._joined(lines)]
        wrapped = [[*start, *line, *end] for line in lines]
        return [i for line in wrapped for i in line], [
            n % 2 for n, line in enumerate(wrapped) for _ in line
        ]

    def _target(self, lines: list[list[int]]) -> list[int]:
        start, end = ([], [self._writer.eos_token_id]) if self.sentences else self._ends()
        return [*start, *self._joined(lines), *end]

    def _cut(self, labels: list[int]) -> list[int]:
        """At most ``target_length`` of them; PreSumm ends what it cuts, others do not."""
        if self.sentences and len(labels) > self.target_length:
            return [*labels[: self.target_length - 1], labels[-1]]
        return labels[: self.target_length]

    def _ends(self) -> tuple[list[int], list[int]]:
        """The special tokens that the tokenizer puts before and after a text."""
        both: list[int] = self.tokenizer("")["input_ids"]
        return both[:-1], both[-1:]

    def _joined(self, lines: list[list[int]]) -> list[int]:
        between = [] if self.sentence_break is None else [self.sentence_break]
        return [i for n, line in enumerate(lines) for i in (between if n else []) + line]

    def _text(self, ids: list[int]) -> str:
        lines: list[list[int]] = [[]]
        for i in ids:
            if i == self.sentence_break:
                lines.append([])
            else:
                lines[-1].append(i)
        options: dict[str, Any] = {
            "skip_special_tokens": True,
            "clean_up_tokenization_spaces": False,
        }
        texts = (self._writer.decode(line, **options).strip() for line in lines)
        return "\n".join(text for text in texts if text)


class PromptCodec(SubwordCodec):
    """The codec of decoder-only models, whose source is the prompt itself.

    Special tokens come before a prompt only, with no end token: the model goes on writing.
    """

    def _lines(self, **text: str) -> list[list[int]]:
        found: list[list[int]] = self.tokenizer(list(text.values()), **AS_TEXT)["input_ids"]
        return found

    def _ends(self) -> tuple[list[int], list[int]]:
        given: list[int] = self.tokenizer("")["input_ids"]
        return [i for i in given if i != self.tokenizer.eos_token_id], []


def _at_spaces(tokenizer: PreTrainedTokenizerBase) -> None:
    """As PreSumm's ``others/tokenization.py``: lower case, words end at spaces only, accents stay;
    and what is written keeps its spaces (the library would write ``cat .`` as ``cat.`` and
    ``do not`` as ``don't``)."""
    inside: Tokenizer = tokenizer.backend_tokenizer
    if not isinstance(inside.model, models.WordPiece):
        raise ValueError("wordpiece=spaces, but this vocabulary is not WordPiece's: leave it out")
    inside.normalizer = normalizers.Lowercase()
    inside.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    inside.decoder = decoders.WordPiece(cleanup=False)


def _saved(folder: Path) -> PreTrainedTokenizerBase:
    """A tokenizer of ``save_pretrained``. Its own files say of which class it is; the model's
    config has no say: the library warns of those that it does not know."""
    found: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        folder, config=PreTrainedConfig()
    )
    return found


def trained(texts: Iterable[str], size: int, kind: str) -> PreTrainedTokenizerBase:
    """A byte-level BPE vocabulary of ``size`` tokens (fewer if texts have no more pairs).

    The ``kind`` of model says where special tokens go. Bytes leave no word unknown, and keep the
    newline.
    """
    if size < (least := len(SPECIAL) + 256):
        raise ValueError(
            f"vocabulary={size}, but bytes and special tokens alone are {least}: pass more"
        )
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet, special = pre_tokenizers.ByteLevel.alphabet(), list(SPECIAL.values())
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator((line for text in texts for line in text.split("\n")), trainer)
    return with_ends(tokenizer, kind)


def with_ends(tokenizer: Tokenizer, kind: str, **more: str) -> PreTrainedTokenizerBase:
    """A vocabulary with all special tokens, put where the ``kind`` of model wants them."""
    tokenizer.post_processor = processors.TemplateProcessing(
        single=TEMPLATES[kind],
        special_tokens=[(token, tokenizer.token_to_id(token)) for token in SPECIAL.values()],
    )
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL, **more)


def published(name: str, kind: str) -> tuple[PreTrainedTokenizerBase, str | None]:
    """The tokenizer of a published model of this ``kind``, and the token between two sentences, if
    it knows any."""
    tokenizer = AutoTokenizer.from_pretrained(name)
    if kind != "bertsum":
        # Marian, T5 and fairseq's BART were trained on single lines: a token more would be one that
        # the model could write.
        return tokenizer, None
    if tokenizer.get_vocab().keys() >= set(PRESUMM.values()):
        tokenizer.add_special_tokens({k: v for k, v in PRESUMM.items() if k != "separator"})
        return tokenizer, PRESUMM["separator"]
    tokenizer.add_special_tokens({"additional_special_tokens": [SENTENCE]})
    return tokenizer, SENTENCE
