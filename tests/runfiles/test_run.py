"""One run as its files tell it: what is there, what is not, and what is damaged."""

import gzip
import json
import subprocess
import sys
from itertools import islice
from pathlib import Path

import datasets
import numpy as np
import pytest

import dwindle.runfiles
from dwindle.runfiles import arrays, names, outputs, scores, whole
from dwindle.runfiles.outputs import Item
from dwindle.runfiles.run import AlignedRun, Run

SCORE = {"metric": "bleu", "value": 1.5, "low": 1.0, "high": 2.0, "signature": "bleu|x"}


@pytest.fixture
def run(tmp_path):
    outputs.write(
        tmp_path / names.OUTPUTS, [Item("b", "x", ("y",), "z"), Item("a", "x", ("y",), "z")]
    )
    scores.write(tmp_path, 2, [SCORE])
    whole.write_json(tmp_path / names.RECORD, {"stages": {}})
    whole.write_text(tmp_path / names.RECIPE, "seed: 3\n")
    return Run(tmp_path)


def test_a_folder_tells_all_that_it_holds(run):
    assert [item.id for item in run.checked().outputs.items] == ["a", "b"]
    assert (run.scores.items, run.scores.records) == (2, (SCORE,))
    assert (run.settings, run.record) == ({"seed": 3}, {"stages": {}})
    assert run.file(names.COVERAGE) is None
    assert run.file(names.SCORES) == run.path / "scores.json"


def test_of_a_plain_file_nothing_else_is_known(run):
    plain = Run(run.path / names.OUTPUTS).checked()
    assert len(plain.outputs) == 2
    assert (plain.settings, plain.record, plain.scores.records) == ({}, {}, ())


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (names.RECORD, "{", "run.json is not JSON"),
        (names.RECORD, "[]", "run.json does not hold a JSON object"),
        (names.RECORD, "{}", "run.json has no stages"),
        (names.RECORD, '{"stages": ["train"]}', "run.json has no stages"),
        (names.RECORD, '{"stages": {"train": 1}}', "run.json has no stages"),
        (names.RECORD, '{"stages": {}, "start": 3}', "run.json has the start 3"),
        (names.SCORES, '{"items": 2, "sco', "scores.json is not JSON"),
        (names.SCORES, "{}", "scores.json holds no scores"),
        (
            names.SCORES,
            '{"items": 2, "scores": [{"metric": "bleu"}]}',
            "scores.json holds no scores",
        ),
        (names.SCORES, "[" * 100_000, "scores.json is not JSON"),
        (names.RECIPE, "a: [1", "recipe.yaml is not YAML"),
        (names.RECIPE, "- 1", "recipe.yaml is not a recipe"),
        (names.OUTPUTS, '{"id": ', r"outputs.jsonl, line 1 is not JSON"),
    ],
)
def test_what_is_damaged_is_one_sentence(run, name, content, sentence):
    (run.path / name).write_text(content)
    with pytest.raises(ValueError, match=sentence) as said:
        run.checked()
    assert ": " in str(said.value)
    assert "\n" not in str(said.value)


def test_scores_of_other_outputs_are_none_of_this_run(run):
    assert run.damage() == []
    (run.path / names.OUTPUTS).write_text('{"id": 1, "hypothesis": "other"}\n')
    assert run.scores.records == ()
    assert "scores.json is of other outputs: type dwindle score" in run.damage()[0]


def test_every_cut_and_every_flipped_byte_of_the_arrays_is_met(run):
    rows = np.random.default_rng(0).random((3, 2)).astype(np.float32)
    arrays.write_coverage(run.path / names.COVERAGE, {"a": (rows, rows)})
    arrays.write_traces(
        run.path / names.TRACES,
        [arrays.Trace("a", "x y", ["x", "y"], [0, 2], ["u", "v", "w"], rows, rows)],
    )
    for name in (names.COVERAGE, names.TRACES):
        good = (run.path / name).read_bytes()
        for cut in range(0, len(good), 37):
            (run.path / name).write_bytes(good[:cut])
            assert len(run.damage()) == 1, cut
        for at in range(0, len(good), 11):
            (run.path / name).write_bytes(good[:at] + bytes([good[at] ^ 0x5A]) + good[at + 1 :])
            assert all(name in sentence for sentence in run.damage())  # harmless, or a sentence
        (run.path / name).write_bytes(good)
    assert run.damage() == []


def test_nothing_is_left_of_a_file_that_could_not_be_written(tmp_path):
    (tmp_path / "x").mkdir()
    with pytest.raises(OSError, match="directory"):
        whole.write(tmp_path / "x", b"y")
    assert [path.name for path in tmp_path.iterdir()] == ["x"]


def test_the_room_needs_no_torch():
    rooms = [
        f"dwindle.runfiles.{file.stem}"
        for file in Path(dwindle.runfiles.__file__).parent.glob("[a-z]*.py")
    ]
    code = (
        f"import sys, {', '.join(rooms)}\nassert not {{'torch', 'transformers', 'accelerate'}} & "
        "set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


TEXTS = [f"text {n} ä\u2028" for n in range(11)]


@pytest.mark.parametrize(
    "name", ["a.jsonl", "a.jsonl.gz", "a.parquet", "a.csv", "folder", "aligned", "aligned.gz"]
)
def test_reading_can_begin_anywhere(tmp_path, name):
    """With the numbers of lines that reading from the beginning gives."""
    run = _eleven(tmp_path, name)
    every = list(run.each())
    assert [item.source for item in every] == TEXTS
    for size in (1, 3, 11, 12):
        places = list(islice(run.starts(size), -(-11 // size)))
        cut = [list(islice(run.each(n * size, at), size)) for n, at in enumerate(places)]
        assert [item for some in cut for item in some] == every
        assert [item.line for some in cut for item in some] == list(range(1, 12))


def _eleven(folder: Path, name: str) -> Run:
    """Eleven outputs of ``TEXTS`` in a file of some kind; the first line of JSON begins with a byte
    order mark."""
    path, pack = folder / name, gzip.compress if name.endswith(".gz") else bytes
    if name.startswith("a.jsonl"):
        lines = [
            json.dumps({"id": n, "source": text, "hypothesis": ""}) for n, text in enumerate(TEXTS)
        ]
        path.write_bytes(pack("".join(f"{line}\n" for line in lines).encode("utf-8-sig")))
        return Run(path)
    if name.startswith("aligned"):
        for ending in ("src", "hyp"):
            lines = [f"{text}\n" if ending == "src" else f"{n}\n" for n, text in enumerate(TEXTS)]
            (folder / f"{ending}{path.suffix}").write_bytes(pack("".join(lines).encode()))
        return AlignedRun(folder / f"hyp{path.suffix}", (), folder / f"src{path.suffix}")
    table = datasets.Dataset.from_dict({"source": TEXTS, "hypothesis": [""] * 11})
    if name == "a.parquet":
        table.to_parquet(path, batch_size=4)  # three row groups
    elif name == "a.csv":
        table.to_csv(path, index=False)
    else:
        table.save_to_disk(path)
    return Run(path)


def test_a_misspelt_file_is_named_as_it_was_typed(tmp_path):
    """Not as a file inside a folder of that name."""
    missing = tmp_path / "letrers.jsonl"
    with pytest.raises(FileNotFoundError) as told:
        next(Run(missing).each(), None)
    assert told.value.filename == str(missing)
