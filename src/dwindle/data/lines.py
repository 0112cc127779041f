"""Line-aligned files: ``train.en`` beside ``train.de``, one example a line, plain or ``.gz``.

Settings: ``path`` the folder, ``source`` and ``target`` the endings. The dev files are called dev,
val, valid or validation.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dwindle.data.example import Example, Lazy, Split
from dwindle.data.files import Lines, folder, kept, split_file
from dwindle.data.finish import Finish, finish
from dwindle.data.settings import DataSettings

_ADVICE = "give the folder of files such as train.en and train.de, and source=en target=de"


def read(settings: DataSettings, split: Split, names: Sequence[str] = ()) -> Sequence[Example]:
    """The examples of a split; ``names`` are further names its files may have."""
    place = folder(settings, _ADVICE)
    if settings.source is None or settings.target is None:
        raise ValueError(f"lines needs source and target: {_ADVICE}")
    sources, targets = (
        _lines(place, split, ending, names) for ending in (settings.source, settings.target)
    )
    if len(sources) != len(targets):
        raise ValueError(
            f"{sources.path} has {len(sources)} lines, {targets.path} has {len(targets)}: lines "
            "must correspond"
        )
    wanted = settings.size.of(split)
    count = len(sources) if wanted is None else min(wanted, len(sources))
    empty = sorted({i for i in (*sources.blank, *targets.blank) if i < count})
    places = kept(count, empty, split, lambda i: f"{sources.path}, line {i + 1}")
    return Lazy(
        partial(_example, sources, targets, finish(settings, settings.source, settings.target)),
        places,
    )


def _lines(place: Path, split: Split, ending: str, names: Sequence[str]) -> Lines:
    file = split_file(place, split, [ending], names)
    if file is None:
        raise ValueError(
            f"{place} has no {split} file that ends in .{ending} or .{ending}.gz: {_ADVICE}"
        )
    return Lines(file)


def _example(sources: Lines, targets: Lines, finished: Finish, place: int) -> Example:
    """The id is the line number, from 1."""
    return finished(Example(str(place + 1), sources[place], (targets[place],)))
