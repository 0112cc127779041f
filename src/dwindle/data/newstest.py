"""WMT's news tests as a small corpus: models that exist already are tuned on those of 2017 and 2018, watched on that of
2019 and tested on that of 2020. Chinese to English: 5,982 / 2,000 / 2,000 pairs.

``path`` is a folder of line-aligned files ``newstest2017.zh-en.zh``, ``newstest2017.zh-en.en``, ..., plain or ``.gz``.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dwindle.data.example import Example, Split
from dwindle.data.files import Lines, folder
from dwindle.data.finish import finish
from dwindle.data.pairs import pairs
from dwindle.data.settings import DataSettings

_ADVICE = "give the folder of newstest2017.zh-en.zh, newstest2017.zh-en.en and so on, to 2020"
YEARS: dict[Split, tuple[int, ...]] = {"train": (2017, 2018), "dev": (2019,), "test": (2020,)}
_SOURCE, _TARGET = "zh", "en"
Files = dict[int, tuple[Lines, Lines]]


def read(settings: DataSettings, split: Split) -> Sequence[Example]:
    """An example is called after the year and the line, from 1."""
    place = folder(settings, _ADVICE)
    files = {year: _aligned(place, year) for year in YEARS[split]}
    places = [(year, line) for year, (sources, _) in files.items() for line in range(len(sources))]
    pieces = {f"{year}-{line + 1}": (year, line) for year, line in places[: settings.size.of(split)]}
    where = partial(_where, files)
    return pairs(split, pieces, partial(_pair, files), finish(settings, _SOURCE, _TARGET), where)


def _aligned(place: Path, year: int) -> tuple[Lines, Lines]:
    sources, targets = (_lines(place / f"newstest{year}.{_SOURCE}-{_TARGET}.{side}") for side in (_SOURCE, _TARGET))
    if len(sources) != len(targets):
        raise ValueError(
            f"{sources.path} has {len(sources)} lines, {targets.path} has {len(targets)}: lines must correspond"
        )
    return sources, targets


def _lines(file: Path) -> Lines:
    found = next((path for path in (file, file.with_name(f"{file.name}.gz")) if path.is_file()), None)
    if found is None:
        raise ValueError(f"there is neither {file} nor {file.name}.gz: {_ADVICE}")
    return Lines(found)


def _pair(files: Files, piece: tuple[int, int]) -> tuple[str, str]:
    year, line = piece
    sources, targets = files[year]
    return sources[line], targets[line]


def _where(files: Files, piece: tuple[int, int]) -> str:
    year, line = piece
    return f"{files[year][0].path}, line {line + 1}"
