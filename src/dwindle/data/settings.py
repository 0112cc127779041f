"""The data part of a recipe. Knows the names of the options, not what each corpus does with
them."""

from dataclasses import dataclass

from dwindle.data.example import SPLITS, Split
from dwindle.data.worlds.newsroom import Newsroom
from dwindle.data.worlds.phrasebook import Phrasebook
from dwindle.data.worlds.scenes import Scenes

_NEWSROOM, _PHRASEBOOK, _SCENES = Newsroom(), Phrasebook(), Scenes()
"""The default worlds. They are frozen, so all recipes share them."""


@dataclass(frozen=True)
class Size:
    """Number of examples taken from the start of each split. None: all of them."""

    train: int | None = None
    """Number of pairs to train on."""
    dev: int | None = None
    """Number of pairs to measure training on."""
    test: int | None = None
    """Number of pairs to decode and score."""

    def __post_init__(self) -> None:
        for split in SPLITS:
            wanted = self.of(split)
            if wanted is not None and wanted < 1:
                raise ValueError(
                    f"size.{split} is {wanted}: give at least 1, or leave it out for all"
                )

    def of(self, split: Split) -> int | None:
        wanted: int | None = getattr(self, split)
        return wanted


@dataclass(frozen=True)
class DataSettings:
    """The data part of a recipe: the corpus, where it is, and how much of it is used."""

    corpus: str
    """Name of the corpus: a key of ``dwindle.data.load.CORPORA``."""
    path: str | None = None
    """Folder or file of the corpus; ``hub:NAME`` for a hub data set. Synthetic worlds have none."""
    size: Size = Size()
    """Number of examples of each split."""
    seed: int = 1
    """Seed of a synthetic world."""
    source: str | None = None
    """Column (jsonl) or file ending (lines) of the sources. None: the default of the corpus."""
    target: str | None = None
    """Column (jsonl) or file ending (lines) of the references. None: the default of the corpus."""
    moses: bool = False
    """Normalise punctuation and tokenise sources and references as Moses does."""
    ptb: bool = False
    """Tokenise sources and references like the Penn Treebank, sentence by sentence (English)."""
    lowercase: bool = False
    """Lower-case sources and references."""
    presumm: bool = False
    """Filter source sentences and pairs as PreSumm's ``data_builder.py`` does."""
    newsroom: Newsroom = _NEWSROOM
    """Settings of the synthetic world ``newsroom``."""
    phrasebook: Phrasebook = _PHRASEBOOK
    """Settings of the synthetic world ``phrasebook``."""
    scenes: Scenes = _SCENES
    """Settings of ``scenes``; ``path``: folder of its features (None: the user's cache)."""

    def __post_init__(self) -> None:
        if self.moses and self.ptb:
            raise ValueError("data: moses and ptb are two ways to tokenise: give one of them")
