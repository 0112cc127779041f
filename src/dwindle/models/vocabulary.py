"""``Vocabulary``: words and their numbers, for models that write whole words. Knows no model."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

SPECIAL = ("<pad>", "<unk>", "<s>", "</s>")
PAD, UNK, START, END = range(4)
FILE = "vocabulary.txt"


class Vocabulary:
    """Words in order; the first four are the special ones."""

    def __init__(self, words: Sequence[str]) -> None:
        self.words = [*SPECIAL, *words]
        self._ids = {word: i for i, word in enumerate(self.words)}
        if len(self._ids) != len(self.words):
            raise ValueError("a word is twice in this vocabulary: keep one of each")

    @classmethod
    def counted(cls, texts: Iterable[str], size: int | None = None, least: int = 1) -> "Vocabulary":
        """The ``size`` most frequent words, special ones included, that occur ``least`` times.

        Words that are equally frequent stand in the order of the alphabet, so that the order of
        texts does not matter.
        """
        counts = Counter(word for text in texts for word in text.split())
        for special in SPECIAL:
            counts.pop(special, None)
        often = sorted(
            (word for word, n in counts.items() if n >= least),
            key=lambda word: (-counts[word], word),
        )
        return cls(often if size is None else often[: max(size - len(SPECIAL), 0)])

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._ids

    def id(self, word: str) -> int:
        """Its number, that of ``<unk>`` for a word that is not here."""
        return self._ids.get(word, UNK)

    def ids(self, words: Iterable[str]) -> list[int]:
        return [self.id(word) for word in words]

    def save(self, folder: Path) -> None:
        """One word a line, special ones left out."""
        lines = "".join(f"{word}\n" for word in self.words[len(SPECIAL) :])
        (folder / FILE).write_text(lines, encoding="utf-8", newline="\n")

    @classmethod
    def load(cls, folder: Path) -> "Vocabulary":
        file = folder / FILE
        if not file.is_file():
            raise ValueError(
                f"{folder} has no {FILE}: name the folder of a model that this project saved"
            )
        return cls(file.read_text(encoding="utf-8").split("\n")[:-1])
