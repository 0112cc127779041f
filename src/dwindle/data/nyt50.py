"""NYT50: articles of the New York Times Annotated Corpus (LDC2008T19) with human summaries.

The corpus is licensed: it is had from the Linguistic Data Consortium,
catalog.ldc.upenn.edu/LDC2008T19. ``path`` is the folder of its unpacked NITF files
(``1815744.xml``), at any depth; an article's id is its file's name.

Lists of ids beside them say which article is in which split: ``train.txt``, ``dev.txt`` (or
``val``, ``valid``), ``test.txt``; Durrett's ``acl2016_eval.txt`` is read as the test list. Where
there are none, the published description is followed: articles of 2003 to 2006 with a summary
train, those of 2007 with a summary of at least 50 words are the test split. The dev split is then
the last 4,000 of the former by id: PreSumm's own choice is not published. The 50 words are asked of
the test split alone, since 96,834 + 4,000 is all of Durrett's 100,834 training articles.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from dwindle.data.example import Example, Split
from dwindle.data.files import Lines, folder, split_file
from dwindle.data.finish import finish
from dwindle.data.pairs import pairs
from dwindle.data.script import sentences
from dwindle.data.settings import DataSettings

_ADVICE = (
    "NYT50 is licensed: get LDC2008T19 from catalog.ldc.upenn.edu, unpack it, and give the folder "
    "of its .xml files"
)
SHORTEST = 50
"""Words of a test summary."""
DEV = 4_000
_YEARS = ("2003", "2004", "2005", "2006")
_TEST_YEAR = "2007"
_YEAR = re.compile(r"(?:19|20)\d\d")
# What a librarian notes after a summary: pictures, and the length of the article, such as "2
# photos, map (M)".
_LENGTH = re.compile(r"\s*\([SML]\)\s*$")
_PICTURES = "photos?|graphs?|charts?|maps?|tables?|drawings?|diagrams?|cartoons?|lists?|recipes?"
_NOTE = re.compile(rf"(?:(?:\d+\s+)?(?:{_PICTURES})[\s,.]*(?:and\s+)?)+", re.IGNORECASE)


def read(settings: DataSettings, split: Split) -> Sequence[Example]:
    place = folder(settings, _ADVICE)
    files = {file.stem: file for file in place.rglob("*.xml")}
    if not files:
        raise ValueError(f"{place} has no .xml file: {_ADVICE}")
    listed = split_file(place, split, ["txt"], ["acl2016_eval"] if split == "test" else ())
    ids = _listed(listed, files) if listed else _described(place, files, split)
    wanted = {id: files[id] for id in ids[: settings.size.of(split)]}
    return pairs(split, wanted, article, finish(settings))


def _listed(file: Path, files: dict[str, Path]) -> list[str]:
    ids = [line.strip().removesuffix(".xml") for line in Lines(file) if line.strip()]
    missing = [id for id in ids if id not in files]
    if missing:
        raise ValueError(
            f"{file} names {len(missing)} articles that are not there, such as {missing[0]}: "
            f"{_ADVICE}"
        )
    if len(set(ids)) < len(ids):
        raise ValueError(
            f"{file} names {next(id for id in ids if ids.count(id) > 1)} twice: ids must differ"
        )
    return ids


def _described(place: Path, files: dict[str, Path], split: Split) -> list[str]:
    """The split by years. Reads every article that does not lie in a folder of another year."""
    years = (_TEST_YEAR,) if split == "test" else _YEARS
    found = []
    for id in sorted(files):
        folders = [part for part in files[id].relative_to(place).parts if _YEAR.fullmatch(part)]
        if folders and folders[0] not in years:
            continue
        tree = _tree(files[id])
        if _year(tree) in years:
            summary = _summary(tree)
            if _source(tree) and len(summary.split()) >= (SHORTEST if split == "test" else 1):
                found.append(id)
    chosen = {"train": found[:-DEV], "dev": found[-DEV:], "test": found}[split]
    if not chosen:
        raise ValueError(
            f"no article of {', '.join(years)} is left for the {split} split: {_ADVICE}"
        )
    return chosen


def article(file: Path) -> tuple[str, str]:
    """Text and cleaned summary of one NITF file."""
    tree = _tree(file)
    return _source(tree), _summary(tree)


def _tree(file: Path) -> ET.Element:
    try:
        return ET.parse(file).getroot()
    except (ET.ParseError, UnicodeDecodeError) as error:
        raise ValueError(f"{file} is not a NITF file ({error}): unpack the corpus again") from None


def _year(tree: ET.Element) -> str:
    """From ``<meta name="publication_year">``, or the date of publication, 20070101T000000."""
    meta = tree.find(".//meta[@name='publication_year']")
    if meta is not None:
        return meta.get("content", "")
    date = tree.find(".//pubdata")
    return date.get("date.publication", "")[:4] if date is not None else ""


def _source(tree: ET.Element) -> str:
    paragraphs = tree.findall(".//block[@class='full_text']/p")
    texts = (" ".join("".join(p.itertext()).split()) for p in paragraphs)
    return "\n".join(sentence for text in texts for sentence in sentences(text))


def _summary(tree: ET.Element) -> str:
    """Semicolons part its sentences; the notes after them go."""
    text = " ".join(" ".join("".join(p.itertext()).split()) for p in tree.findall(".//abstract//p"))
    parts = [part.strip() for part in _LENGTH.sub("", text).split(";") if part.strip()]
    while parts and _NOTE.fullmatch(parts[-1]):
        parts.pop()
    return "\n".join(parts)
