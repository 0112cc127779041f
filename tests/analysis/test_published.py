"""The paper's figures stand beside ours and are never subtracted."""

import folders
from dwindle.analysis import arms, published
from dwindle.analysis.measure import measure
from dwindle.metrics import audit


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
    given = folders.recipe("paper:pg-dim", data__corpus="cnndm")
    tables = made(folders.run(tmp_path / "mine", given=given))
    measured = measure(arms.read([tmp_path / "mine"]).tests[0])
    row = cells(tables["Table 1"], "PG + Dim")
    assert row[:2] == ["40.01", f"{measured.value('mine', 'rouge1').value:.2f}"]
    assert cells(tables["Table 1"], "PG + DyDim")[1] == "not run"
    assert cells(tables["Table 6"], "Reference")[1] != "not run"
    assert cells(tables["Table 9"], "PG + Dim")[1] == row[1]
    assert tables["Table 1"].notes == ("PG + Dim: ours is mine, 12 items of 11,490, trained on 100 examples",)


def test_coverage_loss_tells_two_rows_apart(tmp_path):
    given = folders.recipe(data__corpus="cnndm", model__coverage=True)
    table = made(folders.run(tmp_path / "mine", given=given))["Table 1"]
    assert cells(table, "PG")[1] == "not run"
    assert cells(table, "PG + Cov.")[1] != "not run"


def test_the_figures_agree_with_those_of_the_audit(tmp_path):
    tables = made(folders.plain(tmp_path / "a.jsonl"))
    for names, known in ((("Table 1", "PG + {}"), audit._TABLE1), (("Table 9", "PG + {}"), audit._TABLE9)):
        table, pattern = names
        for system, values in known.items():
            name = "PG + Cov." if system == "PG+Cov" else pattern.format(system)
            assert [float(text) for text in cells(tables[table], name)[:6:2]] == list(values)
