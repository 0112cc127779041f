"""The desk: tasks in their order, watched, stopped, failing one by one, and with a real model."""

import pytest

from dwindle.analysis.views import from_trace
from dwindle.auditing.listeners import Listeners
from dwindle.auditing.readers import reader_of
from dwindle.generation.interactive import Author
from dwindle.generation.settings import DecodingSettings
from dwindle.models import build
from dwindle.studio import desk as desks
from dwindle.studio.desk import Answer, Desk
from tests.generation.test_tracing import made
from tests.studio.studio_kit import TEXT, Slow

SETTINGS = DecodingSettings(beams=1, max_length=50)


@pytest.fixture
def desk():
    desk = Desk()
    yield desk
    desk.close()


def until(desk, happened, number=1):
    """The data of a task once something holds."""
    for _ in range(400):
        data = desk.data(number)
        if happened(data):
            return data
        desk.wait(data["version"], 0.05)
    raise AssertionError(data)


def state(*wanted):
    return lambda data: data["task"]["state"] in wanted


def test_an_answer_is_written_with_its_rule_and_can_be_looked_at(desk):
    author = Slow()
    desk.submit(TEXT, [Answer("plain", author), Answer("dim:log", author, "dim:log", 2)], SETTINGS)
    task = until(desk, state("done"))["task"]
    plain, ruled = task["answers"]
    assert author.put_rules == [(None, None), ("dim:log", 2)]
    assert plain["notes"] == []
    assert ruled["notes"] == ["it was not trained with this rule"]
    assert "".join(plain["view"]["output"]) == " ".join(TEXT.split() * 2)
    assert len(plain["view"]["again"]) == len(TEXT.split())
    assert plain["figures"][0] == "26 words"
    assert plain["figures"][1].startswith("46 % of its 3-grams")
    assert len(task["compared"]["outputs"]) == 2
    assert "".join(task["compared"]["source"]) == TEXT


def test_answers_grow_side_by_side(desk):
    author, other = Slow(), Slow("other")
    rules = ["plain", "dim:log"]
    answers = [Answer(rule, author, rule) for rule in rules]
    desk.submit(TEXT, [*answers, Answer("other", other, "temporal")], SETTINGS)
    task = until(desk, state("done"))["task"]
    assert author.steps == rules * 2 * len(TEXT.split())
    assert len(other.steps) == 2 * len(TEXT.split())
    assert {"".join(answer["view"]["output"]) for answer in task["answers"]} == {
        " ".join(TEXT.split() * 2)
    }


def test_an_answer_that_ends_early_does_not_hold_up_the_others(desk):
    class Brief(Slow):
        def write(self, text, settings, show, stop):
            return super().write(text, DecodingSettings(beams=1, max_length=3), show, stop)

    class Failing(Slow):
        def write(self, *_):
            raise ValueError("no room")

    long = Slow()
    desk.submit(TEXT, [Answer("a", Brief()), Answer("b", Failing()), Answer("c", long)], SETTINGS)
    brief, failed, whole = until(desk, state("done"))["task"]["answers"]
    assert [brief["state"], failed["state"], whole["state"]] == ["done", "failed", "done"]
    assert len(brief["view"]["output"]) == 3
    assert len(long.steps) == 2 * len(TEXT.split())


def test_what_is_being_written_is_seen(desk):
    author = Slow()
    author.go.clear()
    desk.submit(TEXT, [Answer("a", author)], SETTINGS)
    until(desk, state("writing"))
    author.go.set()
    data = until(desk, lambda data: data["task"]["answers"][0]["view"])
    assert data["task"]["compared"] is None or data["task"]["state"] == "done"


def test_tasks_wait_for_their_turn_and_can_be_stopped(desk):
    author = Slow()
    author.go.clear()
    for _ in range(3):
        desk.submit(TEXT, [Answer("a", author), Answer("b", author)], SETTINGS)
    # the task says so a moment earlier
    until(desk, lambda data: data["task"]["answers"][0]["state"] == "writing")
    desk.stop(2)
    desk.stop(1)
    desk.stop(99)
    author.go.set()
    data = until(desk, state("done"), 3)
    assert [task["state"] for task in data["tasks"]] == ["stopped", "stopped", "done"]
    first, second = desk.data(1)["task"]["answers"]
    assert len(first["view"]["output"]) == 1
    assert first["state"] == second["state"] == "stopped"
    assert second["view"] is None
    assert desk.data(2)["task"]["compared"]["outputs"] == [[], []]


def test_what_fails_says_why_and_the_rest_is_written(desk, capsys):
    class Failing(Slow):
        def write(self, *_):
            raise RuntimeError("no memory")

    desk.submit(TEXT, [Answer("a", Failing()), Answer("b", Slow())], SETTINGS)
    desk.submit("unreadable", [Answer("a", Slow())], SETTINGS)
    one, two = until(desk, state("done"))["task"]["answers"]
    assert (one["state"], two["state"]) == ("failed", "done")
    assert "no memory" in one["notes"][0]
    assert "RuntimeError" in capsys.readouterr().err
    broken = until(desk, state("failed"), 2)["task"]
    assert broken["answers"][0]["notes"] == ["this text breaks it"]
    desk.submit(TEXT, [Answer("a", Slow())], SETTINGS)
    until(desk, state("done"), 3)


def test_only_so_many_wait_and_only_so_many_are_kept(desk, monkeypatch):
    monkeypatch.setattr(desks, "MOST_WAITING", 2)
    monkeypatch.setattr(desks, "MOST_KEPT", 1)
    author = Slow()
    author.go.clear()
    desk.submit(TEXT, [Answer("a", author)], SETTINGS)
    until(desk, state("writing"))
    for _ in range(2):
        desk.submit(TEXT, [Answer("a", author)], SETTINGS)
    with pytest.raises(ValueError, match="waiting already"):
        desk.submit(TEXT, [Answer("a", author)], SETTINGS)
    author.go.set()
    until(desk, state("done"), 3)
    desk.submit(TEXT, [Answer("a", author)], SETTINGS)
    assert [task["number"] for task in desk.data()["tasks"]] == [3, 4]
    assert desk.data(1)["task"] is None


def test_listeners_beside_a_model_mark_what_was_left_out(desk, tmp_path):
    model, codec = made("bart")
    build.save(model, codec, tmp_path / "model")
    probe = tuple(reader_of(model, codec.tokenizer).probe())
    everything = {"threshold": -1e9, "part_threshold": -1e9, "false_alarms": 0.05}
    told = Listeners(
        ((0, 0),),
        {"": 0.0},
        **everything,
        unit="characters",
        auroc={},
        tells=True,
        probe=probe,
        origin={},
    )
    told.save(tmp_path / "model")
    author = Author(str(tmp_path / "model"))
    desk.submit(
        TEXT, [Answer("free", author, "training-free")], DecodingSettings(beams=1, max_length=4)
    )
    (answer,) = until(desk, state("done", "failed"))["task"]["answers"]
    assert answer["notes"][-1].startswith("Alarm: something is likely left out")
    assert "5%" in answer["notes"][-1]
    ((start, end), *_) = answer["view"]["marked"]
    assert TEXT[start:end].split()[0] == "The"


@pytest.mark.parametrize("kind", ["bart", "pointer-generator"])
@pytest.mark.parametrize("beams", [1, 3])
def test_side_by_side_each_writes_what_it_writes_alone(desk, tmp_path, kind, beams):
    build.save(*made(kind, rule="dim:boxcox(0.5)"), tmp_path / "model")
    author, settings = Author(str(tmp_path / "model")), DecodingSettings(beams=beams, max_length=8)
    rules = [None, "plain", "dydim:log,power(0.5)"]
    desk.submit(TEXT, [Answer(str(rule), author, rule) for rule in rules], settings)
    task = until(desk, state("done", "failed"))["task"]
    for rule, answer in zip(rules, task["answers"], strict=True):
        author.put(rule)
        alone = author.write(TEXT, settings)
        assert answer["state"] == "done"
        assert answer["view"]["output"] == alone.output
        assert answer["view"]["weights"] == from_trace(alone)["weights"]


def test_a_real_model_writes(desk, tmp_path):
    build.save(*made("bart"), tmp_path / "model")
    author = Author(str(tmp_path / "model"))
    settings = DecodingSettings(beams=2, max_length=8)
    desk.submit(
        TEXT, [Answer("plain", author), Answer("free", author, "training-free", 1)], settings
    )
    plain, free = until(desk, state("done", "failed"))["task"]["answers"]
    assert (plain["state"], free["state"]) == ("done", "done")
    assert plain["view"]["tokens"] == free["view"]["tokens"]
