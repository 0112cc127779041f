"""Amazon Mechanical Turk: a template and an input file for its requester site, and its results back
into a study.

One task is one item, done by as many workers as the study asks for, so the platform itself sees to
it that no worker judges an item twice. The page swaps the sides by a coin and says in its answer
whether it did. Names of systems are in neither file; every text is written in ASCII character
references, for the site puts it into the page as it stands.
"""

import csv
import html
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2

from dwindle.study.design import Side
from dwindle.study.form import LONGEST_COMMENT, Incomplete, read_ballot, visible
from dwindle.study.questions import Questions
from dwindle.study.store import DATABASE, Ballot, Store
from dwindle.web import security

COLUMNS = ("item", "code", "source", "left", "right")


@dataclass
class Imported:
    """The outcome of reading a results file, line by line."""

    entered: int = 0
    known: int = 0
    rejected: int = 0
    incomplete: int = 0


def write(store: Store, folder: Path) -> tuple[Path, Path]:
    """Write ``template.html`` and ``input.csv``."""
    folder.mkdir(parents=True, exist_ok=True)
    template, rows = folder / "template.html", folder / "input.csv"
    pages = jinja2.Environment(
        loader=jinja2.PackageLoader("dwindle.study"), autoescape=True, trim_blocks=True
    )
    page = pages.get_template("mturk.html").render(asked=store.questions)
    template.write_text(page + "\n", encoding="ascii", errors="xmlcharrefreplace")
    with rows.open("w", encoding="ascii", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for number, source, a, b, left in store.pairs():
            texts = (source, a, b) if left == "a" else (source, b, a)
            writer.writerow([number, _code(store, number), *map(references, texts)])
    return template, rows


def references(text: str) -> str:
    """A text as ASCII that any HTML page shows as that text. A dollar sign could begin a variable
    of the site."""
    escaped = html.escape(visible(text)).replace("$", "&#36;").replace("\n", "<br>")
    return escaped.encode("ascii", "xmlcharrefreplace").decode()


def study_of(results: Path) -> Path:
    """The study folder of a results file: its folder, or the nearest above with a study."""
    for folder in results.absolute().parents:
        if (folder / DATABASE).is_file():
            return folder
    raise ValueError(f"no folder above {results} holds a study: name it with --study DIR")


def enter(store: Store, results: Path) -> Imported:
    """Import results into the study: all lines in one transaction.

    Importing a file again changes nothing.
    """
    done = Imported()
    sides: dict[int, Side] = {number: left for number, _, _, _, left in store.pairs()}
    with store.transaction():
        for where, line in _lines(results):
            number = _item(store, line, where)
            if line.get("AssignmentStatus") == "Rejected":
                done.rejected += 1
                continue
            answers = _answers(line, where, store.questions)
            try:
                ballot = _ballot(answers, line, store.questions)
            except Incomplete:
                done.incomplete += 1
                continue
            left = sides[number]
            if answers.get("swapped") == "yes":
                left = "b" if left == "a" else "a"
            entered = store.enter(_pseudonym(store, line, where), number, left, ballot)
            done.entered += entered
            done.known += not entered
    return done


def _lines(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    old = csv.field_size_limit(sys.maxsize)  # a source may be long
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for line in (reader := csv.DictReader(file)):
                yield (
                    f"{path}, line {reader.line_num}",
                    {k: v or "" for k, v in line.items() if isinstance(k, str)},
                )
    except (csv.Error, UnicodeDecodeError) as error:
        raise ValueError(
            f"{path} is not a CSV file in UTF-8 ({error}): download the results once more"
        ) from None
    finally:
        csv.field_size_limit(old)


def _item(store: Store, line: dict[str, str], where: str) -> int:
    number = line.get("Input.item", "")
    if not (number.isascii() and number.isdigit()) or line.get("Input.code") != _code(
        store, int(number[:15])
    ):
        raise ValueError(
            f"{where} is not of this study: import the results of the batch made from its input.csv"
        )
    return int(number[:15])


def _code(store: Store, number: int) -> str:
    """A code that ties a line to this study and this item."""
    return security.proof(store.key, "mturk", number)[:16]


def _pseudonym(store: Store, line: dict[str, str], where: str) -> str:
    """Workers' ids are theirs: the study keeps a code that only its own key could tie to them."""
    if not line.get("WorkerId"):
        raise ValueError(f"{where} has no WorkerId: import the results file as the site gives it")
    return "mturk " + security.proof(store.key, "worker", line["WorkerId"])[:12]


def _answers(line: dict[str, str], where: str, asked: Questions) -> dict[str, str]:
    """The answers of a line in any of the site's three shapes: a column a question, a column a
    choice, or JSON."""
    found = {
        key.removeprefix("Answer."): value
        for key, value in line.items()
        if key.startswith("Answer.")
    }
    if "taskAnswers" in found:
        found = _flatten(found["taskAnswers"], where)
    answers = dict(found)
    for name, choices in asked.answers.items():
        chosen = [
            choice for choice in choices if found.get(f"{name}.{choice}", "").lower() == "true"
        ]
        if len(chosen) == 1:
            answers[name] = chosen[0]
    return answers


def _flatten(text: str, where: str) -> dict[str, str]:
    try:
        answers = json.loads(text)
        answers = answers[0] if isinstance(answers, list) else answers
        pairs: dict[str, Any] = {}
        for name, value in answers.items():
            pairs |= (
                {f"{name}.{c}": on for c, on in value.items()}
                if isinstance(value, dict)
                else {name: value}
            )
    except (ValueError, AttributeError, IndexError):
        raise ValueError(
            f"{where}: Answer.taskAnswers is not JSON: import the results file as it is"
        ) from None
    return {name: str(value) for name, value in pairs.items()}


def _ballot(answers: dict[str, str], line: dict[str, str], asked: Questions) -> Ballot:
    comment = answers.get("comment", "")[:LONGEST_COMMENT]
    seconds = line.get("WorkTimeInSeconds", "")
    return read_ballot({**answers, "comment": comment, "seconds": seconds}, asked)
