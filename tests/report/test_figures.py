"""Figures are drawn from the report's own numbers."""

import pytest

from dwindle.report import figures, report
from tests import folders


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    tmp = tmp_path_factory.mktemp("runs")
    return report.make(
        [folders.run(tmp / "plain", 1), folders.run(tmp / "dim", 2, folders.recipe("dim:log"))]
    ).tests[0]


def test_bars_are_the_values_of_the_table(measured):
    [axis] = figures.repetition(measured).axes
    assert [bars.get_label() for bars in axis.containers] == ["reference", "plain", "dim"]
    heights = [[bar.get_height() for bar in bars] for bars in axis.containers]
    for name, row in zip(("reference", "plain", "dim"), heights, strict=True):
        assert row == [measured.value(name, f"repetition{n}").value for n in (1, 2, 3, 4)]


def test_entropy_has_a_dot_for_each_arm_and_kind(measured):
    for axis, kind in zip(figures.entropy(measured).axes, ("raw", "effective"), strict=True):
        dots = [bar.lines[0].get_xdata()[0] for bar in axis.containers]
        assert dots == [measured.value(arm, f"entropy-{kind}").value for arm in ("plain", "dim")]


def test_every_g_starts_at_zero_and_falls_in_slope():
    values, slopes = figures.gains().axes
    for line in values.lines:
        assert line.get_ydata()[0] == 0
    for line in slopes.lines:
        assert (line.get_ydata()[1:] <= line.get_ydata()[:-1] + 1e-12).all()
