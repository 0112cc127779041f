"""What a notebook shows of results: readable, escaped, and with the numbers that are in them."""

import matplotlib as mpl
import pytest
import torch

import dwindle
from dwindle.attaching.record import Record
from dwindle.auditing.listeners import Finding, Listeners, Span
from dwindle.auditing.source import Part

SOURCE = "pay <b>now</b> or leave"
FOUND = Finding(
    3.2,
    True,
    (Span(18, 23, "leave", 4.1),),
    (Part(0, 3), Part(18, 23)),
    (0.1, 4.1),
    23,
    23,
    SOURCE,
    "payez & <i>",
)
EARS = Listeners(
    *(((5, 2), (4, 0)), {"": 1.0}, 2.0, 1.5, 0.05, "characters"),
    *({"words": 0.9, "words, all heads": 0.6}, True, (), {}),
)


@pytest.fixture(autouse=True)
def _no_window():
    mpl.use("agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def test_a_finding():
    assert repr(FOUND) == "Finding(alarm, score 3.20; left out: 'leave')"
    html = FOUND._repr_html_()
    assert ">leave</mark>" in html
    assert "<b>now" not in html
    assert "payez &amp; &lt;i&gt;" in html
    frame = FOUND.to_pandas()
    assert frame["text"].tolist() == ["pay", "leave"]
    assert frame["marked"].tolist() == [False, True]
    assert [bar.get_height() for bar in FOUND.plot().patches] == [0.1, 4.1]


def test_a_finding_in_a_sound_has_no_text():
    found = Finding(3.0, True, (Span(1.0, 2.5, "", 4.0),), (Part(1.0, 1.2),), (4.0,), 3.0, 3.0)
    assert repr(found) == "Finding(alarm, score 3.00; left out: 1.0-2.5 s)"
    assert "<td>2.5</td>" in found._repr_html_()


def test_listeners():
    assert (
        repr(EARS)
        == "Listeners(heads 5.2, 4.0; 5% false alarms; AUROC: words 0.90, words, all heads 0.60)"
    )
    assert EARS.to_pandas()["heads"].tolist() == ["chosen", "all heads"]
    assert "<td>0.900</td>" in EARS._repr_html_()
    assert [bar.get_width() for bar in EARS.plot().patches] == [0.9, 0.6]


@pytest.mark.parametrize("heads", [(), (3,)])
def test_a_record(heads):
    rows = torch.rand(2, 1, *heads, 4, 5)
    record = Record(["decoder.0", "decoder.1"], None, rows, rows / 2)
    assert repr(record).startswith("Record(2 layers, 1 sequences")
    frame = record.to_pandas()
    assert len(frame) == record.coverage.numel()
    last = frame.iloc[-1]
    assert (last["layer"], last["position"]) == ("decoder.1", 4)
    assert last["coverage"] == pytest.approx(float(record.coverage.flatten()[-1]))
    assert record.plot().images[0].get_array().shape == (4, 5)
    assert "<td>decoder.1</td>" in record._repr_html_()


def test_an_evaluation_is_still_a_dictionary():
    scores = dwindle.evaluate(["a b c a b c"], metrics="repetition1,repetition3")
    assert scores["repetition1"].value == 50
    assert dict(scores) == scores
    assert repr(scores) == "Evaluation(repetition1 50.00, repetition3 25.00)"
    assert scores.to_pandas()["value"].tolist() == [50.0, 25.0]
    assert "<td>25.00</td>" in scores._repr_html_()
    assert [bar.get_width() for bar in scores.plot().patches] == [50.0, 25.0]


def test_a_comparison():
    worse = ["a b c a b c"] * 20
    better = ["a b c d e f"] * 19 + worse[:1]
    found = dwindle.compare(worse, better, metrics="repetition1,length")
    assert found["repetition1"].base == 50
    assert repr(found) == (
        "SystemComparison(repetition1 \u221247.50 (p < 0.001), length 0.0 (p = 1.00), sentences "
        "0.0 (p = 1.00))"
    )
    frame = found.to_pandas()
    assert frame["difference"].tolist() == [-47.5, 0.0, 0.0]
    assert frame["clear"].tolist() == [True, False, False]
    html = found._repr_html_()
    assert "<td>50.00</td><td>2.50</td><td>\u221247.50</td>" in html
    points = [line for line in found.plot().lines if line.get_marker() == "o"]
    assert [list(line.get_xdata()) for line in points] == [[-47.5], [0.0], [0.0]]
    assert points[0].get_color() == "#1b7f4d"
    with pytest.raises(ValueError, match="the base has 20 texts, the other 19"):
        dwindle.compare(worse, better[:-1], metrics="repetition1")
