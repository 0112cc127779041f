"""Reads run folders, arenas and plain ``outputs.jsonl`` files into arms on test sets.

An *arm* is one system; it has a run for every seed (a plain file is an arm of one run). Arms that
answer the same items stand on the same *test set*, and only those are ever compared; the first is
the base. What is not there yet is remembered as a sentence, and the rest is read.

The task of a test set is told from its texts and decides the numbers and sections of a report. A
translation has sources and outputs in different scripts or languages, of about the same length. No
language is known here: two texts of one language share words (names and numbers aside), two of
different languages hardly any. Knows nothing of metrics and of pages.
"""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Literal, get_args

from dwindle.data.script import words
from dwindle.runfiles import names, outputs, tables, whole
from dwindle.runfiles.outputs import Item, Outputs
from dwindle.runfiles.run import Run

Task = Literal["translation", "text"]
"""``text`` is everything else: summaries, captions, answers, transcripts."""
TASKS: tuple[Task, ...] = get_args(Task)

LOOKED_AT = 200
"""Largest number of items that are looked at, evenly spaced."""
SHARED = 0.35
"""Share of an output's words that its source has too; below it, the two are in different languages.
The median is 0.08 in news from English to French, 0.10 to German, and 0.90 in the highlights of
CNN/DM."""
SHORTEST, LONGEST = 0.4, 2.5
"""Words of an output for each word of its source, between which it can be a translation."""
_MORE_THAN_HALF = 0.5
_LETTERS = 2000


@dataclass(frozen=True)
class Arm:
    """One system and its runs, one a seed."""

    name: str
    runs: tuple[Run, ...]

    @property
    def recipe(self) -> dict[str, Any]:
        return self.runs[0].settings


@dataclass(frozen=True)
class TestSet:
    """Arms that answer the same items. The first is the base of every difference."""

    __test__ = False  # no test, whatever pytest thinks of its name

    arms: tuple[Arm, ...]

    @property
    def items(self) -> tuple[Item, ...]:
        return self.arms[0].runs[0].outputs.items

    @property
    def synthetic(self) -> bool:
        """True if the items are of a synthetic world."""
        return all(isinstance(item.extra.get("gold"), dict) for item in self.items)

    @property
    def name(self) -> str:
        data = self.arms[0].recipe.get("data", {})
        return str(data.get("corpus", "")) or self.arms[0].name


@dataclass(frozen=True)
class Shown:
    """Everything a report is about, and what of it is missing, as sentences."""

    tests: tuple[TestSet, ...]
    missing: tuple[str, ...] = ()


@dataclass
class _Found:
    """An arm while it is being read."""

    place: Path
    name: str
    runs: list[Run]


def read(paths: Sequence[str | Path | Run], called: Sequence[str] | None = None) -> Shown:
    """Read the run folders, arena folders and files of outputs in ``paths``; runs as they are.

    ``called``: a name for each system; None takes those of their files and folders.
    """
    if not paths:
        raise ValueError(
            "nothing was named: give run folders, arena folders or outputs.jsonl files"
        )
    missing: list[str] = []
    found: list[_Found] = []
    for path in paths:
        if isinstance(path, Run):
            found.append(_Found(place(path.path), place(path.path).name, [path.checked()]))
        elif (Path(path) / names.ARENA).is_file():
            found += _arena(Path(path), missing)
        else:
            path = Path(path)
            found += [_Found(place(path), place(path).name, [run]) for run in _run(path, missing)]
    found = [arm for arm in found if arm.runs]
    if not found:
        raise ValueError("; ".join(missing))
    groups = _alike(found)
    _named(found, groups, called)
    tests = [TestSet(tuple(Arm(a.name, tuple(a.runs)) for a in group)) for group in groups]
    return Shown(tuple(tests), tuple(missing))


def _arena(folder: Path, missing: list[str]) -> list[_Found]:
    """The arms of an arena, its base first."""
    arena = whole.read_json(folder / names.ARENA, "make it again")
    try:
        arms = [arena["base"], *(arm for arm in arena["arms"] if arm != arena["base"])]
        seeds = arena["seeds"]
    except KeyError as error:
        raise ValueError(
            f"{folder / names.ARENA} has no {error}: was it written by 'dwindle arena'?"
        ) from None
    return [
        _Found(
            (folder / name).resolve(),
            name,
            [run for seed in seeds for run in _run(folder / name / f"seed-{seed}", missing)],
        )
        for name in arms
    ]


def _run(path: Path, missing: list[str]) -> list[Run]:
    """The run at ``path``, or none and a sentence about what it lacks."""
    if path.is_file() or tables.is_table(path):
        return [Run(path).checked()]
    if not path.exists():
        raise ValueError(
            f"{path} is not there: name a run folder, an arena folder or an outputs.jsonl"
        )
    if not (path / names.OUTPUTS).is_file():
        missing.append(
            f"{path} has no outputs.jsonl: the run is not finished, or this is not a run folder"
        )
        return []
    run = Run(path).checked()
    missing += run.damage()
    return [run]


def place(path: str | Path) -> Path:
    """The path that a system is named after: the folder of an ``outputs.jsonl``, else the file
    without its ending."""
    path = Path(path).resolve()
    return (
        path.parent
        if path.name == "outputs.jsonl"
        else path.with_suffix("")
        if path.is_file()
        else path
    )


def told_apart(places: Sequence[Path], names: Sequence[str] | None = None) -> list[str]:
    """Each place's name, or the last part of it; those of the same name, as many parts as tell them
    apart, without the parts that all of several places end with."""
    found = list(names or [path.name for path in places])
    while len(set(places)) > 1 and {*found, *(path.name for path in places)} == {found[0]}:
        places = [path.parent for path in places]
        found = [path.name for path in places]
    for depth in range(2, max(len(path.parts) for path in places) + 1):
        counts = Counter(found)
        found = [
            "/".join(p.parts[-depth:]) if counts[n] > 1 else n
            for n, p in zip(found, places, strict=True)
        ]
    return found


def _named(found: list[_Found], groups: list[list[_Found]], called: Sequence[str] | None) -> None:
    """Arms get the names they were given, or names that tell those on the same items apart."""
    if called is not None and len(called) != len(found):
        raise ValueError(f"{len(called)} names for {len(found)} systems: give one for each")
    for arm, name in zip(found, called or (), strict=False):
        arm.name = name
    for group in groups:
        if called is None:
            for arm, name in zip(
                group, told_apart([a.place for a in group], [a.name for a in group]), strict=True
            ):
                arm.name = name
        for name, count in Counter(arm.name for arm in group).items():
            if count > 1:
                raise ValueError(f"{name} was named {count} times: name every system once")


def _alike(found: Iterable[_Found]) -> list[list[_Found]]:
    """Arms by the items they answer, in the order in which they came."""
    arms: dict[str, list[_Found]] = {}
    for arm in found:
        for run in arm.runs[1:]:
            outputs.same_items(arm.runs[0].outputs, run.outputs)
        arms.setdefault(_fingerprint(arm.runs[0].outputs), []).append(arm)
    return list(arms.values())


def _fingerprint(system: Outputs) -> str:
    """Equal for systems with the same ids, references and sources."""
    digest = hashlib.sha256()
    for item in system.items:
        digest.update(repr((item.id, item.references, item.source)).encode())
    return digest.hexdigest()


def task_of(items: Sequence[Item]) -> Task:
    """The task of these items; ``text`` where a source is missing."""
    some = items[:: max(1, len(items) // LOOKED_AT)]
    pairs = [
        (item.source, item.hypothesis) for item in some if item.source and item.hypothesis.strip()
    ]
    if len(pairs) < _MORE_THAN_HALF * len(some) or not pairs:
        return "text"
    if script("".join(s for s, _ in pairs)) != script("".join(o for _, o in pairs)):
        return "translation"
    both = [(set(words(source)), words(output), len(words(source))) for source, output in pairs]
    shared = median(sum(word in known for word in own) / max(len(own), 1) for known, own, _ in both)
    ratio = median(len(own) / max(length, 1) for _, own, length in both)
    return "translation" if shared < SHARED and SHORTEST < ratio < LONGEST else "text"


def script(text: str) -> str:
    """The script of most letters of a text, such as LATIN or CJK."""
    letters = (character for character in text[: 20 * _LETTERS] if character.isalpha())
    counts = Counter(
        unicodedata.name(one, "?").split()[0]
        for one, _ in zip(letters, range(_LETTERS), strict=False)
    )
    return counts.most_common(1)[0][0] if counts else ""
