"""The data part of a recipe. Knows the names of the options, not what a corpus makes of them."""

from dataclasses import dataclass, field

from dwindle.data.example import SPLITS, Split
from dwindle.data.worlds.newsroom import Newsroom
from dwindle.data.worlds.phrasebook import Phrasebook
from dwindle.data.worlds.scenes import Scenes


@dataclass(frozen=True)
class Size:
    """How many examples of each split to take, from the start. None: all there are."""

    train: int | None = None
    """Pairs to train on."""
    dev: int | None = None
    """Pairs to watch training with."""
    test: int | None = None
    """Pairs to decode and score."""

    def __post_init__(self) -> None:
        for split in SPLITS:
            wanted = self.of(split)
            if wanted is not None and wanted < 1:
                raise ValueError(f"size.{split} is {wanted}: give at least 1, or leave it out for all")

    def of(self, split: Split) -> int | None:
        wanted: int | None = getattr(self, split)
        return wanted


@dataclass(frozen=True)
class DataSettings:
    """Which corpus, where it is, how much of it."""

    corpus: str
    """A name from `dwindle.data.load.CORPORA`."""
    path: str | None = None
    """Its folder or file; `hub:NAME` for a data set of the `datasets` hub. Synthetic worlds have none."""
    size: Size = field(default_factory=Size)
    """How many examples of each split."""
    seed: int = 1
    """Seed of a synthetic world."""
    source: str | None = None
    """Column (jsonl) or file ending (lines) of the sources. None: the corpus's own."""
    target: str | None = None
    """Column (jsonl) or file ending (lines) of the references. None: the corpus's own."""
    moses: bool = False
    """Normalise punctuation and tokenise sources and references as Moses does."""
    lowercase: bool = False
    """Lower-case sources and references."""
    newsroom: Newsroom = field(default_factory=Newsroom)
    """Knobs of the synthetic world of that name."""
    phrasebook: Phrasebook = field(default_factory=Phrasebook)
    """Knobs of the synthetic world of that name."""
    scenes: Scenes = field(default_factory=Scenes)
    """Knobs of the synthetic world of that name; `path` is where its features are kept (none: the user's cache)."""
