"""Choosing heads by deletions, and the thresholds."""

import json
import math
from dataclasses import replace

import pytest
import torch

import dwindle
from dwindle.auditing import choose
from dwindle.auditing.calibration import conformal, conformal_without_gaps
from tests.auditing import small


@pytest.fixture(scope="module")
def chosen(model, tokenizer):
    return dwindle.listeners(model, tokenizer, small.TEXTS)


def test_the_head_that_listens_is_found(chosen):
    assert chosen.heads == (small.GOOD,)
    assert chosen.tells
    assert chosen.auroc["sentences"] > 0.8  # words recur in the joined texts
    assert chosen.auroc["sentences"] >= chosen.auroc["sentences, all heads"] + 0.05
    assert (chosen.origin["chosen_on"], chosen.origin["calibrated_on"]) == (30, 30)


def test_another_share_is_read_from_the_calibration(chosen):
    milder = chosen.at(0.2)
    items, deletions = chosen.calibration["items"], chosen.calibration["deletions"]
    assert milder.threshold == conformal_without_gaps(items, deletions, 0.2) < chosen.threshold
    assert (
        milder.part_threshold
        == conformal(chosen.calibration["parts"], 0.2)
        <= chosen.part_threshold
    )
    assert milder.heads == chosen.heads
    assert milder.at(0.05) == chosen
    with pytest.raises(
        ValueError, match=r"too few for 1\.0% false alarms: ask for \d\.\d% or more"
    ):
        chosen.at(0.01)


def leaving_out(share: float) -> list[str]:
    """Outputs of a system that drops three of the five words of some texts."""
    dropping = round(share * len(small.TEXTS))
    return [
        " ".join(text.split()[:2]) if n < dropping else text for n, text in enumerate(small.TEXTS)
    ]


def test_outputs_to_audit_calibrate_though_some_leave_something_out(model, tokenizer, chosen):
    outputs = leaving_out(0.2)
    found = dwindle.listeners(model, tokenizer, small.TEXTS, outputs)
    assert found.origin["calibrated_with"] == "the outputs to audit"
    assert (found.heads, found.usual) == (chosen.heads, chosen.usual)
    scores = found.calibration
    assert found.threshold < conformal(scores["items"], 0.05)
    pairs = list(zip(small.TEXTS, outputs, strict=True))
    alarms = [one.alarm for one in dwindle.omissions(model, tokenizer, pairs, found)]
    assert all(alarms[:12])
    assert sum(alarms[12:]) <= 4
    # as if it were known that they are whole
    taken = dwindle.listeners(model, tokenizer, small.TEXTS, outputs, intact=True)
    assert taken.origin["calibrated_with"] == "the complete outputs"
    assert taken.calibration["deletions"] == []
    assert taken.threshold == conformal(taken.calibration["items"], 0.05) > found.threshold
    assert len(scores["parts"]) < len(taken.calibration["parts"]) == 150


def test_outputs_that_mostly_leave_something_out_do_not_calibrate(model, tokenizer, chosen):
    found = dwindle.listeners(model, tokenizer, small.TEXTS, leaving_out(0.8))
    assert found == chosen  # calibrated on the model's own


def test_what_is_left_out_is_marked(model, tokenizer, chosen):
    source = "ferry mayor storm music garden letter"
    intact, short = dwindle.omissions(
        model, tokenizer, [(source, source), (source, "ferry mayor garden letter")], chosen
    )
    assert not intact.alarm
    assert intact.spans == ()
    assert short.score > intact.score
    assert [span.text for span in short.spans] == ["storm music"]
    assert short.cells[source.index("storm")] > chosen.part_threshold
    assert short.cells[source.index(" ")] is None


def test_a_batch_changes_nothing(model, tokenizer, chosen):
    pairs = [
        (" ".join(small.WORDS[n : n + 3 + n]), " ".join(small.WORDS[: 2 + n])) for n in range(5)
    ]
    alone = [next(dwindle.omissions(model, tokenizer, [pair], chosen)).score for pair in pairs]
    together = [one.score for one in dwindle.omissions(model, tokenizer, pairs, chosen, batch=3)]
    assert together == pytest.approx(alone, abs=1e-4)


def test_an_empty_output_leaves_out_everything_and_an_empty_source_nothing(
    model, tokenizer, chosen
):
    nothing, empty = dwindle.omissions(
        model, tokenizer, [("mayor bridge", ""), (" . ", "mayor")], chosen
    )
    assert nothing.alarm
    assert [span.text for span in nothing.spans] == ["mayor bridge"]
    assert (empty.score, empty.alarm, empty.spans) == (None, False, ())


def test_a_source_that_is_cut_is_unread_and_not_left_out(model, tokenizer, chosen, monkeypatch):
    monkeypatch.setattr(tokenizer, "model_max_length", 8)
    source = " ".join(small.WORDS)
    (found,) = dwindle.omissions(model, tokenizer, [(source, source)], chosen)
    assert found.read < found.length
    assert not [part for part in found.parts if part.start >= found.read]
    assert set(found.cells[int(found.read) :]) == {None}


def test_heads_that_tell_nothing_get_that_as_an_answer(tokenizer):
    deaf = small.copier(len(tokenizer), listens=False)
    found = dwindle.listeners(deaf, tokenizer, small.TEXTS)
    assert not found.tells
    with pytest.raises(ValueError, match=r"do not show what was read \(AUROC"):
        dwindle.omissions(deaf, tokenizer, [("mayor", "mayor")], found)


def test_saved_and_read_again(chosen, tmp_path):
    assert dwindle.Listeners.load(chosen.save(tmp_path)) == chosen
    assert [file.name for file in tmp_path.iterdir()] == ["listeners.json"]
    (tmp_path / "listeners.json").write_text(json.dumps({"heads": [[0, 1]]}))
    with pytest.raises(ValueError, match="choose them again"):
        dwindle.Listeners.load(tmp_path)


def test_rows_of_another_engine_give_the_same(model, tokenizer, chosen):
    from dwindle.auditing.heads import ears
    from dwindle.auditing.text import TextReader

    reader, pair = TextReader(model, tokenizer), ("storm music garden", "storm garden")
    source = reader.read(pair[0])
    inputs, read, rows = reader.batch([source], [pair[1]])
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(**inputs, decoder_input_ids=read, output_attentions=True).cross_attentions
    layer, head = chosen.heads[0]
    given = weights[layer][0, head : head + 1, rows[0]]
    (ours,) = dwindle.omissions(model, tokenizer, [pair], chosen)
    theirs = chosen.finding(source, given.numpy(), pair[0])
    assert theirs.scores == pytest.approx(ours.scores, abs=1e-5)
    assert len(ears(model)) == 2
    assert chosen.finding(source, given[:, :0], pair[0]).alarm
    with pytest.raises(ValueError, match="1 heads, rows"):
        chosen.finding(source, given[0])


def test_the_share_of_false_alarms_holds():
    generator = torch.Generator().manual_seed(1)
    got = []
    for _ in range(400):
        scores = torch.rand(60, generator=generator).tolist()
        got.append(sum(s > conformal(scores[:40], 0.1) for s in scores[40:]) / 20)
    assert sum(got) / len(got) == pytest.approx(0.1, abs=0.015)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"sources": []}, "a few dozen"),
        ({"sources": small.TEXTS[:20]}, "at least 27"),
        ({"false_alarms": 5}, "between 0 and 1"),
        ({"outputs": ["one"]}, "pass one for each"),
        ({"intact": True}, "no outputs are given"),
    ],
)
def test_bad_input_in_one_sentence(model, tokenizer, change, said):
    with pytest.raises(ValueError, match=said):
        dwindle.listeners(model, tokenizer, **{"sources": small.TEXTS, **change})


def test_sources_that_cannot_be_joined_or_are_not_written(tokenizer):
    silent = small.copier(len(tokenizer))
    silent.generate = lambda input_ids, **more: input_ids[:, :0]
    with pytest.raises(ValueError, match="pass shorter ones"):
        dwindle.listeners(silent, tokenizer, small.TEXTS)


def test_a_tokenizer_of_another_model(model, tokenizer, chosen):
    from dwindle.models.subword import trained

    other = trained(["entirely different words here"], 290, "transformer")
    with pytest.raises(ValueError, match="another tokenizer"):
        dwindle.omissions(model, other, [("a", "b")], chosen)
    with pytest.raises(ValueError, match="load both from one folder"):
        dwindle.listeners(small.copier(300), tokenizer, small.TEXTS)


def test_heads_are_chosen_on_few_sources_and_all_others_calibrate():
    assert [choose._split(n, 0.05) for n in (27, 60, 121, 1000)] == [8, 30, 60, 60]


DAMAGED = {
    "heads": [[], {}, [[1, 0], [1, 0]], [[1]], [[-1, 0]], [[0.5, 1]], "x"],
    "head_weights": [[math.nan], [1e308], [1.0] * 9, ["x"], None],
    "usual": [None, {}, {"x": 1.0}, {"": math.nan}, {"": None}, {"": [1.0]}],
    "weights": [[], [1.0], [math.nan, 1.0], [[1.0, 1.0]], [1.0] * 4, "ab"],
    "threshold": [None, "x", math.nan, -math.inf, 10**400, True],
    "part_threshold": [None, math.nan],
    "false_alarms": [None, 0, 1, math.nan, "x"],
    "unit": [None, "words"],
    "auroc": [None, {"words": "x"}],
    "tells": ["no", None],
    "probe": [None, ["x"]],
    "origin": [None, []],
    "words_per_second": [math.nan, -1, None],
    "reverse": [None, [0.5]],
    "contrast": ["no", 1],
    "calibration": [None, {}, {"items": [3, 1], "parts": []}, {"items": [math.nan], "parts": []}],
}


def test_a_damaged_file_is_refused_in_a_sentence(chosen, tmp_path):
    """A threshold that is no number would alarm nothing and say nothing."""
    file = chosen.save(tmp_path)
    good = json.loads(file.read_text(encoding="utf-8"))
    assert DAMAGED.keys() == good.keys()
    broken = [good | {name: value} for name, values in DAMAGED.items() for value in values]
    broken += [{k: v for k, v in good.items() if k != name} for name in good]
    texts = ["", "[]", "null", "[" * 10**5, json.dumps(good)[:300], json.dumps(good | {"more": 1})]
    for text in [*texts, *map(json.dumps, broken)]:
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"listeners\.json has no listeners \(.*: choose them"):
            dwindle.Listeners.load(tmp_path)


def test_a_head_that_the_model_lacks_is_named(model, tokenizer, chosen):
    other = replace(chosen, heads=((0, 99),), head_weights=(1.0,))
    with pytest.raises(ValueError, match="head 99 of layer 0 was chosen, but it has 2"):
        list(dwindle.omissions(model, tokenizer, [(small.TEXTS[0], "ferry")], other))
