"""``generate`` and ``score`` on whole files, as a user types them; no cluster is needed to see what
they do."""

import json
import random
from pathlib import Path

import datasets
import pytest

from dwindle.bulk import cluster
from dwindle.bulk.shards import alone
from dwindle.generation import bulk
from dwindle.metrics import spread
from dwindle.runfiles import tables
from dwindle.runs import recipe, steps
from tests.auditing import small
from tests.cli.test_run_verbs import TINY

ASKED = [f"decoding.{one}" for one in ("max_length=6", "min_length=3", "beams=2", "batch_size=2")]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A saved model that reads 4 tokens."""
    folder = tmp_path_factory.mktemp("model")
    tokenizer = small.tokenizer()
    tokenizer.model_max_length = 4
    small.writer(len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def corpus(tmp_path):
    """Sources in two files of one format, and in one of another."""
    folder = tmp_path / "sources"
    folder.mkdir()
    records = [{"id": n, "source": text, "more": [n]} for n, text in enumerate(small.TEXTS[:50])]
    records[3]["source"] = "  "
    records[4]["source"] = "mayor"
    for name, some in (("a.jsonl", records[:40]), ("b.jsonl", records[40:])):
        (folder / name).write_text("".join(json.dumps(one) + "\n" for one in some))
    table = [{"text": "t", "source": one["source"], "hypothesis": "old"} for one in records[:5]]
    datasets.Dataset.from_list(table).to_parquet(folder / "c.parquet")
    return folder


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_outputs_of_files(run, model, corpus, tmp_path):
    out = tmp_path / "outputs"
    asked = ("generate", model, str(corpus / "*.jsonl"), *ASKED, "--out", str(out))
    code, said, complained = run(*asked)
    assert (code, said) == (0, f"50 outputs are in {out}\n")
    assert "sources were longer than the model reads, marked cut" in complained
    assert "1 outputs are empty" in complained
    sources, written = lines(corpus / "a.jsonl"), lines(out / "a.jsonl")
    assert [{k: one[k] for k in ("id", "source", "more")} for one in written] == sources
    assert written[3]["hypothesis"] == ""
    assert len({one["hypothesis"] for one in written}) > 10
    assert written[0]["cut"]
    assert "cut" not in written[4]
    assert len(lines(out / "b.jsonl")) == 10
    assert not list(out.glob(".a*"))
    before = (out / "a.jsonl").read_bytes()
    assert run(*asked)[1] == f"50 outputs are in {out}, 50 of them by an earlier run\n"
    assert (out / "a.jsonl").read_bytes() == before
    code, _, complained = run(*asked, "decoding.block_ngrams=2")
    assert code == 2
    assert "is there already, of other sources, another model or other settings" in complained


def test_parquet_keeps_its_columns(run, model, corpus, tmp_path):
    out = tmp_path / "outputs"
    asked = ("generate", model, str(corpus / "c.parquet"), *ASKED, "--out", str(out))
    assert run(*asked)[0] == 0
    found = datasets.Dataset.from_parquet(str(out / "c.parquet"))
    assert found.column_names == ["text", "source", "hypothesis", "cut"]
    rows = list(tables.rows(out / "c.parquet"))
    assert all(row["text"] == "t" and row["hypothesis"] != "old" for row in rows)
    assert [("cut" in row) for row in rows] == [True, True, True, False, False]
    assert rows[3]["hypothesis"] == ""


def test_a_killed_command_goes_on(run, model, corpus, tmp_path, monkeypatch):
    """Shards are of 32 sources; the second one is cut off."""
    one, two = tmp_path / "one", tmp_path / "two"
    asked = ("generate", model, str(corpus / "a.jsonl"), *ASKED, "--out")
    assert run(*asked, str(one))[0] == 0
    texts = bulk.Scribe.texts

    def dying(self, items):
        if items[0].id == "32":
            raise KeyboardInterrupt
        return texts(self, items)

    monkeypatch.setattr(bulk.Scribe, "texts", dying)
    assert run(*asked, str(two))[0] == 130
    assert not (two / "a.jsonl").exists()
    monkeypatch.setattr(bulk.Scribe, "texts", texts)
    assert "32 of them by an earlier run" in run(*asked, str(two))[1]
    assert (two / "a.jsonl").read_bytes() == (one / "a.jsonl").read_bytes()


def test_a_run_writes_what_it_wrote_for_its_test_split(run, tmp_path):
    made = steps.run(recipe.read("newsroom/base", TINY), tmp_path / "run")
    (tmp_path / "test.jsonl").write_bytes((made.path / "outputs.jsonl").read_bytes())
    code, _, complained = run(
        "generate", str(made.path), str(tmp_path / "test.jsonl"), "--out", str(tmp_path / "again")
    )
    assert code == 0, complained
    own, again = lines(tmp_path / "test.jsonl"), lines(tmp_path / "again" / "test.jsonl")
    assert [one["hypothesis"] for one in again] == [one["hypothesis"] for one in own]
    assert [one["gold"] for one in again] == [one["gold"] for one in own]


@pytest.fixture
def shards(tmp_path):
    """The outputs of one system in two files, and in one."""
    rng = random.Random(1)
    records = [
        {
            "id": n,
            "source": " ".join(rng.choices(small.WORDS, k=9)),
            "reference": " ".join(rng.choices(small.WORDS, k=6)),
            "hypothesis": " ".join(rng.choices(small.WORDS, k=6)),
        }
        for n in range(600)
    ]
    folder = tmp_path / "outputs"
    folder.mkdir()
    for path, some in (
        (folder / "a.jsonl", records[:100]),
        (folder / "b.jsonl", records[100:]),
        (tmp_path / "whole.jsonl", records),
    ):
        path.write_text("".join(json.dumps(one) + "\n" for one in some))
    return folder


def test_one_system_in_several_files(run, shards, tmp_path, monkeypatch):
    whole = tmp_path / "whole.jsonl"
    asked = ("--metrics", "rouge,bleu,cider,rouge:script", "--resamples", "40", "--json")
    expected = json.loads(run("score", str(whole), *asked)[1])["scores"]
    pattern = str(shards / "*.jsonl")
    code, said, complained = run("score", pattern, *asked, "--out", str(tmp_path / "items"))
    assert (code, complained) == (0, "")
    assert json.loads(said) == {"file": pattern, "items": 600, "scores": expected}
    items = lines(tmp_path / "items" / "b.jsonl")
    assert [one["id"] for one in items] == [str(n) for n in range(100, 600)]
    assert len(lines(tmp_path / "items" / "a.jsonl")) == 100
    assert list(items[0]) == ["id", *(one["metric"] for one in expected)]
    rouge = [one["rouge1"] for name in "ab" for one in lines(tmp_path / "items" / f"{name}.jsonl")]
    assert sum(rouge) / 600 == pytest.approx(expected[0]["value"])
    # with another engine
    named = []
    monkeypatch.setattr(cluster, "engine", lambda address: named.append(address) or alone)
    code, said, _ = run("score", pattern, *asked, "--ray", "10.0.0.1:6379")
    assert (code, json.loads(said)["scores"]) == (0, expected)
    assert run("score", str(whole), *asked, "--ray")[0] == 0
    assert named == ["10.0.0.1:6379", "local"]
    assert not list(shards.glob(".scores*"))


def test_a_killed_score_goes_on(run, shards, monkeypatch):
    monkeypatch.setattr(cluster, "engine", lambda address: alone)
    asked = ("score", str(shards / "*.jsonl"), "--metrics", "rouge1", "--json")
    expected = run(*asked)[1]
    rows, made = spread.single_rows, []

    def dying(items, parts):
        made.append(len(items))
        if len(made) == 2:
            raise KeyboardInterrupt
        return rows(items, parts)

    monkeypatch.setattr(spread, "single_rows", dying)
    assert run(*asked, "--ray")[0] == 130
    (kept,) = shards.glob(".scores*")
    assert [file.name for file in kept.iterdir()] == ["00000000.npz"]
    assert run(*asked, "--ray")[1] == expected
    assert made == [256, 256, 256, 88]  # the first shard was not made again
    assert not kept.exists()


def cases(folder: Path):
    """Arguments and the sentence about them."""
    bad, taken = folder / "bad.jsonl", folder / "taken"
    bad.write_text('{"id": 1, "reference": "a"}\n')
    (folder / "twice.jsonl").write_text('{"id": 1, "source": "a"}\n' * 2)
    (folder / "text.txt").write_text("a\n")
    sources, out = str(folder / "sources"), ("--out", str(folder / "out"))
    (taken).mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        (taken / name).write_text('{"id": 1, "hypothesis": "b", "reference": "c"}\n')
    mixed = f"{sources}/*"
    return [
        (("generate", "MODEL", f"{sources}/*.csv", *out), "no file is called"),
        (("generate", "MODEL", mixed, *out), "have different formats: name files of one format"),
        (("generate", "MODEL", str(folder / "text.txt"), *out), "is neither JSONL nor Parquet"),
        (("generate", "MODEL", str(bad), *out), 'bad.jsonl, line 1 has no "source"'),
        (("generate", "MODEL", str(folder / "twice.jsonl"), *out), "ids must differ"),
        (("generate", "MODEL", f"{sources}/*.jsonl", "--out", sources), "the folder of the input"),
        (("generate", "MODEL", f"{sources}/*.jsonl", "--out", str(taken)), "is there already"),
        (("generate", "MODEL", f"{sources}/*.jsonl"), "name one with --out"),
        (("generate", "MODEL", "decoding.beams=2", *out), "needs files of sources"),
        (("generate", "MODEL", *out), "--out and --ray are for files of sources"),
        (
            ("generate", "MODEL", f"{sources}/*.jsonl", "decoding.beam=2", *out),
            "no key is called decoding.beam: did you mean decoding.beams?",
        ),
        (("generate", str(folder), f"{sources}/*.jsonl", *out), "it has no config.json"),
        (
            ("generate", "MODEL", f"{sources}/*.jsonl", *out, "--ray", "nowhere"),
            "is not the address of a Ray cluster",
        ),
        (("score", f"{sources}/*.csv"), "no file is called"),
        (("score", mixed), "have different formats"),
        (("score", f"{taken}/*.jsonl"), "have the same id '1'"),
        (("score", f"{taken}/a.jsonl", "--out", str(taken)), "is there already"),
        (("score", f"{taken}/a.jsonl", "--ray", "nowhere"), "is not the address"),
        (("score", str(bad), "--ray", "nowhere"), "is not the address"),
        (("score", str(bad)), 'has no "hypothesis"'),
    ]


def test_bad_input_is_one_sentence_and_code_2(run, model, corpus, tmp_path, capsys):
    capsys.readouterr()  # of writing Parquet
    for arguments, sentence in cases(tmp_path):
        code, said, complained = run(*(model if one == "MODEL" else one for one in arguments))
        assert (code, said) == (2, ""), arguments
        assert sentence in complained, (arguments, complained)
        assert complained.count("\n") == 1


def test_one_command_at_a_time_works_in_a_folder(run, model, corpus, tmp_path):
    from dwindle.runfiles import whole

    with whole.locked(tmp_path / "out"):
        code, _, complained = run(
            "generate", model, str(corpus / "a.jsonl"), "--out", str(tmp_path / "out")
        )
    assert code == 2
    assert "another process is working in" in complained
