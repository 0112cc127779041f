"""WMT14 English to German (4.5 million pairs) and English to French (35 million); newstest2013 is
the dev split, newstest2014 the test split.

- no ``path``, or ``hub:NAME``: the hub's ``wmt/wmt14``; a folder of its parquet files does too
- a folder of line-aligned files: ``train.en`` and ``train.de``, ``newstest2013.en``,
  ``newstest2014.en``, ... (also ``.gz``; dev, val, valid and test are understood too)

``moses: true`` tokenises both sides, as the paper's BLEU is on tokens. ``source`` and ``target``
turn the direction.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from dwindle.data import hub, lines
from dwindle.data.example import Example, Split
from dwindle.data.files import folder
from dwindle.data.finish import Finish, finish
from dwindle.data.settings import DataSettings

HUB = "wmt/wmt14"
_FILES: dict[Split, tuple[str, ...]] = {
    "train": (),
    "dev": ("newstest2013",),
    "test": ("newstest2014",),
}
_ADVICE = (
    "give the folder of train.en, newstest2013.en, newstest2014.en and their translations, or of "
    "parquet files"
)


def read_de(settings: DataSettings, split: Split) -> Sequence[Example]:
    return _read(settings, split, "de")


def read_fr(settings: DataSettings, split: Split) -> Sequence[Example]:
    return _read(settings, split, "fr")


def _read(settings: DataSettings, split: Split, language: str) -> Sequence[Example]:
    languages = settings.source or "en", settings.target or language
    if sorted(languages) != sorted(("en", language)):
        raise ValueError(
            f"{settings.corpus} has en and {language}, not {' and '.join(languages)}: leave them "
            "out"
        )
    of_hub = settings.path is None or settings.path.startswith(hub.PREFIX)
    if not of_hub and not hub.is_local(folder(settings, _ADVICE)):
        return lines.read(
            replace(settings, source=languages[0], target=languages[1]), split, _FILES[split]
        )
    table = hub.open(settings, split, HUB, f"{language}-en", _ADVICE)
    columns = [("translation", code) for code in languages]
    return hub.examples(
        settings, split, table, columns, partial(_row, languages, finish(settings, *languages))
    )


def _row(languages: tuple[str, str], finished: Finish, table: Any, row: int) -> Example:
    source, target = (table[row]["translation"][code] for code in languages)
    return finished(Example(str(row + 1), source, (target,)))
