"""The one door of the room: `load(settings, split)` gives the examples of any corpus.

A corpus is one module with ``read(settings, split) -> Sequence[Example]``; its name is a line in
`CORPORA`. A world has ``examples(split, count, seed, knobs)`` instead, and its knobs are a field of
`DataSettings`.
"""

import difflib
from collections.abc import Callable, Sequence

from dwindle.data import (
    cnndm,
    features,
    hub,
    ids_ade,
    image_paragraphs,
    jsonl,
    lines,
    newstest,
    nyt50,
    wmt14,
)
from dwindle.data.example import SPLITS, Example, Split
from dwindle.data.settings import DataSettings, Size
from dwindle.data.worlds import newsroom, phrasebook, scenes

__all__ = ["CORPORA", "SPLITS", "DataSettings", "Example", "Size", "Split", "load"]

CORPORA: dict[str, Callable[[DataSettings, Split], Sequence[Example]]] = {
    "cnndm": cnndm.read,
    "nyt50": nyt50.read,
    "wmt14-en-de": wmt14.read_de,
    "wmt14-en-fr": wmt14.read_fr,
    "newstest-zh-en": newstest.read_zh_en,
    "newstest-en-fr": newstest.read_en_fr,
    "jsonl": jsonl.read,
    "lines": lines.read,
    "image-paragraphs": image_paragraphs.read,
    "features": features.read,
    "ids-ade": ids_ade.read,
    "newsroom": lambda s, split: newsroom.examples(split, s.size.of(split), s.seed, s.newsroom),
    "phrasebook": lambda s, split: phrasebook.examples(
        split, s.size.of(split), s.seed, s.phrasebook
    ),
    "scenes": lambda s, split: scenes.examples(split, s.size.of(split), s.seed, s.scenes, s.path),
}

FETCHED = {"cnndm": cnndm.HUB, "wmt14-en-de": wmt14.HUB, "wmt14-en-fr": wmt14.HUB}
"""Corpora that come from the hub where no path is given, and their names there."""
SLOW = ("cnndm", "nyt50")
"""Corpora whose texts are split or parsed whenever they are read, and therefore kept prepared."""


def on_hub(settings: DataSettings) -> str | None:
    """The name of a data set that would be fetched."""
    if settings.path is None:
        return FETCHED.get(settings.corpus)
    return settings.path.removeprefix(hub.PREFIX) if settings.path.startswith(hub.PREFIX) else None


def load(settings: DataSettings, split: Split) -> Sequence[Example]:
    """The examples of a split, as a sequence that reads large files when it is indexed."""
    if settings.corpus not in CORPORA:
        near = difflib.get_close_matches(settings.corpus, CORPORA, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(CORPORA)}"
        raise ValueError(f"no corpus is called {settings.corpus!r}: {hint}")
    if split not in SPLITS:
        raise ValueError(f"no split is called {split!r}: choose from {', '.join(SPLITS)}")
    read = CORPORA[settings.corpus]
    if settings.moses or settings.ptb or settings.presumm or settings.corpus in SLOW:
        from dwindle.data.prepared import prepared  # needs numpy

        return prepared(settings, split, read)
    return read(settings, split)
