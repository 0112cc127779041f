"""Bulk decoding: complete, in order, the same however it was cut into batches, shards and lives."""

import json
import os
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from dwindle.attaching.carrier import attended
from dwindle.attaching.handle import attach
from dwindle.data.example import Example
from dwindle.generation import decode as module
from dwindle.generation.decode import decode
from dwindle.generation.generate import generate
from dwindle.runfiles.arrays import read_coverage, read_places
from tests.generation import slow
from tests.generation.numbers_codec import SETTINGS, Numbers, corpus


def run(folder, examples=None, settings=SETTINGS, model=None, codec=None, **more):
    examples = corpus() if examples is None else examples
    return decode(model or slow.model(1), codec or Numbers(), examples, settings, folder, **more)


def hypotheses(folder):
    return {
        r["id"]: r["hypothesis"]
        for r in map(json.loads, (folder / "outputs.jsonl").read_text().splitlines())
    }


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The corpus, decoded in one go."""
    folder = tmp_path_factory.mktemp("whole")
    run(folder)
    return folder


def same(folder, whole):
    assert (folder / "outputs.jsonl").read_bytes() == (whole / "outputs.jsonl").read_bytes()
    found, expected = read_coverage(folder / "coverage.npz"), read_coverage(whole / "coverage.npz")
    assert list(found) == list(expected)
    assert all(np.allclose(found[id], expected[id], atol=1e-5) for id in expected)


def test_each_item_alone(whole):
    """The outputs and the coverage of each example by itself, with no padding."""
    model, codec = slow.model(1), Numbers()
    lines = [json.loads(line) for line in (whole / "outputs.jsonl").read_text().splitlines()]
    coverage = read_coverage(whole / "coverage.npz")
    assert [line["id"] for line in lines] == [e.id for e in corpus()]
    for example, line in zip(corpus(), lines, strict=True):
        batch = codec.collate([codec.encode(example.input)])
        sequences = generate(model, batch, SETTINGS)
        assert line["hypothesis"] == codec.decode(sequences, batch)[0]
        # both layers: the paper's last seven of BART reach that far
        record = attended(model, batch, sequences)
        both = torch.stack([record.coverage, record.effective])[:, :, 0]
        assert np.allclose(coverage[example.id], both.numpy(), atol=1e-5)
        references = [line["reference"]] if len(example.references) == 1 else line["references"]
        assert tuple(references) == example.references
        assert line.get("gold") == example.gold


def test_the_summary_counts(whole):
    summary = json.loads((whole / "decoding.json").read_text())
    long = sum(len(e.source.split()) > 10 for e in corpus())
    assert summary["items"] == 11
    assert summary["truncated"] == long > 0
    assert summary["empty"] == sum(not text for text in hypotheses(whole).values()) > 0
    assert not list(whole.glob("parts-*"))


@pytest.mark.parametrize("size", [1, 3, 64])
def test_any_batch_size(size, whole, tmp_path):
    run(tmp_path, settings=replace(SETTINGS, batch_size=size))
    same(tmp_path, whole)


def test_alike_in_length_without_spaces(tmp_path):
    """Texts of a script that has none, the longest first."""
    seen = []

    class Characters(Numbers):
        def encode(self, source, target=None):
            return super().encode(" ".join(source))

        def collate(self, rows):
            seen.append([len(row["input_ids"]) for row in rows])
            return super().collate(rows)

    examples = [
        Example(str(i), "4" * length, ("4",)) for i, length in enumerate([3, 9, 1, 7, 5, 8, 2, 6])
    ]
    run(tmp_path, examples, replace(SETTINGS, batch_size=3), codec=Characters())
    assert seen == [[9, 8, 7], [6, 5, 3], [2, 1]]


def test_shards_in_any_order(whole, tmp_path):
    told = [run(tmp_path, shard=(i, 3)) for i in (2, 0, 1)]
    assert told[:2] == [None, None]
    assert told[2].items == 11
    same(tmp_path, whole)


def test_shards_as_launched(whole, tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in "10":
        monkeypatch.setenv("RANK", rank)
        run(tmp_path)
    same(tmp_path, whole)


def test_two_shards_finish_at_once(whole, tmp_path, monkeypatch):
    """The other one merges and clears up between our looking and our reading."""
    run(tmp_path, shard=(0, 2))
    merged = module._merged

    def late(parts, *rest):
        monkeypatch.setattr(module, "_merged", merged)
        merged(parts, *rest)
        monkeypatch.setattr(parts, "read", lambda: (_ for _ in ()).throw(FileNotFoundError))
        return merged(parts, *rest)

    monkeypatch.setattr(module, "_merged", late)
    assert run(tmp_path, shard=(1, 2)).items == 11
    same(tmp_path, whole)


def test_interrupted_and_taken_up(whole, tmp_path):
    """Ctrl-C after each batch in turn; then other batches and shards go on from there."""
    lives, items = 0, []

    def stop(done):
        items.append(done)
        if done and len(items) == 2:
            raise KeyboardInterrupt

    while True:
        items.clear()
        try:
            run(tmp_path, settings=replace(SETTINGS, batch_size=2 + lives % 2), progress=stop)
            break
        except KeyboardInterrupt:
            lives += 1
            assert not (tmp_path / "outputs.jsonl").exists()
    assert lives >= 3
    same(tmp_path, whole)


KILLED = """
import os, signal, sys
from pathlib import Path
from dataclasses import replace
from tests.generation.numbers_codec import SETTINGS, Numbers, corpus
from dwindle.generation.decode import decode
from tests.generation import slow

def deadly(function, count, after):
    calls = 0
    def wrapper(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls == count and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        given = function(*args, **kwargs)
        if calls == count:
            os.kill(os.getpid(), signal.SIGKILL)
        return given
    return wrapper

for count in range(1, 9):
    if os.fork() == 0:
        if sys.argv[1] == "fsync":
            os.fsync = deadly(os.fsync, count, after=False)
        else:
            Path.replace = deadly(Path.replace, count, after=True)
        decode(slow.model(1), Numbers(), corpus(), replace(SETTINGS, batch_size=3),
        Path(sys.argv[2], str(count)))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]))
"""


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["fsync", "replace"])
def test_killed_at_every_write(moment, whole, tmp_path):
    """kill -9 before each file is there, and after: four parts, the outputs, the coverage, the
    summary."""
    paths = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    command = [sys.executable, "-c", KILLED, moment, str(tmp_path)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True, check=True
    )
    assert [int(code) for code in done.stdout.split()] == [-signal.SIGKILL] * 7 + [0]
    for count in range(1, 9):
        folder, progress = tmp_path / str(count), []
        run(folder, progress=progress.append)
        assert sum(progress) == 11
        same(folder, whole)
        assert {p.name for p in folder.iterdir()} == {
            "outputs.jsonl",
            "coverage.npz",
            "decoding.json",
        }


def test_done_is_done(whole, monkeypatch):
    monkeypatch.setattr(module, "search", None)
    before = (whole / "outputs.jsonl").stat().st_mtime_ns
    progress = []
    assert run(whole, progress=progress.append).items == 11
    assert sum(progress) == 11
    assert (whole / "outputs.jsonl").stat().st_mtime_ns == before


@pytest.mark.parametrize("what", ["settings", "weights", "rule", "codec", "corpus"])
def test_a_change_takes_nothing_from_before(what, tmp_path):
    """Half is decoded; then something changes: the outputs are those of a fresh folder."""

    def half(done):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "a", progress=half)
    model, changed = slow.model(1), {}
    if what == "settings":
        changed = {"settings": replace(SETTINGS, min_length=5)}
    elif what == "weights":
        with torch.no_grad():
            model.final_logits_bias[0, slow.END] = -5
    elif what == "rule":
        attach(model, "dim:log")
    elif what == "codec":
        changed = {"codec": Numbers(3)}
    else:
        changed = {"examples": [replace(e, source=e.source + " 9") for e in corpus()]}
    for folder in ("a", "b"):
        run(tmp_path / folder, **{"model": model, **changed})
    assert hypotheses(tmp_path / "a") == hypotheses(tmp_path / "b")


def test_an_empty_source(tmp_path):
    examples = [*corpus(3), Example("e", " \n ", ("4",))]
    assert run(tmp_path, examples).items == 4
    assert hypotheses(tmp_path)["e"] == ""
    assert read_coverage(tmp_path / "coverage.npz")["e"].tolist() == [[[0], [0]], [[0], [0]]]


def test_nothing_but_empty_sources(tmp_path):
    assert run(tmp_path, [Example("e", "", ("4",))]).empty == 1
    assert read_coverage(tmp_path / "coverage.npz")["e"].tolist() == [[[0]], [[0]]]


def test_layers_of_a_plain_model(whole, tmp_path):
    run(tmp_path, layers=1)
    last = read_coverage(tmp_path / "coverage.npz")
    assert all(
        np.allclose(last[id], both[:, 1:], atol=1e-6)
        for id, both in read_coverage(whole / "coverage.npz").items()
    )


def test_a_full_disk(tmp_path, monkeypatch):
    """The error is passed on, no torn file stays, and what was done is kept."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        run(tmp_path)
    assert not [p for p in tmp_path.rglob("*") if p.is_file()]


def test_bad_input(tmp_path):
    with pytest.raises(ValueError, match="nothing to decode"):
        run(tmp_path, [])
    with pytest.raises(ValueError, match="2 examples have 1 ids"):
        run(tmp_path, [corpus()[0]] * 2)
    with pytest.raises(ValueError, match="shard 2 of 2"):
        run(tmp_path, shard=(2, 2))


def test_a_damaged_part(tmp_path):
    run(tmp_path, shard=(0, 2))
    part = next(tmp_path.rglob("*.npz"))
    part.write_bytes(part.read_bytes()[:50])
    with pytest.raises(ValueError, match=r"is damaged .*: delete it"):
        run(tmp_path)


def test_the_coverage_file_says_where_each_position_stands(whole):
    found = read_places(whole / "coverage.npz")
    covered = read_coverage(whole / "coverage.npz")
    for example in corpus():
        at = found[example.id]
        assert at.shape == covered[example.id].shape[-1:]
        assert [i for i in at if i >= 0] == [
            m.start() for m in re.finditer(r"\S+", example.source)
        ][: (at >= 0).sum()]
        assert (at >= 0).any()
