"""Mechanical Turk: what goes out shows every text as text and no name, what comes back is the same
tally."""

import csv
import html
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwindle.study import mturk
from dwindle.study.form import visible
from dwindle.study.store import Store
from dwindle.study.tally import tally
from tests.study import study_kit
from tests.study.study_kit import BALLOT, GOOD, SECRETS

TEXT = st.text(
    st.characters(
        codec="utf-8",
        exclude_characters="\r\x80\x81\x8d\x8f\x90\x9d" + "".join(map(chr, range(0x80, 0xA0))),
    )
)


@given(TEXT)
def test_references_are_ascii_and_mean_the_text(text):
    written = mturk.references(text)
    assert written.isascii()
    assert not set(written.replace("<br>", "")) & set("<>\"'$\n")
    assert html.unescape(written.replace("<br>", "\n")) == visible(text)


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def results(folder, path, shape="plain", swap=lambda item, worker: False, workers=2, **more):
    """A results file as the site would give it: every worker prefers the text of the second system,
    wherever it is."""
    lines = []
    with Store(folder) as store:
        mturk.write(store, folder / "mturk")
        b = {str(number): mturk.references(b) for number, _, _, b, _ in store.pairs()}
    for row in read(folder / "mturk" / "input.csv"):
        for worker in range(workers):
            swapped = swap(int(row["item"]), worker)
            left = row["right"] if swapped else row["left"]
            side = "left" if left == b[row["item"]] else "right"
            answers = {
                **GOOD,
                "representativeness": side,
                "readability": "tie",
                "comment": "fine",
                f"factual_{side}": "yes",
                "factual_left" if side == "right" else "factual_right": "no",
                "swapped": "yes" if swapped else "no",
            }
            line = {
                "HITId": "H",
                "WorkerId": f"WORKER{worker}",
                "AssignmentStatus": "Submitted",
                "WorkTimeInSeconds": "61",
            }
            line |= {f"Input.{key}": value for key, value in row.items()} | more
            lines.append(line | shaped(answers, shape))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, lines[0].keys())
        writer.writeheader()
        writer.writerows(lines)
    return path


def shaped(answers, shape):
    choices = {
        "representativeness": ("left", "tie", "right"),
        "readability": ("left", "tie", "right"),
        "factual_left": ("yes", "no"),
        "factual_right": ("yes", "no"),
    }
    if shape == "plain":
        return {f"Answer.{name}": value for name, value in answers.items()}
    nested = {
        n: {c: c == answers[n] for c in choices[n]} if n in choices else answers[n] for n in answers
    }
    if shape == "json":
        return {"Answer.taskAnswers": json.dumps([nested])}
    flat = {f"Answer.{n}.{c}": str(on).lower() for n in choices for c, on in nested[n].items()}
    return flat | {"Answer.comment": answers["comment"], "Answer.swapped": answers["swapped"]}


def test_files_hold_no_name_and_every_variable(tmp_path):
    nasty = '<script>${left}</script>, "q" \n مرحبا 😀 \u202e'
    folder = study_kit.make(tmp_path / "study", items=3, checks=2, source=nasty)
    with Store(folder) as store:
        template, rows = mturk.write(store, folder / "mturk")
    page, table = template.read_text("ascii"), rows.read_text("ascii")
    for name in (*SECRETS, "id-", "check"):
        assert name not in page.replace("grid-", "")
        assert name not in table
    assert "<script>" not in table
    assert "${" not in table
    lines = read(rows)
    assert len(lines) == 5
    assert tuple(lines[0]) == mturk.COLUMNS
    assert html.unescape(lines[0]["source"].replace("<br>", "\n")) == nasty
    for variable in ("source", "left", "right"):
        assert page.count("${" + variable + "}") == 1
    for field in (*GOOD, "comment", "swapped"):
        assert f'name="{field}"' in page


@pytest.mark.parametrize("shape", ["plain", "flat", "json"])
@pytest.mark.parametrize(
    "swap", [lambda i, w: False, lambda i, w: True, lambda i, w: (i + w) % 2 == 0]
)
def test_results_in_any_shape_and_order_of_sides_give_the_same_tally(folder, tmp_path, shape, swap):
    path = results(folder, tmp_path / "results.csv", shape, swap)
    with Store(folder) as store:
        done = mturk.enter(store, path)
        assert (done.entered, done.known, done.rejected, done.incomplete) == (8, 0, 0, 0)
        counted = tally(store.systems, store.rows())
        assert all(r.rater.startswith("mturk ") and "WORKER" not in r.rater for r in store.rows())
        assert {(r.ballot.comment, r.ballot.seconds) for r in store.rows()} == {("fine", 61.0)}
    first, second = counted.comparisons
    assert (first.wins_a, first.ties, first.wins_b, second.ties) == (0, 0, 8, 8)
    assert (counted.verdicts[0].a.share, counted.verdicts[0].b.share) == (0, 1)
    assert (counted.items, counted.raters, first.agreement) == (4, 2, 1)


def test_importing_twice_or_in_parts_changes_nothing(folder, tmp_path):
    path = results(folder, tmp_path / "results.csv", swap=lambda i, w: w == 0)
    lines = path.read_text().splitlines(keepends=True)
    part = tmp_path / "part.csv"
    part.write_text("".join(lines[:4]))
    with Store(folder) as store:
        assert mturk.enter(store, part).entered == 3
        done = mturk.enter(store, path)
        assert (done.entered, done.known) == (5, 3)
        once = store.rows()
        assert mturk.enter(store, path).known == 8
        assert store.rows() == once
        assert tally(store.systems, once).comparisons[0].wins_b == 8


def test_rejected_and_incomplete_work_is_counted_and_left_out(folder, tmp_path):
    path = results(folder, tmp_path / "r.csv", AssignmentStatus="Rejected")
    with Store(folder) as store:
        assert mturk.enter(store, path).rejected == 8
        path = results(folder, tmp_path / "r.csv")
        path.write_text(path.read_text().replace(",tie,", ",,"))
        assert mturk.enter(store, path).incomplete == 8
        assert store.rows() == []


def test_more_workers_than_asked_are_refused_whole(folder, tmp_path):
    path = results(folder, tmp_path / "r.csv", workers=3)
    with Store(folder) as store:
        with pytest.raises(ValueError, match="has no place for one more ballot"):
            mturk.enter(store, path)
        assert store.rows() == []


def test_results_of_another_study_are_refused(folder, tmp_path):
    other = study_kit.make(tmp_path / "other")
    path = results(other, tmp_path / "r.csv")
    with Store(folder) as store, pytest.raises(ValueError, match="line 2 is not of this study"):
        mturk.enter(store, path)
    path.write_bytes(b"\xff\xfe\x00")
    with Store(folder) as store, pytest.raises(ValueError, match="not a CSV file in UTF-8"):
        mturk.enter(store, path)


def test_the_study_is_found_above_the_results(folder, tmp_path):
    (folder / "mturk").mkdir()
    assert mturk.study_of(folder / "mturk" / "results.csv") == folder
    with pytest.raises(ValueError, match="name it with --study DIR"):
        mturk.study_of(tmp_path / "results.csv")


def test_a_place_that_a_rater_holds_is_not_taken(folder, tmp_path):
    study_kit.change(folder, lambda s: s.save(1, s.draw(1), BALLOT))
    path = results(folder, tmp_path / "r.csv", workers=1)
    with Store(folder) as store:
        assert mturk.enter(store, path).entered == 4
        assert len(store.rows()) == 5
