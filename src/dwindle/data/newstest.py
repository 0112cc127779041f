"""WMT's news tests as small corpora, for models that exist already: tuned on the early years,
watched on the last but one, tested on the last. Chinese to English: 2017 and 2018, 2019, 2020
(5,982 / 2,000 / 2,000 pairs). English to French: 2009 to 2012, 2013, 2014 (11,020 / 3,000 / 3,003),
the paper's own dev and test sets.

``path`` is a folder of line-aligned files ``newstest2017.zh-en.zh``, ``newstest2017.zh-en.en``,
..., plain or ``.gz``.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from dwindle.data.example import Example, Split
from dwindle.data.files import Lines, folder
from dwindle.data.finish import finish
from dwindle.data.pairs import pairs
from dwindle.data.settings import DataSettings

YEARS: dict[str, dict[Split, tuple[int, ...]]] = {
    "zh-en": {"train": (2017, 2018), "dev": (2019,), "test": (2020,)},
    "en-fr": {"train": (2009, 2010, 2011, 2012), "dev": (2013,), "test": (2014,)},
}
"""The years of each split, by the pair of languages."""
Files = dict[int, tuple[Lines, Lines]]


def read_zh_en(settings: DataSettings, split: Split) -> Sequence[Example]:
    """Chinese to English."""
    return _read("zh-en", settings, split)


def read_en_fr(settings: DataSettings, split: Split) -> Sequence[Example]:
    """English to French."""
    return _read("en-fr", settings, split)


def _read(pair: str, settings: DataSettings, split: Split) -> Sequence[Example]:
    """An example is called after the year and the line, from 1."""
    place = folder(settings, _advice(pair))
    files = {year: _aligned(place, year, pair) for year in YEARS[pair][split]}
    places = [(year, line) for year, (sources, _) in files.items() for line in range(len(sources))]
    pieces = {
        f"{year}-{line + 1}": (year, line) for year, line in places[: settings.size.of(split)]
    }
    where = partial(_where, files)
    return pairs(
        split,
        pieces,
        partial(_pair, files),
        finish(settings, source=pair[:2], target=pair[3:]),
        where,
    )


def _advice(pair: str) -> str:
    first, last = YEARS[pair]["train"][0], YEARS[pair]["test"][0]
    one, other = (f"newstest{first}.{pair}.{side}" for side in pair.split("-"))
    return f"give the folder of {one}, {other} and so on, to {last}"


def _aligned(place: Path, year: int, pair: str) -> tuple[Lines, Lines]:
    sources, targets = (
        _lines(place / f"newstest{year}.{pair}.{side}", _advice(pair)) for side in pair.split("-")
    )
    if len(sources) != len(targets):
        raise ValueError(
            f"{sources.path} has {len(sources)} lines, {targets.path} has {len(targets)}: lines "
            "must correspond"
        )
    return sources, targets


def _lines(file: Path, advice: str) -> Lines:
    found = next(
        (path for path in (file, file.with_name(f"{file.name}.gz")) if path.is_file()), None
    )
    if found is None:
        raise ValueError(f"there is neither {file} nor {file.name}.gz: {advice}")
    return Lines(found)


def _pair(files: Files, piece: tuple[int, int]) -> tuple[str, str]:
    year, line = piece
    sources, targets = files[year]
    return sources[line], targets[line]


def _where(files: Files, piece: tuple[int, int]) -> str:
    year, line = piece
    return f"{files[year][0].path}, line {line + 1}"
