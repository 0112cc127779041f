"""The verb omissions, as a user meets it."""

import json
import wave

import pytest

import dwindle
from dwindle.listening import bulk, opened
from tests.listening import small


@pytest.fixture
def opening(monkeypatch):
    """Every model that is asked for is the one that copies."""
    tokenizer = small.tokenizer()
    model = small.copier(len(tokenizer))
    monkeypatch.setattr(opened, "opened", lambda name: (model, tokenizer))
    return model, tokenizer


@pytest.fixture
def outputs(tmp_path):
    path = tmp_path / "outputs.jsonl"
    short = {3: "ferry", 5: ""}
    lines = [{"id": n, "source": text, "hypothesis": short.get(n, text)} for n, text in enumerate(small.TEXTS)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_findings_and_listeners_are_written(run, opening, outputs):
    kept = outputs.with_name("ears.json")
    code, said, complained = run("omissions", str(outputs), "--model", "any", "--listeners", str(kept), "--json")
    assert code == 0
    assert complained.count("\n") == 1
    records = [json.loads(line) for line in said.splitlines()]
    assert [record["id"] for record in records] == [str(n) for n in range(60)]
    assert {record["id"] for record in records if record["alarm"]} == {"3", "5"}
    assert set(records[3]) == {"id", "score", "alarm", "spans", "chars"}
    assert set(records[3]["spans"][0]) == {"start", "end", "text", "score"}
    assert len(records[3]["chars"]) == len(small.TEXTS[3])
    assert dwindle.Listeners.load(kept).tells
    code, said, complained = run("omissions", str(outputs), "--model", "any", "--listeners", str(kept))
    assert (code, complained) == (0, "")
    assert "2 of 60 outputs are alarmed" in said
    assert not list(outputs.parent.glob(".*"))


def test_listeners_are_calibrated_on_what_is_said_to_be_whole(run, opening, outputs):
    kept, whole = outputs.with_name("ears.json"), outputs.with_name("whole.jsonl")
    lines = [{"id": n, "source": text, "hypothesis": f"the {text}"} for n, text in enumerate(small.TEXTS)]
    whole.write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = ("omissions", str(outputs), "--model", "any", "--listeners", str(kept), "--intact", str(whole))
    assert run(*asked, "--false-alarms", "0.1")[0] == 0
    found = dwindle.Listeners.load(kept)
    assert found.origin["calibrated_with"] == "given outputs"
    assert found.false_alarms == 0.1
    for more in (("--intact", str(whole)), ("--false-alarms", "0.05")):  # what would be ignored is refused
        code, _, complained = run("omissions", str(outputs), "--model", "any", "--listeners", str(kept), *more)
        assert code == 2
        assert "was calibrated before, for 10% false alarms" in complained


def test_a_killed_audit_goes_on(opening, outputs, monkeypatch):
    listeners = dwindle.listeners(*opening, small.TEXTS)
    out = outputs.with_name("found.jsonl")
    whole = bulk.audit(outputs, out, *opening, listeners, batch=2)
    expected = out.read_text()
    out.unlink()

    def dying(*given):
        for n, one in enumerate(dwindle.omissions(*given)):
            if n == 41:
                raise KeyboardInterrupt
            yield one

    monkeypatch.setattr(bulk, "omissions", dying)
    with pytest.raises(KeyboardInterrupt):
        bulk.audit(outputs, out, *opening, listeners, batch=2)
    monkeypatch.setattr(bulk, "omissions", dwindle.omissions)
    assert not out.exists()
    (half,) = outputs.parent.glob(".found*")
    half.write_text(half.read_text()[:-7])  # killed within a line
    resumed = bulk.audit(outputs, out, *opening, listeners, batch=2)
    assert (whole.resumed, resumed.resumed) == (0, 32)  # whole blocks of 16 batches
    assert out.read_text() == expected


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is not JSON"),
        ('{"source": "a", "hypothesis": "b"}', "has no id"),
        ('{"id": 1, "source": "a"}', "must be strings"),
    ],
)
def test_bad_lines_in_one_sentence(run, tmp_path, line, said):
    path = tmp_path / "bad.jsonl"
    path.write_text(line + "\n")
    code, _, complained = run("omissions", str(path), "--model", "nowhere")
    assert code == 2
    assert said in complained
    assert complained.count("\n") == 1


def test_the_same_id_twice(tmp_path):
    path = tmp_path / "twice.jsonl"
    path.write_text('{"id": 1, "source": "a", "hypothesis": "b"}\n' * 2)
    with pytest.raises(ValueError, match="ids must differ"):
        list(bulk.items(path))


def test_outputs_that_belong_to_other_sources_are_said(run, opening, outputs):
    kept = outputs.with_name("ears.json")
    dwindle.listeners(*opening, small.TEXTS).save(kept)
    lines = [json.loads(line) for line in outputs.read_text().splitlines()]
    for line in lines:
        line["hypothesis"] = "zzz qqq"
    outputs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, _, complained = run("omissions", str(outputs), "--model", "any", "--listeners", str(kept))
    assert code == 0
    assert "more than half" in complained


@pytest.fixture
def folder(tmp_path):
    """A saved model with its tokenizer and listeners beside it."""
    tokenizer = small.tokenizer()
    model = small.copier(len(tokenizer))
    listeners = dwindle.listeners(model, tokenizer, small.TEXTS)
    del model.generate  # the copying one cannot be saved
    model.generation_config.max_new_tokens = 5
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "model")
    listeners.save(tmp_path / "model")
    return tmp_path / "model"


def test_coverage_marks_what_listeners_say_was_left_out(run, folder, tmp_path):
    text, page = tmp_path / "text", tmp_path / "c.html"
    text.write_text("ferry mayor storm garden")
    code, said, _ = run("coverage", str(folder), "--text", str(text), "--out", str(page))
    assert code == 0
    assert "marked: " in said
    assert "5% would be alarmed" in " ".join(said.split())
    assert "What was left out" in page.read_text()
    code, said, _ = run("coverage", str(folder), "--text", str(text), "--json")
    (record,) = json.loads(said)
    assert record["left_out"]["false_alarms"] == 0.05
    assert len(record["left_out"]["chars"]) == len(text.read_text())


def test_a_sound_needs_listeners_for_sound(run, folder, tmp_path):
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(200))
    code, _, complained = run("coverage", str(folder), "--audio", str(path))
    assert code == 2
    assert complained.splitlines()[-1].startswith("dwindle: ")
    assert "no listeners for sound" in complained
