"""The chart of scores against repetition: its numbers, names that do not overlap, and a file that
stands alone."""

import random
import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from dwindle.analysis import arms
from dwindle.analysis.measure import measure
from dwindle.metrics import seeds, significance
from dwindle.report import report, scatter
from dwindle.report.scatter import Axis, Point
from dwindle.report.tradeoff import tradeoff
from tests import folders

ROOM = (46, 30, 430, 290)


def overlap(a, b):
    return min(a[2], b[2]) > max(a[0], b[0]) and min(a[3], b[3]) > max(a[1], b[1])


@pytest.mark.parametrize("seed", range(5))
def test_names_overlap_neither_names_nor_points(seed):
    rng = random.Random(seed)
    names = [
        "plain",
        "dim",
        "dydim",
        "block-3",
        "soft-trigrams",
        "a rather long name",
        "长名字",
        "gnmt",
        "cov",
    ]
    at = [(rng.uniform(60, 400), rng.uniform(50, 280)) for _ in names]
    placed = scatter.labels(names, at, [], ROOM)
    for k, box in enumerate(placed):
        assert ROOM[0] <= box[0]
        assert box[2] <= ROOM[2]
        assert not any(overlap(box, other) for other in placed[:k])
        assert not any(overlap(box, (x - 4, y - 4, x + 4, y + 4)) for x, y in at)


def test_over_seeds_an_interval_is_wider_than_over_items(tmp_path):
    (test,) = arms.read([folders.arena(tmp_path / "arena", seeds=(1, 2, 3))]).tests
    measured = measure(test)
    metric = measured.metrics["rouge1"]
    runs = measured.statistics["plain"]
    (both,) = seeds.intervals(runs, [metric])
    (items,) = significance.intervals(seeds.average(runs), [metric])
    assert both[0] < items.low
    assert items.high < both[1]
    (one,) = seeds.intervals(runs[:1], [metric])
    (alone,) = significance.intervals(runs[0], [metric])
    assert one == (alone.low, alone.high)


def test_points_are_means_over_seeds_with_their_intervals(tmp_path):
    (test,) = arms.read([folders.arena(tmp_path / "arena")]).tests
    measured = measure(test)
    found = tradeoff(measured)
    assert [p.name for p in found.points] == ["plain", "dim"]
    plain = found.points[0]
    assert plain.y == pytest.approx(
        np.mean([run.value(measured.metrics["rouge1"]) for run in measured.statistics["plain"]])
    )
    assert plain.across[0] <= plain.x <= plain.across[1]
    assert plain.upright[0] <= plain.y <= plain.upright[1]
    assert "2 seeds" in found.note
    assert found.across.mark[0] == "reference"


def test_colours_tell_how_a_system_came_about(tmp_path):
    runs = [
        folders.run(tmp_path / "plain", 1),
        folders.run(tmp_path / "dim", 2, folders.recipe("dim:log")),
        folders.run(tmp_path / "block", 3, folders.recipe(decoding__block_ngrams=3)),
        folders.run(
            tmp_path / "switch",
            4,
            folders.recipe(decoding__rule="dim:log", decoding__block_ngrams=3),
        ),
        folders.plain(tmp_path / "other.jsonl", 5),
    ]
    (test,) = arms.read(runs).tests
    found = tradeoff(measure(test))
    assert [p.square for p in found.points] == [False, False, True, False, False]
    assert [p.colour for p in found.points[:4]] == ["s0", "s1", "s3", "s2"]
    assert (
        "Blue: trained with the method; orange: the base's model, with a rule while decoding; green"
        in found.note
    )


def test_one_system_or_repetition_alone_has_no_chart(tmp_path):
    one = folders.plain(tmp_path / "a.jsonl")
    assert report.charts(report.make([one])) == {}
    assert "Score and repetition (two systems and a score)" in report.html(report.make([one]))
    bare = [folders.plain(tmp_path / f"{k}.jsonl", k, references=False) for k in (1, 2)]
    assert report.charts(report.make(bare)) == {}


def test_the_file_stands_alone_in_light_and_dark():
    name = "a <b>&\"' system"
    text = scatter.file(
        "t", Axis("x", ("reference", 2.0)), Axis("y"), [Point(name, 1, 1, (0, 2), (0, 2), "s1")]
    )
    root = ET.fromstring(text)
    assert name in "".join(root.itertext())
    assert "prefers-color-scheme: dark" in text
    assert not re.search(r"var\(|https?://(?!www\.w3\.org/2000/svg)|url\(", text)
    assert text.count(".dot.s7{fill:#") == 2


def test_a_long_note_has_lines_of_its_own_below_the_axis():
    points = [Point("a", 1, 1, (0, 2), (0, 2), "s1")]
    short, long = (
        ET.fromstring(scatter.file("t", Axis("the axis"), Axis("y"), points, note))
        for note in ("a note", "a note that says much " * 20)
    )
    for root, count in ((short, 1), (long, 5)):
        own = [text for text in root.findall("{*}text") if text.get("class") == "label"]
        heights = [float(text.get("y")) for text in own]
        assert len(own) == count
        assert all(len(text.text) * 7 < 680 for text in own)
        assert heights == sorted(set(heights))
        assert heights[-1] < float(root.get("height"))
    # The label of the upright axis stands by a transform and has no height of its own.
    across = max(float(text.get("y", 0)) for text in short.findall("{*}g/{*}text"))
    assert heights[0] > across + 15  # 10 more for the group


def test_two_test_sets_have_two_files(tmp_path):
    paths = [folders.plain(tmp_path / f"{k}.jsonl", k, count=5 + k // 2) for k in range(4)]
    assert list(report.charts(report.make(paths))) == ["-tradeoff-0.svg", "-tradeoff-2.svg"]
