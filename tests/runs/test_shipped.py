"""Every recipe that is shipped: read, built tiny, trained two steps; and every way in which they
decode and score."""

import re

import pytest

from dwindle.cli.demo import ARMS
from dwindle.core.notation import rule
from dwindle.metrics import catalogue
from dwindle.runs import recipe, shelf, steps
from tests.runs.corpora import make
from tests.runs.tiny_recipes import FEW, SHORT, SMALL

NAMES = list(shelf.shipped())


def first_of(alike) -> set[str]:
    """Of the recipes that are ``alike``, the first."""
    first: dict[str, str] = {}
    for name in NAMES:
        first.setdefault(str(alike(shelf.mapping(name))), name)
    return set(first.values())


TRAINED = first_of(lambda whole: [whole["data"], whole["model"], whole.get("training")])
DECODED = first_of(lambda whole: [whole["model"]["kind"], whole["decoding"], whole["metrics"]])


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """Where the files of a corpus are."""
    folder = tmp_path_factory.mktemp("corpora")
    made: dict[str, str | None] = {}

    def path(corpus: str) -> str | None:
        if corpus not in made:
            made[corpus] = make(corpus, folder)
        return made[corpus]

    return path


@pytest.mark.parametrize("name", NAMES)
def test_it_runs(name, path, tmp_path, monkeypatch):
    # the library fills its tables in loops
    monkeypatch.setattr("dwindle.models.presets._POSITIONS", 64)
    whole = shelf.mapping(name)
    changes = [*FEW, *SMALL, f"data.path={path(whole['data']['corpus']) or 'null'}", "start=null"]
    if whole["model"]["kind"] == "top-down":
        changes += ["model.source_length=100"]  # regions are not cut
    if whole.get("training"):
        changes += SHORT
    elif whole["model"]["kind"] != "lead-3":
        optimiser = whole.get("start", whole).get("training", {}) or {}
        changes += [
            f"training={{steps: 2, batch_size: 2, optimiser: {optimiser.get('optimiser', 'adam')}}}"
        ]
    wanted = recipe.read(name, changes)
    if name not in TRAINED | DECODED:
        return
    with steps.prepared(wanted, tmp_path / "run", None, print) as run:
        steps.train(run, print)
        assert run.model.is_dir() or whole["model"]["kind"] == "lead-3"
        if name in DECODED:
            steps.generate(run, print)
            steps.score_outputs(run, print)
            assert len(run.outputs) == 1
            assert run.done("score")


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_is(name):
    text = shelf.text(name)
    first = text.splitlines()[0]
    assert re.fullmatch(r"# dwindle (run|arena|demo).*", first)
    assert "demo" in first or name in first or name.split("/")[0] in first
    found = recipe.read(name)
    assert found.about
    assert found.scale
    assert found.name == name
    assert rule(found.model.rule)
    measured = {metric.kind for metric in steps.metrics(found)}
    published = {catalogue.kind(metric) for metric in found.published}
    assert not published or published & measured


def test_a_resolved_recipe_is_read_back_equal(tmp_path):
    for name in NAMES:
        found = recipe.read(name)
        (tmp_path / "it.yaml").write_text(recipe.text(found))
        assert recipe.read(tmp_path / "it.yaml") == found


@pytest.mark.parametrize(
    "arms",
    [
        [f"cnndm/pg-{arm}-fair" for arm in ("plain", "cov", "dim", "dydim")],
        [f"cnndm/bart-{arm}-fair" for arm in ("plain", "dim", "dydim")],
        [f"nyt50/bertsum-{arm}-fair" for arm in ("plain", "dim", "dydim")],
        [f"wmt14-en-de/transformer-{arm}-fair" for arm in ("plain", "dim", "dydim")],
        [f"wmt14-en-fr/transformer-{arm}-fair" for arm in ("plain", "dim", "dydim")],
        [f"image/xe-{arm}-fair" for arm in ("plain", "dim", "dydim")],
        [f"image/sc-{arm}-fair" for arm in ("plain", "dim", "dydim")],
        [f"image/sc-{arm}-free" for arm in ("plain", "dim", "dydim")],
        [f"scenes/{arm}" for arm in ("plain", "dim", "dydim", "dydim-two-curves")],
        [f"scenes/sc-{arm}" for arm in ("plain", "dim", "dydim")],
        [n for n in NAMES if n.startswith("newsroom/") and not n.endswith(("/base", "/lead-3"))],
        [n for n in NAMES if n.startswith("phrasebook/") and not n.endswith(("/base", "-grid"))],
        [f"demo/newsroom/{arm}" for arm in ARMS],
    ],
)
def test_fair_arms_are_equal_but_for_the_method(arms):
    from dwindle.runs.arena import arena

    assert len(arena([recipe.read(name) for name in arms], 3).arms) == len(arms)


def test_rows_as_printed_are_not_equal_and_that_is_said():
    from dwindle.runs.arena import arena

    rows = [recipe.read(f"cnndm/{name}") for name in ("pg-cov", "pg-dim")]
    said = (
        r"model.source_length \(400, 600\), decoding.beams \(4, 6\), decoding.length_norm .* and "
        r"2 more; "
    )
    with pytest.raises(ValueError, match=said):
        arena(rows, 3)
    assert "training.steps" in {change.key for change in recipe.changes(*rows)}
    assert arena(rows, 3, unequal=True).base == "pg-cov"


def test_the_papers_tables_are_all_there():
    rows = [shelf.labels(name)["row"] or "" for name in NAMES]
    own = [row for row in rows if "fair" not in row]
    counts = {
        table: sum(f"Table {table}" in row or f"and {table}:" in row for row in own)
        for table in (1, 2, 3, 4, 9)
    }
    # LEAD-3, 4 PG, 3 BART; LEAD-3, 3 BertSum; 3 for each way of training; 3 for each pair of
    # languages; PG + Cov. and 3 for each rule.
    assert counts == {1: 8, 2: 4, 3: 6, 4: 6, 9: 7}
