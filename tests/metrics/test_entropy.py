"""Coverage entropy: its values, its file, and what it refuses."""

import numpy as np
import pytest

from dwindle.metrics import entropy
from dwindle.metrics.score import score
from dwindle.runfiles import arrays
from dwindle.runfiles.outputs import Item, Outputs


def made(tmp_path, **changes):
    """Two items, two layers: an even coverage of 4 positions, and one position."""
    arrays = {
        "ids": np.array(["a", "b"]),
        "offsets": np.array([0, 4, 5]),
        "raw": np.array([[1.0, 1, 1, 1, 2], [4.0, 0, 0, 0, 2]]),
        "effective": np.array([[0.5, 0.5, 0.5, 0.5, 1], [0.5, 0.5, 0, 0, 1]]),
    } | changes
    np.savez(tmp_path / "coverage.npz", **{k: v for k, v in arrays.items() if v is not None})
    return Outputs("o", (Item("a", "x"), Item("b", "y")), tmp_path)


def test_entropy_by_hand(tmp_path):
    values = {s.metric: s.value for s in score(made(tmp_path), entropy.metrics())}
    # Item a: layers log 4 and 0 (raw), log 4 and log 2 (effective). Item b: one position, H = 0.
    assert values == {
        "entropy-raw": pytest.approx(np.log(4) / 4),
        "entropy-raw-even": pytest.approx((0.5 + 1) / 2),
        "entropy-effective": pytest.approx((np.log(4) + np.log(2)) / 4),
        "entropy-effective-even": pytest.approx((0.75 + 1) / 2),
    }


def test_write_then_read(tmp_path):
    rng = np.random.default_rng(0)
    coverage = {
        name: (rng.random((3, n)), rng.random((3, n))) for name, n in (("x", 4), ("y", 1), ("z", 7))
    }
    arrays.write_coverage(tmp_path / "c.npz", coverage)
    back = arrays.read_coverage(tmp_path / "c.npz")
    assert all(np.array_equal(back[name], np.stack(pair)) for name, pair in coverage.items())


BAD = {
    "lacks": ({"effective": None}, "holds"),
    "shape": ({"effective": np.ones((2, 4))}, "must have one shape"),
    "kind": ({"raw": np.ones((2, 5), int), "effective": np.ones((2, 5), int)}, "floating-point"),
    "ids": ({"ids": np.array(["a", "a"])}, "different strings"),
    "offsets": ({"offsets": np.array([0, 5])}, "must be 3 integers"),
    "falling": ({"offsets": np.array([0, 5, 5])}, "must rise from 0 to 5"),
    "nan": (
        {"raw": np.full((2, 5), np.nan)},
        "item 'a' has a coverage that is negative or not a number",
    ),
    "zero": ({"raw": np.zeros((2, 5))}, "no coverage at all"),
    "other": ({"ids": np.array(["a", "c"])}, "no coverage for id 'b'"),
    "pickle": ({"ids": np.array([{}, {}], dtype=object)}, "is not a coverage file"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused(tmp_path, name):
    changes, sentence = BAD[name]
    with pytest.raises(ValueError, match=sentence):
        score(made(tmp_path, **changes), entropy.metrics())


def test_a_missing_or_broken_file_is_refused(tmp_path):
    system = Outputs("o", (Item("a", "x"),), tmp_path)
    with pytest.raises(ValueError, match="is not there: name one as entropy:FILE"):
        score(system, entropy.metrics())
    (tmp_path / "broken.npz").write_bytes(b"PK not a zip")
    with pytest.raises(ValueError, match="is not a coverage file"):
        score(system, entropy.metrics(str(tmp_path / "broken.npz")))
