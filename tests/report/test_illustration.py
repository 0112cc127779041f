"""Figure 1 shows what the paper says it shows."""

from dwindle import rule
from dwindle.report.illustration import ATTENTION, draw, illustrate


def test_plain_changes_nothing():
    assert [step.weights for step in illustrate(rule("plain"))] == list(ATTENTION)


def test_the_red_block_the_same_attention_gives_less_the_second_time():
    for text in ("dim:log", "dydim:boxcox(0),boxcox(0.5)"):
        _, second, third = illustrate(rule(text))
        assert second.attention[0] == third.attention[0]
        assert third.weights[0] < second.weights[0] < second.attention[0]


def test_the_yellow_block_the_more_covered_position_gives_less():
    last = illustrate(rule("dim:log"))[-1]
    assert last.attention[0] == last.attention[3]
    assert last.coverage[0] > last.coverage[3]
    assert last.weights[0] < last.weights[3]


def test_drawing(tmp_path):
    draw(
        {"Plain": illustrate(rule("plain")), "Dim": illustrate(rule("dim:log"))},
        tmp_path / "one.svg",
    )
    assert "<svg" in (tmp_path / "one.svg").read_text()
