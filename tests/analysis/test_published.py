"""The paper's figures stand beside ours and are never subtracted."""

import pytest
import torch
from safetensors.torch import save_file

from dwindle.analysis import arms, published
from dwindle.analysis.measure import measure
from dwindle.metrics import paper, recomputed
from dwindle.runfiles import scores
from dwindle.runfiles.run import Run
from dwindle.runs import recipe, shelf
from tests import folders


def made(*paths):
    return {
        t.caption.partition(":")[0]: t
        for t in published.tables([measure(t) for t in arms.read(paths).tests])
    }


def cells(table, system):
    return [cell.text for cell in dict(table.rows)[system]]


def test_nothing_was_run(tmp_path):
    assert made(folders.plain(tmp_path / "a.jsonl")) == {}


def test_a_run_is_found_by_its_recipe(tmp_path):
    given = folders.recipe("paper:pg-dim", data__corpus="cnndm") | {"name": "cnndm/pg-dim"}
    tables = made(folders.run(tmp_path / "mine", given=given))
    measured = measure(arms.read([tmp_path / "mine"]).tests[0])
    assert list(tables) == [f"Table {n}" for n in (1, 2, 3, 4, 5, 6, 9, 14, 15)]
    row = cells(tables["Table 1"], "PG + Dim")
    assert row[:2] == ["40.01", f"{measured.value('mine', 'rouge1').value:.2f}"]
    assert cells(tables["Table 1"], "PG + DyDim")[1] == "not run"
    assert cells(tables["Table 6"], "Reference")[1] != "not run"
    assert cells(tables["Table 9"], "PG + Dim")[1] == "not run"  # that row has a recipe of its own
    assert tables["Table 1"].notes == (
        "PG + Dim: ours is mine, 12 items of 11,490, 100 examples to train on, 10 steps",
    )


def test_every_row_names_a_shipped_recipe_or_what_was_only_reported():
    shipped = set(shelf.shipped())
    for row in (row for table in paper.tables() for row in table.rows):
        assert row.run in shipped | {"reference"} or "(as reported)" in row.system
        assert len(row.values)


def test_a_figure_stands_in_one_place_only():
    """Recipes, the audit and the report take it from there."""
    assert (
        recipe.read("cnndm/pg").published
        == paper.figures("cnndm/pg")
        == {
            **{"rouge1": 36.69, "rouge2": 15.92, "rougeL": 33.63},
            **{"mover1": 12.46, "mover2": 19.37},
        }
    )
    assert recipe.read("image/xe-dim").published == {"cider": 0.2547}
    assert recipe.read("cnndm/pg", ["published={rouge1: 1}"]).published == {"rouge1": 1}
    gains = [finding.printed for finding in recomputed.recomputed() if "ROUGE" in finding.about]
    assert gains == ["+0.93/+0.65/+1.02", "+1.05/+0.85/+1.29"]


def test_table_1_has_sizes_and_table_4_has_confidence(tmp_path):
    base = folders.recipe(data__corpus="wmt14-en-de") | {
        "metrics": ["bleu"],
        "name": "wmt14-en-de/transformer",
    }
    given = folders.recipe("dim:log", data__corpus="wmt14-en-de") | {
        "name": "wmt14-en-de/transformer-dim"
    }
    one, two = folders.run(tmp_path / "a", 1, base), folders.run(tmp_path / "b", 2, given)
    tests = [measure(test, ["bleu:moses-de+compound"]) for test in arms.read([one, two]).tests]
    table = next(
        t
        for t in published.tables(tests)
        if t.caption.startswith("Table 4") and "German" in t.caption
    )
    row = cells(table, "Transformer-Big + Dim")
    wins = tests[0].difference("b", "bleu:moses-de+compound").wins
    assert row == ["29.7", row[1], "99.5", f"{100 * wins:.1f}"]
    first = made(one)["Table 1"]
    assert cells(first, "PG + Cov.")[-3:] == ["0", "27M + 512", "not run"]


def test_moverscore_that_was_added_to_a_run_is_shown(tmp_path):
    given = folders.recipe("paper:pg-dim", data__corpus="cnndm") | {"name": "cnndm/pg-dim"}
    folder = folders.run(tmp_path / "mine", given=given)
    assert cells(made(folder)["Table 1"], "PG + Dim")[7] == "not run"
    stored = {
        "metric": "mover1:bert",
        "value": 20.125,
        "low": 19.0,
        "high": 21.0,
        "signature": "mover1:bert|x:y",
    }
    scores.write(folder, 12, [stored])
    assert cells(made(folder)["Table 1"], "PG + Dim")[6:8] == ["17.56", "20.12"]
    with pytest.raises(ValueError, match="dwindle score RUN --metrics mover:bert"):
        measure(arms.read([folder]).tests[0], ["rouge", "mover:bert"])


def test_parameters_are_counted_from_the_header(tmp_path):
    run = Run(folders.run(tmp_path / "run"))
    assert published.parameters(run) is None
    file = tmp_path / "run" / "model" / "model.safetensors"
    file.parent.mkdir()
    save_file({"a": torch.zeros(3, 4), "b": torch.zeros(5)}, file, {"format": "pt"})
    assert published.parameters(run) == 17
    file.write_bytes((2**62).to_bytes(8, "little") + b"{}")
    with pytest.raises(ValueError, match="does not begin like a safetensors file"):
        published.parameters(run)
