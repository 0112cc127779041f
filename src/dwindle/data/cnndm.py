"""CNN/DailyMail, not anonymised, in the forms people have it. 287,227 / 13,368 / 11,490 pairs, of
which a few training articles are empty.

- no ``path``, or ``hub:NAME``: the hub's ``abisee/cnn_dailymail`` 3.0.0; a folder of its parquet
  files does too
- a folder with ``train.jsonl`` (or ``.gz``), ...: objects with ``id``, ``article``, ``highlights``
- a folder with See's ``train_000.bin``, ... or ``train.bin``
- a folder of ``.story`` files with lists of the splits: ``all_train.txt``, ``all_val.txt``,
  ``all_test.txt``

An article that comes as one string is split into sentences by rules.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from dwindle.data import hub, jsonl, tf_examples
from dwindle.data.example import Example, Split
from dwindle.data.files import Lines, folder, split_file, split_names
from dwindle.data.finish import Finish, finish
from dwindle.data.pairs import pairs
from dwindle.data.settings import DataSettings

HUB = "abisee/cnn_dailymail"
_ADVICE = (
    "give the folder of train.jsonl, of the hub's parquet files, of See's .bin files, or of "
    f".story files with all_train.txt; leave path out to fetch {HUB}"
)
_HASH = re.compile(r"[0-9a-f]{40}")
# See's script: a line that ends in none of these gets a full stop.
_ENDS = (".", "!", "?", "...", "'", "`", '"', "''", "``", ")", "\u2019", "\u201d")


def read(settings: DataSettings, split: Split) -> Sequence[Example]:
    """The pairs of a split, whichever form the path holds."""
    finished = finish(settings, articles=True)
    columns = settings.source or "article", settings.target or "highlights"
    if settings.path is None or settings.path.startswith(hub.PREFIX):
        return _hub(settings, split, columns, finished)
    place = folder(settings, _ADVICE)
    file = split_file(place, split, jsonl.ENDINGS)
    if file is not None:
        return jsonl.examples(settings, split, file, *columns, finished)
    if hub.is_local(place):
        return _hub(settings, split, columns, finished)
    chunks = tf_examples.chunks(place, split)
    if chunks:
        return _bins(settings, split, chunks, finished)
    urls = _split_list(place, split)
    if urls is not None:
        return _stories(settings, split, place, urls, finished)
    raise ValueError(f"{place} has no {split} split: {_ADVICE}")


def _hub(
    settings: DataSettings, split: Split, columns: tuple[str, str], finished: Finish
) -> Sequence[Example]:
    table = hub.open(settings, split, HUB, "3.0.0", _ADVICE)
    make = partial(_row, columns, finished)
    return hub.examples(settings, split, table, [(column,) for column in columns], make)


def _row(columns: tuple[str, str], finished: Finish, table: Any, row: int) -> Example:
    record = table[row]
    where = f"row {row + 1}"
    source, target = (jsonl.text(record[column], column, where) for column in columns)
    return finished(Example(str(record.get("id", row + 1)), source, (target,)))


def _bins(
    settings: DataSettings, split: Split, chunks: list[Path], finished: Finish
) -> Sequence[Example]:
    """A record has no id: it is called by its number."""
    places = ((file, *record) for file in chunks for record in tf_examples.records(file))
    pieces = {
        str(number): place
        for number, place in enumerate(islice(places, settings.size.of(split)), 1)
    }
    return pairs(split, pieces, _bin_pair, finished, lambda place: f"{place[0]}, byte {place[1]}")


def _bin_pair(place: tuple[Path, int, int]) -> tuple[str, str]:
    """The abstract's sentences stand between ``<s>`` and ``</s>``."""
    features = tf_examples.features(*place)
    missing = {"article", "abstract"} - features.keys()
    if missing:
        raise ValueError(
            f"{place[0]} has no {missing.pop()!r} at byte {place[1]}: these are not See's .bin "
            "files"
        )
    try:
        article, abstract = features["article"].decode(), features["abstract"].decode()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{place[0]} is not UTF-8 at byte {place[1]} ({error.reason}): make it again"
        ) from None
    return article, "\n".join(part.strip() for part in re.findall(r"<s>(.*?)</s>", abstract, re.S))


def _split_list(place: Path, split: Split) -> Path | None:
    """A list of urls, or of their hashes: in the folder or in one below it."""
    names = {
        f"{head}{name}.txt" for name in split_names(split) for head in ("all_", "mapping_", "")
    }
    return next((file for file in sorted(place.rglob("*.txt")) if file.name in names), None)


def _stories(
    settings: DataSettings, split: Split, place: Path, urls: Path, finished: Finish
) -> Sequence[Example]:
    """A story is called after the SHA-1 of its url."""
    files = {file.name.partition(".")[0]: file for file in place.rglob("*.story")}
    lines = [line.strip() for line in Lines(urls)[: settings.size.of(split)] if line.strip()]
    hashes = [
        line if _HASH.fullmatch(line) else hashlib.sha1(line.encode()).hexdigest() for line in lines
    ]
    missing = [line for line, hash in zip(lines, hashes, strict=True) if hash not in files]
    if missing:
        raise ValueError(
            f"{urls} names {len(missing)} of {len(lines)} stories that are not below {place}, "
            f"such as {missing[0]}: unpack both cnn_stories.tgz and dailymail_stories.tgz there"
        )
    if len(set(hashes)) < len(hashes):
        twice = next(
            line for line, hash in zip(lines, hashes, strict=True) if hashes.count(hash) > 1
        )
        raise ValueError(f"{urls} names {twice} twice: ids must differ")
    return pairs(split, {hash: files[hash] for hash in hashes}, _story_pair, finished)


def _story_pair(file: Path) -> tuple[str, str]:
    """Paragraphs, then an ``@highlight`` line before each sentence of the summary."""
    article: list[str] = []
    highlights: list[str] = []
    into = article
    for line in (line.strip() for line in Lines(file)):
        if line.startswith("@highlight"):
            into = highlights
        elif line:
            into.append(line if line.endswith(_ENDS) else f"{line} .")
    return "\n".join(article), "\n".join(highlights)
