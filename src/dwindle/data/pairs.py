"""Corpora that lie in many small pieces (files, records): each piece is read when it is asked for.
Knows no format."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeVar

from dwindle.data.example import Example, Lazy, Split
from dwindle.data.files import kept
from dwindle.data.finish import Finish

P = TypeVar("P")


def pairs(
    split: Split,
    pieces: Mapping[str, P],
    read: Callable[[P], tuple[str, str]],
    finished: Finish,
    where: Callable[[P], str] = str,
) -> Sequence[Example]:
    """Id -> piece, and how a piece is read into source and target. Each is read once now, so that
    all errors come before training, and again when it is asked for, so that no text is held."""
    ids, places = list(pieces), list(pieces.values())
    empty = [i for i, place in enumerate(places) if not all(text.strip() for text in read(place))]
    return Lazy(
        partial(_example, ids, places, read, finished),
        kept(len(ids), empty, split, lambda i: where(places[i])),
    )


def _example(
    ids: list[str],
    places: list[P],
    read: Callable[[P], tuple[str, str]],
    finished: Finish,
    index: int,
) -> Example:
    source, target = read(places[index])
    return finished(Example(ids[index], source, (target,)))
