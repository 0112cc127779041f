"""The paper's figures stand beside ours and are never subtracted."""

import json
from importlib import resources

from dwindle.analysis import arms, published
from dwindle.analysis.measure import measure
from dwindle.metrics import audit
from dwindle.runs import recipe, shelf
from tests import folders


def made(*paths):
    return {t.caption.partition(":")[0]: t for t in published.tables([measure(t) for t in arms.read(paths).tests])}


def cells(table, system):
    return [cell.text for cell in dict(table.rows)[system]]


def test_nothing_was_run(tmp_path):
    tables = made(folders.plain(tmp_path / "a.jsonl"))
    assert list(tables) == [f"Table {n}" for n in (1, 2, 3, 4, 5, 6, 9, 14, 15)]
    assert cells(tables["Table 1"], "PG + Dim")[:4] == ["40.01", "not run", "17.74", "not run"]
    ours = [c.text for t in tables.values() for _, row in t.rows for c in row[1::2]]
    assert set(ours) == {"not run"}


def test_a_run_is_found_by_its_recipe(tmp_path):
    given = folders.recipe("paper:pg-dim", data__corpus="cnndm") | {"name": "cnndm/pg-dim"}
    tables = made(folders.run(tmp_path / "mine", given=given))
    measured = measure(arms.read([tmp_path / "mine"]).tests[0])
    row = cells(tables["Table 1"], "PG + Dim")
    assert row[:2] == ["40.01", f"{measured.value('mine', 'rouge1').value:.2f}"]
    assert cells(tables["Table 1"], "PG + DyDim")[1] == "not run"
    assert cells(tables["Table 6"], "Reference")[1] != "not run"
    assert cells(tables["Table 9"], "PG + Dim")[1] == "not run"  # that row has a recipe of its own
    assert tables["Table 1"].notes == (
        "PG + Dim: ours is mine, 12 items of 11,490, 100 examples to train on, 10 steps",
    )


def test_every_row_names_a_shipped_recipe_or_what_was_only_reported():
    text = resources.files("dwindle.analysis").joinpath("published.json").read_text(encoding="utf-8")
    rows = [row for table in json.loads(text) for row in table["rows"]]
    shipped = set(shelf.shipped())
    for row in rows:
        assert row["run"] in shipped | {"reference"} or "(as reported)" in row["system"]


def test_the_figures_agree_with_those_of_the_recipes():
    text = resources.files("dwindle.analysis").joinpath("published.json").read_text(encoding="utf-8")
    for table in json.loads(text):
        if table["table"] in ("1", "2", "9"):
            for row in table["rows"]:
                if row["run"] and row["run"] != "cnndm/pg-cov":
                    values = dict(zip(table["metrics"], row["values"], strict=True))
                    assert recipe.read(row["run"]).published == {k: v for k, v in values.items() if v is not None}


def test_the_figures_agree_with_those_of_the_audit(tmp_path):
    tables = made(folders.plain(tmp_path / "a.jsonl"))
    for names, known in ((("Table 1", "PG + {}"), audit._TABLE1), (("Table 9", "PG + {}"), audit._TABLE9)):
        table, pattern = names
        for system, values in known.items():
            name = "PG + Cov." if system == "PG+Cov" else pattern.format(system)
            assert [float(text) for text in cells(tables[table], name)[:6:2]] == list(values)
