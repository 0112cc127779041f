"""omission, redundancy, invention and straying of outputs of the synthetic worlds."""

import pytest

from dwindle.data.load import DataSettings, Size, load
from dwindle.metrics import catalogue, score
from dwindle.metrics.world import WORLDS, count
from dwindle.runfiles import outputs

NAMES = ["omission", "redundancy", "invention", "straying"]


def system(hypotheses, world="newsroom"):
    made = load(DataSettings(world, size=Size(test=len(hypotheses))), "test")
    items = [
        outputs.Item(e.id, h(e), e.references, e.source, extra={"gold": e.gold})
        for e, h in zip(made, hypotheses, strict=True)
    ]
    return outputs.outputs("made", items)


def values(system):
    return {s.metric: s.value for s in score.score(system, catalogue.find(NAMES))}


@pytest.mark.parametrize("world", ["newsroom", "phrasebook"])
def test_references_are_perfect_and_silence_is_not(world):
    perfect = values(system([lambda e: e.target] * 20, world))
    assert perfect == dict.fromkeys(NAMES, 0.0)
    silent = values(system([lambda e: ""] * 20, world))
    assert silent == {"omission": 100.0, "redundancy": 0.0, "invention": 0.0, "straying": 0.0}


def test_percentages_are_over_all_items():
    """Of the facts to say, and of the statements made, summed over items before dividing."""
    kinds = [
        lambda e: e.target,
        lambda e: e.target + "\n" + e.target,
        lambda e: "zzz .",
        lambda e: e.source,
    ]
    made = system(kinds * 5)
    counted = [count(item.extra["gold"], item.hypothesis) for item in made.items]
    facts, stated = sum(c.facts for c in counted), sum(c.stated for c in counted)
    assert values(made) == pytest.approx(
        {
            "omission": 100 * sum(c.omitted for c in counted) / facts,
            "redundancy": 100 * sum(c.repeated for c in counted) / stated,
            "invention": 100 * sum(c.invented for c in counted) / stated,
            "straying": 100 * sum(c.strayed for c in counted) / stated,
        }
    )
    assert min(values(made).values()) > 0


def test_the_family_and_its_members():
    assert [m.name for m in catalogue.find(["world"])] == NAMES
    assert [m.name for m in catalogue.find(["omission", "invention"])] == ["omission", "invention"]


def test_the_signature_names_the_worlds_and_their_versions():
    (metric,) = catalogue.find(["omission"])
    for name, (version, _) in WORLDS.items():
        assert f"{name}.{version}" in str(metric.signature)


def test_an_option_is_refused():
    with pytest.raises(ValueError, match="have no option 'macro': leave it out"):
        catalogue.find(["omission:macro"])


def test_items_without_gold_are_a_sentence():
    plain = outputs.outputs("plain", [outputs.Item("7", "x", ("y",), "z")])
    with pytest.raises(
        ValueError, match="item '7' has no gold, so what it leaves out is not known: leave omission"
    ):
        values(plain)
    odd = outputs.outputs(
        "odd", [outputs.Item("7", "x", ("y",), "z", extra={"gold": {"world": "mars"}})]
    )
    with pytest.raises(ValueError, match=r"item '7': the gold is not of a known world \('mars'\)"):
        values(odd)
