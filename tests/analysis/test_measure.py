"""A report's numbers are those of ``score`` and ``compare``, whoever asks."""

import json

import numpy as np
import pytest

from dwindle.analysis import arms, tables
from dwindle.analysis.measure import measure
from dwindle.metrics import catalogue, score, seeds, significance
from dwindle.metrics.difference import Difference
from dwindle.metrics.table import Cell
from dwindle.runfiles import outputs
from tests import folders


def measured(*paths, **how):
    [test] = arms.read(paths).tests
    return measure(test, **how)


def test_values_and_tests_are_those_of_the_metrics_room(tmp_path):
    one, two = folders.plain(tmp_path / "a.jsonl", 1), folders.plain(tmp_path / "b.jsonl", 2)
    m = measured(one, two)
    metrics = catalogue.find(["rouge"])
    base, other = (score.reduce(outputs.read(path), metrics) for path in (one, two))
    for metric, compared in zip(
        metrics, significance.compare(base, [other], metrics)[0], strict=True
    ):
        value = m.value("b", metric.name)
        assert (value.value, value.low, value.high) == (
            compared.score.value,
            compared.score.low,
            compared.score.high,
        )
        d = m.difference("b", metric.name)
        known = (compared.difference, compared.low, compared.high, compared.holm_randomisation)
        assert (d.difference, d.low, d.high, d.p_holm) == pytest.approx(known)
    assert m.main == ["rouge1", "rouge2", "rougeL", "repetition3"]


def test_over_seeds_a_value_is_a_mean_and_a_difference_is_that_of_an_arena(tmp_path):
    m = measured(folders.arena(tmp_path / "arena"))
    singles = [
        measured(tmp_path / "arena" / "dim" / f"seed-{s}").value(f"seed-{s}", "rouge2").value
        for s in (1, 2)
    ]
    value = m.value("dim", "rouge2")
    assert value.value == pytest.approx(np.mean(singles))
    assert (value.low, value.high, value.runs) == (min(singles), max(singles), 2)
    metrics = list(m.metrics.values())
    [row] = seeds.differences(m.statistics["plain"], [m.statistics["dim"]], metrics)
    for metric, d in zip(metrics, row, strict=True):
        assert m.difference("dim", metric.name) == d


def test_whether_a_difference_grows_with_length(tmp_path):
    m = measured(folders.arena(tmp_path / "arena"))
    table = tables.by_length(m)
    assert table.columns == (
        "system",
        "ROUGE-1, short",
        "ROUGE-1, long",
        "ROUGE-1, long less short",
    )
    [(arm, cells)] = table.rows
    short, long, gap = (m.difference(arm, f"rouge1/{half}") for half in ("short", "long", "gap"))
    assert gap.difference == pytest.approx(long.difference - short.difference)
    assert gap.low < gap.difference < gap.high
    assert cells[2].text == catalogue.kind("rouge1").text(gap.difference, sign=True)
    assert cells[2].tone == ""
    assert m.value(arm, "rouge1/gap").value == pytest.approx(
        m.value(arm, "rouge1/long").value - m.value(arm, "rouge1/short").value
    )


def test_an_arm_that_lacks_a_seed_is_shown_untested(tmp_path):
    folder = folders.arena(tmp_path / "arena")
    (folder / "dim" / "seed-2" / "outputs.jsonl").unlink()
    d = measured(folder).difference("dim", "rouge2")
    assert (d.low, d.p_holm) == (None, None)


def test_scores_that_are_not_made_here_are_taken_from_the_folder(tmp_path):
    folder = folders.run(
        tmp_path / "run", given=folders.recipe() | {"metrics": ["rouge1", "mover"]}
    )
    stored = {
        "metric": "mover1",
        "value": 20.0,
        "low": 19.0,
        "high": 21.0,
        "signature": "mover1|made",
    }
    (folder / "scores.json").write_text(json.dumps({"items": 12, "scores": [stored]}))
    m = measured(folder)
    assert m.main == ["rouge1", "mover1", "repetition3"]
    assert m.value("run", "mover1").value == 20.0


def test_a_broken_coverage_file_costs_the_entropy_only(tmp_path):
    folder = folders.run(tmp_path / "run")
    (folder / "coverage.npz").write_bytes(b"no")
    m = measured(folder)
    assert not m.has("entropy-raw")
    assert m.has("rouge1")
    assert "coverage.npz" in m.notes[0]


def test_without_sources_or_references_tables_say_what_is_missing(tmp_path):
    m = measured(folders.plain(tmp_path / "a.jsonl", sources=False, references=False))
    assert m.main == [
        "repetition1",
        "repetition2",
        "repetition3",
        "repetition4",
        "length",
        "sentences",
    ]
    assert "source" in tables.novelty(m)
    assert "source" in tables.layout(m)
    notes = tables.coverage(m).notes
    assert any("coverage.npz" in note for note in notes)
    assert any("halves" in note for note in notes)
    assert tables.settings(m.test.arms) == []


def test_one_item_and_an_empty_output(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text(
        json.dumps({"id": 1, "source": "a b c", "reference": "a b", "hypothesis": ""}) + "\n"
    )
    assert measured(file).value("a", "rouge1").value == 0


def test_clear_is_an_interval_without_zero_and_a_small_p():
    assert Difference("rouge1", 1, 0.5, 2, None, 0.01).clear
    assert Difference("rouge1", -1, -2, -0.5, None, 0.01).clear
    assert Difference("rouge1", 1, 0.5, 2, None, None).clear
    # another comparison of the table used up the 5 %
    assert not Difference("rouge1", 1, 0.5, 2, None, 0.06).clear
    assert not Difference("rouge1", 1, -0.5, 2, None, 0.3).clear
    assert not Difference("rouge1", 1).clear


def test_like_for_like_lists_every_changed_setting(tmp_path):
    base = folders.run(tmp_path / "base", 1)
    rule = folders.run(tmp_path / "rule", 2, folders.recipe("dim:log"))
    both = folders.run(tmp_path / "both", 3, folders.recipe("dim:log", decoding__block_ngrams=3))
    more = folders.run(tmp_path / "more", 4, folders.recipe("dim:log", decoding__beams=6))
    table = tables.like_for_like(measured(base, rule, both, more))
    assert [cells[0].text for _, cells in table.rows] == [
        "base",
        "only the rule",
        "only the method",
        "2 settings",
    ]
    assert table.rows[3][1][0].note == "model.rule: plain → dim:log; decoding.beams: 4 → 6"


def test_a_start_with_another_seed_is_not_only_the_rule(tmp_path):
    """As the arena has it, which refuses such arms."""
    starts = [folders.recipe() | {"start": folders.recipe() | {"seed": seed}} for seed in (1, 2)]
    starts[1]["model"]["rule"] = "dim:log"
    one, two = (folders.run(tmp_path / f"run-{k}", k, given) for k, given in enumerate(starts))
    assert tables.like_for_like(measured(one, two)).rows[1][1][0].text == "2 settings"


def test_settings_are_split_into_those_that_differ_and_those_that_do_not(tmp_path):
    base = folders.run(tmp_path / "base", 1)
    other = folders.run(tmp_path / "other", 2, folders.recipe("dim:log"))
    differing, shared = tables.settings(measured(base, other).test.arms)
    assert differing.rows == (("model.rule", (Cell("plain"), Cell("dim:log"))),)
    assert dict(shared.rows)["decoding.beams"] == (Cell("4"),)
    [only] = tables.settings(measured(base).test.arms)
    assert "model.rule" in dict(only.rows)


def test_the_summary_says_what_is_clear(tmp_path):
    m = measured(folders.plain(tmp_path / "a.jsonl", 1), folders.plain(tmp_path / "b.jsonl", 2))
    m._differences = {
        ("b", "rouge1"): Difference("rouge1", 1, 0.5, 2, None, 0.01),
        ("b", "rouge2"): Difference("rouge2", -1, -2, -0.5, None, 0.01),
        ("b", "rougeL"): Difference("rougeL", 1, -1, 3, None, 0.3),
    }
    repeated, *said = tables.summary(m)
    assert repeated == "Repeated 3-grams: a 0.00 %, b 0.00 %, reference 0.00 %."
    assert said == [
        "b against a: better in ROUGE-1; worse in ROUGE-2; no clear difference in the other 1 of "
        "3 metrics."
    ]
    m.main = ["rougeL"]
    assert tables.summary(m)[1:] == ["b against a: no clear difference in 1 of 1 metrics."]
    m.main = ["novelty1"]
    assert tables.summary(m) == [repeated]


def test_a_system_that_repeats_is_told_so_in_the_headline(tmp_path):
    plain, loops = tmp_path / "plain.jsonl", tmp_path / "loops.jsonl"
    for path, times in ((plain, 1), (loops, 5)):
        items = [
            {"id": i, "reference": f"a b c d{i}", "hypothesis": " ".join([f"a b c d{i}"] * times)}
            for i in range(30)
        ]
        path.write_text("".join(json.dumps(item) + "\n" for item in items))
    m = measured(plain, loops)
    repeated, said = tables.summary(m)
    assert repeated == "Repeated 3-grams: plain 0.00 %, loops 77.78 %, reference 0.00 %."
    assert "worse in" in said
    assert "repeated 3-grams" in said
    cell = dict(tables.differences(m).rows)["loops"][-1]
    assert (cell.text, cell.tone) == ("+77.78", "worse")
