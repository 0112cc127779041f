"""What a page is given: numbers that come out of the packing as they went in, and items with steps
first."""

import base64

import numpy as np
import pytest

from dwindle.analysis import arms, left_out, views
from dwindle.analysis.measure import measure
from dwindle.data.script import sentence_spans
from dwindle.runfiles import arrays
from tests import folders


def unpacked(text):
    """As the page's script does it."""
    most, shades = text.split(":")
    return float(most) * (np.frombuffer(base64.b64decode(shades), dtype=np.uint8) / 255) ** 2


@pytest.mark.parametrize(
    "numbers",
    [np.array([0.0, 1e-3, 0.5, 2.0]), np.zeros(3), np.random.default_rng(0).random((4, 5))],
)
def test_packing_keeps_shades(numbers):
    back = unpacked(views.packed(numbers)).reshape(numbers.shape)
    assert np.allclose(back, numbers, atol=numbers.max() / 255 + 1e-9)


def test_pages_have_traced_items_first_and_sums_for_the_rest(tmp_path):
    folder = folders.run(tmp_path / "run")
    measured = measure(arms.read([folder]).tests[0])
    found = [views.covered(measured.test.arms[0].runs[0])]
    pages = views.pages(measured, found, [3, 5])
    assert [page["id"] for page in pages] == ["item-0", "item-3", "item-5"]
    with_steps, sums, _ = (page["views"][0] for page in pages)
    assert len(with_steps["output"]) > 1
    assert "weights" not in sums
    raw = arrays.read_coverage(folder / "coverage.npz")["item-3"][0].mean(0)
    assert np.allclose(unpacked(sums["raw"]), raw, atol=raw.max() / 255)
    item = measured.test.items[3]
    expected = left_out.shares(
        found[0].effective["item-3"], found[0].places["item-3"], sentence_spans(item.source)
    )
    assert [share for _, _, share in sums["parts"]] == [round(share, 3) for share in expected]


def test_a_page_holds_so_many_items(tmp_path, monkeypatch):
    monkeypatch.setattr(views, "MOST_ITEMS", 2)
    measured = measure(arms.read([folders.run(tmp_path / "run")]).tests[0])
    found = [views.covered(measured.test.arms[0].runs[0])]
    assert len(views.pages(measured, found, range(12))) == 2


def test_a_plain_file_has_nothing_to_show(tmp_path):
    measured = measure(arms.read([folders.plain(tmp_path / "a.jsonl")]).tests[0])
    found = [views.covered(measured.test.arms[0].runs[0])]
    assert views.pages(measured, found, range(12)) == []
    assert views.known_parts(measured, found) == {}


def test_traces_are_read_as_they_were_written_and_nothing_else_is(tmp_path):
    rng = np.random.default_rng(0)
    rows = rng.random((2, 3)).astype(np.float16).astype(np.float32)
    made = arrays.Trace("a <b>", "x y", ["x", "y", "</s>"], [0, 2, -1], [" u", "v"], rows, rows / 2)
    arrays.write_traces(tmp_path / "t.npz", [made])
    [back] = arrays.read_traces(tmp_path / "t.npz")
    assert (back.id, back.text, back.source, back.places, back.output) == (
        "a <b>",
        "x y",
        made.source,
        [0, 2, -1],
        made.output,
    )
    assert np.array_equal(back.attention, rows)
    arrays.write_traces(tmp_path / "none.npz", [])
    assert arrays.read_traces(tmp_path / "none.npz") == []
    for content in (b"no", b""):
        (tmp_path / "bad.npz").write_bytes(content)
        with pytest.raises(ValueError, match="not a file of traces"):
            arrays.read_traces(tmp_path / "bad.npz")
    np.savez(tmp_path / "object.npz", count=np.array(1), **{"0.id": np.array([{}], dtype=object)})
    with pytest.raises(ValueError, match="not a file of traces"):
        arrays.read_traces(tmp_path / "object.npz")
