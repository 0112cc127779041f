"""The arena: one start for all, models shared where training was the same, and statistics that can
be done again."""

import json

import pytest

from dwindle.metrics import catalogue, seeds
from dwindle.runs import job, steps
from dwindle.runs.arena import arena, fight, markdown

ARMS = ("plain", "dim", "repetition-penalty")


@pytest.fixture(scope="module")
def plan(small):
    return arena(
        [small(f"newsroom/{arm}", "metrics=[rouge1, omission, entropy-raw]") for arm in ARMS], 2
    )


@pytest.fixture(scope="module")
def fought(plan, tmp_path_factory):
    out = tmp_path_factory.mktemp("arena")
    said: list[str] = []
    return fight(plan, out, said.append), out, said


def test_all_arms_go_on_from_one_start_and_train_once_where_they_train_alike(fought):
    _, out, said = fought
    trained = [
        line.removeprefix(f"{out}/").partition(":")[0]
        for line in said
        if line.endswith(": training")
    ]
    assert trained == ["start", "plain/seed-1", "dim/seed-1", "plain/seed-2", "dim/seed-2"]
    assert all(job.find(out / arm / "seed-2").start == out / "start" for arm in ARMS)
    borrowed = job.find(out / "repetition-penalty" / "seed-2").record["stages"]["train"]
    assert borrowed["same_as"] == "../../plain/seed-2"


def test_the_record_is_complete_and_its_statistics_can_be_done_again(fought, plan):
    result, out, _ = fought
    assert json.loads((out / "arena.json").read_text()) == json.loads(json.dumps(result))
    assert (result["base"], result["arms"], result["seeds"]) == ("plain", list(ARMS), [1, 2])
    metrics = ["rouge1", "omission", "entropy-raw"]
    assert result["metrics"] == metrics
    assert len(result["rows"]) == 3 * 2 * 3
    found = {
        arm: [steps.statistics(job.find(out / arm / f"seed-{n}")) for n in (1, 2)] for arm in ARMS
    }
    again = seeds.differences(
        found["plain"], [found[arm] for arm in ARMS[1:]], catalogue.find(metrics)
    )
    for d, known in zip(result["differences"], [d for row in again for d in row], strict=True):
        for key in ("metric", "difference", "low", "high", "p", "p_holm"):
            assert d[key] == getattr(known, key)
        assert tuple(d["seeds"]) == known.seeds
    rows = {(r["arm"], r["seed"], r["metric"]): r["value"] for r in result["rows"]}
    assert rows["dim", 2, "rouge1"] == found["dim"][1].value(catalogue.find(["rouge1"])[0])


def test_the_page_has_every_arm_and_metric(fought):
    result, out, _ = fought
    page = (out / "arena.md").read_text()
    assert page == markdown(result)
    assert "2 seeds, 6 test items" in page
    assert all(f"| {metric} | {arm} |" in page for metric in result["metrics"] for arm in ARMS)


def test_an_arena_that_is_done_is_only_compared_again(fought, plan, monkeypatch):
    result, out, _ = fought
    monkeypatch.setattr(steps, "fit", None)
    monkeypatch.setattr(steps, "decode", None)
    assert fight(plan, out) == result


def test_seeds_change_the_arms_and_not_the_start(fought):
    _, out, _ = fought
    one, two = (job.find(out / "dim" / f"seed-{n}").recipe for n in (1, 2))
    assert (one.seed, two.seed) == (1, 2)
    assert one.start == two.start
    weights = [
        (out / "dim" / f"seed-{n}" / "model" / "model.safetensors").read_bytes() for n in (1, 2)
    ]
    assert weights[0] != weights[1]


@pytest.mark.parametrize(
    ("arms", "changes", "complaint"),
    [
        (["plain"], [], "two different recipes or more"),
        (["plain", "plain"], [], "two arms are called"),
        (["plain", "base"], [], "differ in more than the method: .*start"),
        (["plain", "dim"], ["training.steps=9"], r"training.steps \(2, 9\)"),
        (["plain", "dim"], ["training.batch_size=2"], r"training.batch_size \(4, 2\)"),
        (["plain", "dim"], ["data.size.train=9"], r"data.size.train \(24, 9\)"),
        (["plain", "dim"], ["decoding.beams=2"], r"decoding.beams \(4, 2\)"),
        (["plain", "dim"], ["start.seed=5"], r"start.seed \(1, 5\)"),
        (
            ["plain", "dim"],
            ["decoding.block_ngrams=3"],
            "differ in attention and in search: model.rule",
        ),
    ],
)
def test_arms_that_cannot_be_compared_are_refused(small, arms, changes, complaint):
    recipes = [small(f"newsroom/{arm}", *(changes if arm == arms[-1] else [])) for arm in arms]
    with pytest.raises(ValueError, match=complaint):
        arena(recipes, 1)


def test_a_rival_in_the_search_alone_can_be_compared(small):
    rival = small("newsroom/plain", "name=newsroom/blocked", "decoding.block_ngrams=3", "seed=7")
    assert arena([small("newsroom/plain"), rival], 1).others == ["blocked"]


def test_unequal_arms_may_be_asked_for_but_not_measured_differently(small):
    one, two = small("newsroom/plain"), small("newsroom/dim", "training.steps=3")
    assert arena([one, two], 1, unequal=True).base == "plain"
    with pytest.raises(ValueError, match="different metrics"):
        arena([one, small("newsroom/dim", "metrics=[bleu]")], 1, unequal=True)


def test_the_base_is_plain_or_the_first_or_as_asked(small):
    recipes = [small(f"newsroom/{arm}") for arm in ("dim", "dydim", "plain")]
    assert arena(recipes, 1).base == "plain"
    assert arena(recipes[:2], 1).base == "dim"
    assert arena(recipes, 1, "newsroom/dydim").base == "dydim"
    assert arena(recipes, 1, "dydim").base == "dydim"
    with pytest.raises(
        ValueError, match="no arm is called 'dimm': choose the base from dim, dydim, plain"
    ):
        arena(recipes, 1, "dimm")
    with pytest.raises(ValueError, match="0 seeds"):
        arena(recipes, 0)
