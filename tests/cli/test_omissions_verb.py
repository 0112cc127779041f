"""The verb omissions, as a user meets it."""

import gzip
import json
import re
import sys
import wave
from types import SimpleNamespace

import datasets
import pytest

import dwindle
from dwindle.auditing import auditor as auditing
from dwindle.auditing import bulk
from dwindle.auditing.readers import reader_of
from dwindle.bulk import cluster
from dwindle.bulk.shards import alone
from dwindle.cli import coverage
from dwindle.cli import omissions as verb
from dwindle.models import build, opened, place
from dwindle.runfiles.run import Run, ears_of, findings_of
from tests.auditing import small
from tests.generation.test_tracing import made


@pytest.fixture
def opening(monkeypatch):
    """Every model that is asked for is the one that copies."""
    tokenizer = small.tokenizer()
    model = small.copier(len(tokenizer))
    monkeypatch.setattr(place, "place", lambda name: name)
    monkeypatch.setattr(
        opened, "opened", lambda name: SimpleNamespace(model=model, reader=tokenizer)
    )
    return model, tokenizer


@pytest.fixture
def outputs(tmp_path):
    path = tmp_path / "outputs.jsonl"
    short = {3: "ferry", 5: ""}
    lines = [
        {"id": n, "source": text, "hypothesis": short.get(n, text)}
        for n, text in enumerate(small.TEXTS)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_findings_and_listeners_are_written(run, opening, outputs):
    kept = outputs.with_name("outputs.omissions.listeners.json")
    code, said, complained = run("omissions", str(outputs), "--model", "any", "--json")
    assert code == 0
    assert complained.count("\n") == 1
    records = [json.loads(line) for line in said.splitlines()]
    assert [record["id"] for record in records] == [str(n) for n in range(60)]
    assert {record["id"] for record in records if record["alarm"]} == {"3", "5"}
    assert set(records[3]) == {"id", "score", "alarm", "spans", "chars"}
    assert set(records[3]["spans"][0]) == {"start", "end", "text", "score", "unheard"}
    assert len(records[3]["chars"]) == len(small.TEXTS[3])
    assert dwindle.Listeners.load(kept).tells
    code, said, complained = run(
        "omissions", str(outputs), "--model", "any", "--listeners", str(kept)
    )
    assert (code, complained) == (0, "")
    assert "2 of 60 outputs are flagged" in said
    assert not list(outputs.parent.glob(".*"))


def test_nothing_is_written_into_the_folder_of_a_model(run, opening, outputs, tmp_path):
    """Listeners that were not named lie beside the outputs, and serve the next time, but not
    another model."""
    model = tmp_path / "model"
    model.mkdir()
    code, said, complained = run("omissions", str(outputs), "--model", str(model))
    kept = outputs.with_name("outputs.omissions.listeners.json")
    assert code == 0
    assert complained == (
        "dwindle: listeners were chosen on 30 of 60 sources, calibrated on 30 of the outputs to "
        f"audit, and saved to {kept}\n"
    )
    assert list(model.iterdir()) == []
    again = (
        f"{said}They are those of an earlier run: neither outputs nor settings have changed "
        "since.\n"
    )
    assert run("omissions", str(outputs), "--model", str(model)) == (0, again, "")
    told = json.loads(kept.read_text())
    kept.write_text(json.dumps(told | {"origin": told["origin"] | {"model": "another"}}))
    assert "were chosen" in run("omissions", str(outputs), "--model", str(model))[2]
    outputs.write_text(outputs.read_text().replace('"ferry"', '"ferry ship"'))
    assert "were chosen" in run("omissions", str(outputs), "--model", str(model))[2]


def test_the_worst_come_first_with_their_sentences_and_why(run, opening, outputs):
    code, said, _ = run("omissions", str(outputs), "--model", "any", "--top", "3")
    assert code == 0
    heads = [line for line in said.splitlines() if re.match(r"\d+  ", line)]
    assert {line.split()[0] for line in heads[:2]} == {"3", "5"}
    assert ["no alarm" not in line for line in heads] == [True, True, False]
    scores = [float(line.split()[-1]) for line in heads]
    assert scores == sorted(scores, reverse=True)
    assert f"  [[{small.TEXTS[5]}]]\n    heard by none of the heads (1.0)\n" in said
    assert f"  [[{small.TEXTS[3]}]]\n" in said
    assert "The 3 highest scores of 60" in said
    assert "highest" not in run("omissions", str(outputs), "--model", "any", "--top", "0")[1]


def test_a_long_sentence_is_shown_around_its_mark():
    text = f"{'a word ' * 60}gone{' and more' * 60}. A short one."
    record = {"spans": [{"start": 420, "end": 424, "score": 1.0}]}
    ((shown, span),) = verb._sentences(record, text)
    assert span["score"] == 1.0
    assert shown.plain.startswith("… ")
    assert shown.plain.endswith(" …")
    assert "word [[gone]] and" in shown.plain
    assert len(shown.plain) < 300


@pytest.fixture(scope="module")
def chosen():
    """The listeners of the one that copies."""
    tokenizer = small.tokenizer()
    return dwindle.listeners(small.copier(len(tokenizer)), tokenizer, small.TEXTS)


@pytest.fixture
def ears(opening, chosen, tmp_path):
    return str(chosen.save(tmp_path / "ears.json"))


def test_files_of_every_kind_give_the_same_findings(run, outputs, ears, tmp_path):
    items = [json.loads(line) for line in outputs.read_text().splitlines()]
    pairs = [(item["source"], item["hypothesis"]) for item in items]
    table = datasets.Dataset.from_list([{"source": s, "hypothesis": h} for s, h in pairs])
    table.to_parquet(tmp_path / "a.parquet")
    table.save_to_disk(tmp_path / "folder")
    table.to_csv(tmp_path / "a.csv", index=False)
    (tmp_path / "a.tsv").write_text("".join(f"{s}\t{h}\n" for s, h in pairs))
    for name, lines in (("a.en.gz", [s for s, _ in pairs]), ("a.fr.gz", [h for _, h in pairs])):
        (tmp_path / name).write_bytes(
            gzip.compress("".join(f"{line}\n" for line in lines).encode())
        )
    asked = ("--model", "any", "--listeners", ears, "--json")
    expected = [json.loads(line) for line in run("omissions", str(outputs), *asked)[1].splitlines()]
    named = [[str(tmp_path / name)] for name in ("a.parquet", "folder", "a.csv", "a.tsv")]
    for given in (*named, ["--src", str(tmp_path / "a.en.gz"), "--hyp", str(tmp_path / "a.fr.gz")]):
        code, said, complained = run("omissions", *given, *asked)
        assert (code, complained) == (0, "")
        found = [json.loads(line) for line in said.splitlines()]
        assert [record["id"] for record in found] == [str(n) for n in range(1, 61)]
        assert [record | {"id": ""} for record in found] == [
            record | {"id": ""} for record in expected
        ]


def test_a_corpus_is_cleaned(run, outputs, ears, tmp_path):
    """Line by line as it stood, and the rest elsewhere; the findings have no scores of
    characters."""
    clean, gone = tmp_path / "clean.jsonl", tmp_path / "gone.jsonl"
    asked = ("omissions", str(outputs), "--model", "any", "--listeners", ears, "--top", "0")
    code, said, _ = run(*asked, "--keep", str(clean), "--drop", str(gone))
    assert code == 0
    lines = outputs.read_text().splitlines(keepends=True)
    assert gone.read_text() == lines[3] + lines[5]
    assert clean.read_text() == "".join(line for n, line in enumerate(lines) if n not in (3, 5))
    assert f"58 kept: {clean}" in said
    assert f"2 dropped: {gone}" in said
    assert "chars" not in json.loads(findings_of(outputs).read_text().splitlines()[0])
    code, _, complained = run(*asked, "--keep", str(tmp_path / "clean.tsv"))
    assert code == 2
    assert "end its name in .jsonl" in complained


def test_parallel_files_are_cleaned_together(run, outputs, ears, tmp_path):
    items = [json.loads(line) for line in outputs.read_text().splitlines()]
    for ending, key in (("en", "source"), ("fr", "hypothesis")):
        (tmp_path / f"c.{ending}").write_text("".join(f"{item[key]}\n" for item in items))
    given = (
        "--src",
        str(tmp_path / "c.en"),
        "--hyp",
        str(tmp_path / "c.fr"),
        "--keep",
        str(tmp_path / "clean"),
    )
    assert run("omissions", *given, "--model", "any", "--listeners", ears)[0] == 0
    kept = [item for n, item in enumerate(items) if n not in (3, 5)]
    for ending, key in (("en", "source"), ("fr", "hypothesis")):
        assert (tmp_path / f"clean.{ending}").read_text().splitlines() == [
            item[key] for item in kept
        ]


def test_a_sample_says_how_much_would_go_and_writes_nothing(run, outputs, ears, tmp_path):
    before = sorted(tmp_path.iterdir())
    asked = (
        "omissions",
        str(outputs),
        "--model",
        "any",
        "--listeners",
        ears,
        "--keep",
        str(tmp_path / "k.jsonl"),
    )
    code, said, _ = run(*asked, "--sample", "30")
    assert code == 0
    found = re.search(
        r"Of 30 outputs drawn at random from 60, (\d) are flagged: ([\d.]+)% \(95% interval", said
    )
    assert float(found[2]) == pytest.approx(100 * int(found[1]) / 30, abs=0.06)
    assert sorted(tmp_path.iterdir()) == before
    assert "k.jsonl" in said
    said = run(*asked, "--sample", "99")[1]  # all there are: nothing is uncertain
    assert (
        "Of 60 outputs drawn at random from 60, 2 are flagged: 3.3% (95% interval 3.3% to 3.3%)"
        in said
    )
    drawn = {
        tuple(id for id, _, _ in bulk.drawn([Run(outputs)], 60, 10, seed)) for seed in (1, 1, 2)
    }
    assert len(drawn) == 2


@pytest.mark.parametrize(
    "given", [[], ["a", "--src", "b"], ["--hyp", "a"], ["a", "--src", "b", "--hyp", "c"]]
)
def test_one_kind_of_input(run, given):
    code, _, complained = run("omissions", *given, "--model", "any")
    assert code == 2
    assert "one of the two" in complained


def test_too_few_sources_are_refused_before_a_model_is_loaded(run, tmp_path):
    path = tmp_path / "few.jsonl"
    path.write_text('{"id": 1, "source": "a", "hypothesis": "b"}\n')
    for more, said in (
        ((), "at least 27 sources"),
        (("--false-alarms", "0.5"), "at least 9"),
        (("--false-alarms", "2"), "between 0 and 1"),
    ):
        code, _, complained = run("omissions", str(path), "--model", "nowhere", *more)
        assert code == 2
        assert said in complained
        assert complained.count("\n") == 1


def test_listeners_are_calibrated_on_what_is_said_to_be_whole(run, opening, outputs):
    kept = outputs.with_name("outputs.omissions.listeners.json")
    whole = outputs.with_name("whole.jsonl")
    lines = [
        {"id": n, "source": text, "hypothesis": f"the {text}"} for n, text in enumerate(small.TEXTS)
    ]
    whole.write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = ("omissions", str(outputs), "--model", "any", "--intact", str(whole))
    assert run(*asked, "--false-alarms", "0.1")[0] == 0
    kept = kept.rename(outputs.with_name("ears.json"))
    asked += ("--listeners", str(kept))
    found = dwindle.Listeners.load(kept)
    assert found.origin["calibrated_with"] == "the complete outputs"
    assert found.false_alarms == 0.1
    once = kept.read_text()
    for share in ("0.1", "0.2"):  # the heads stay, the thresholds are those of the share
        assert run(*asked, "--false-alarms", share)[0] == 0
        used = dwindle.Listeners.load(ears_of(findings_of(outputs)))
        assert used.false_alarms == float(share)
        assert used.threshold == found.at(float(share)).threshold
        assert kept.read_text() == once
    with whole.open("a") as file:
        file.write(json.dumps({"id": "one more", "source": "a", "hypothesis": "b"}) + "\n")
    code, _, complained = run(*asked)  # what would be ignored is refused
    assert code == 2
    assert "was calibrated on other outputs than" in complained


def test_sources_of_their_own_and_a_second_opinion(run, opening, outputs, tmp_path):
    ordinary = tmp_path / "ordinary.txt"
    ordinary.write_text("\n".join([*small.TEXTS, "", "  "]) + "\n")
    few = tmp_path / "few.jsonl"
    few.write_text("".join(outputs.read_text().splitlines(keepends=True)[:8]))
    asked = (
        "omissions",
        str(few),
        "--model",
        "any",
        "--sources",
        str(ordinary),
        "--reverse",
        "other",
    )
    code, said, complained = run(*asked, "--repair", "--json")
    assert code == 0
    assert "chosen on 30 of 60 sources" in complained
    records = [json.loads(line) for line in said.splitlines()]
    assert {record["id"] for record in records if record["alarm"]} >= {"3", "5"}
    assert 0 <= records[3]["spans"][0]["surprise"] <= 1
    assert records[5]["repaired"].strip() == small.TEXTS[5]
    assert "repaired" not in records[0]
    code, said, _ = run(*asked, "--repair", "--top", "2")
    assert "as surprising as without the output" in said
    assert "mended: " in said
    ears = tmp_path / "few.omissions.listeners.json"
    named = ears.rename(tmp_path / "ears.json")
    empty = tmp_path / "empty.txt"
    empty.write_text("\n")
    for more, sentence in (
        (("--listeners", str(tmp_path / "eras.json")), "eras.json is not there: check its name"),
        (("--listeners", str(named)), "chosen with a reverse model: name it with --reverse"),
        (("--sources", str(tmp_path / "nothing")), "nothing is not there: check its name"),
        (("--sources", str(empty)), "empty.txt has 0 lines"),
        (("--sources", str(ordinary), "--intact", str(outputs)), "name one of the two"),
    ):
        code, _, complained = run("omissions", str(few), "--model", "any", *more)
        assert code == 2
        assert sentence in complained


def test_models_are_opened_once(run, opening, outputs, monkeypatch):
    """Though listeners are chosen with them first."""
    asked, usual = [], opened.opened
    monkeypatch.setattr(opened, "opened", lambda name: asked.append(name) or usual(name))
    assert run("omissions", str(outputs), "--model", "any", "--reverse", "other")[0] == 0
    assert sorted(asked) == ["any", "other"]


def test_a_closer_look(run, opening, outputs, tmp_path):
    few = tmp_path / "few.jsonl"
    few.write_text("".join(outputs.read_text().splitlines(keepends=True)[:40]))
    ears = tmp_path / "few.omissions.listeners.json"
    asked = ("omissions", str(few), "--model", "any")
    # listeners that were written beside the findings are chosen anew
    for more in ((), ("--contrast",), ()):
        code, _, complained = run(*asked, *more)
        assert (code, "were chosen on" in complained) == (0, True)
        assert dwindle.Listeners.load(ears).contrast == bool(more)
    named = ears.rename(tmp_path / "ears.json")
    code, _, complained = run(*asked, "--contrast", "--listeners", str(named))
    assert code == 2
    assert "was chosen without a closer look: move it away, or leave out --contrast" in complained


@pytest.fixture
def corpus(outputs):
    """The outputs in two files of a folder, of two kinds."""
    folder = outputs.with_name("pairs")
    folder.mkdir()
    items = [json.loads(line) for line in outputs.read_text().splitlines()]
    (folder / "a.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items[:20]))
    datasets.Dataset.from_list(items[20:]).to_parquet(folder / "b.parquet")
    return folder


def test_several_files_are_audited_together(run, outputs, corpus, ears):
    """Each has the findings it has alone, in its own format, and what is kept of it under its own
    name."""
    clean = outputs.with_name("clean")
    pattern = str(corpus / "*")
    asked = (
        "--model",
        "any",
        "--listeners",
        ears,
        "--keep",
        str(clean),
        "--drop",
        str(clean.with_name("gone")),
    )
    code, _, complained = run("omissions", pattern, *asked)
    assert code == 2
    assert f"there is no folder {clean}" in complained
    for folder in (clean, clean.with_name("gone")):
        folder.mkdir()
    code, said, complained = run("omissions", pattern, *asked)
    assert (code, complained) == (0, "")
    assert "a.jsonl: 3  alarm" in said
    assert "2 of 60 outputs are flagged" in said
    assert f"58 kept: {clean / 'a.jsonl'}, {clean / 'b.parquet'}\n" in said
    lines = (corpus / "a.jsonl").read_text().splitlines(keepends=True)
    assert (clean / "a.jsonl").read_text() == "".join(
        line for n, line in enumerate(lines) if n not in (3, 5)
    )
    assert len(list(Run(clean / "b.parquet").each())) == 40
    found = {
        path: list(bulk.results(path))
        for path in map(findings_of, (corpus / "a.jsonl", corpus / "b.parquet"))
    }
    assert {path.suffix for path in found} == {".jsonl", ".parquet"}
    # the findings are not taken for outputs
    code, said, _ = run("omissions", pattern, *asked, "--json")
    assert code == 0
    assert [json.loads(line) for line in said.splitlines()] == [
        record for some in found.values() for record in some
    ]
    assert "earlier run" in run("omissions", pattern, *asked)[1]
    for path, several in found.items():
        path.unlink()
        assert (
            run(
                "omissions",
                str(corpus / path.name.replace(".omissions", "")),
                *asked[:4],
                "--drop",
                str(clean / f"again{path.suffix}"),
            )[0]
            == 0
        )
        assert list(bulk.results(path)) == several


def test_parquet_holds_the_same_records_as_lines(run, outputs, ears):
    items = [json.loads(line) for line in outputs.read_text().splitlines()[:8]]
    long = " ".join(small.TEXTS * 4)  # longer than the model reads
    items += [
        {"id": "long", "source": long, "hypothesis": "ferry"},
        {"id": "none", "source": "...", "hypothesis": "a"},
    ]
    outputs.write_text("".join(json.dumps(item) + "\n" for item in items))
    texts = [
        {"id": str(item["id"]), "source": item["source"], "hypothesis": item["hypothesis"]}
        for item in items
    ]
    datasets.Dataset.from_list(texts).to_parquet(outputs.with_suffix(".parquet"))
    for name in (outputs, outputs.with_suffix(".parquet")):
        assert run("omissions", str(name), "--model", "any", "--listeners", ears)[0] == 0
    lines, rows = (
        list(bulk.results(findings_of(outputs.with_suffix(end)))) for end in (".jsonl", ".parquet")
    )
    assert "unread" in lines[8]
    assert lines[9]["score"] is None
    assert rows == lines


def test_listeners_for_several_files_are_chosen_from_all_and_kept_for_the_next_time(
    run, opening, corpus
):
    asked = (
        "omissions",
        str(corpus / "a.jsonl"),
        str(corpus / "b.parquet"),
        "--model",
        "any",
        "--top",
        "0",
    )
    code, _, complained = run(*asked)
    assert code == 0
    assert "chosen on 30 of 60 sources" in complained
    assert f"saved to {corpus / 'all.omissions.listeners.json'}" in complained
    assert run(*asked)[2] == ""
    assert "no file is called" in run("omissions", str(corpus / "*.tsv"), "--model", "any")[2]


def test_a_cluster_is_named_or_started(run, outputs, ears, monkeypatch):
    """The option may stand without an address; here no cluster is needed to see what it means."""
    asked = ("omissions", str(outputs), "--model", "any", "--listeners", ears, "--top", "0")
    named = []
    monkeypatch.setattr(cluster, "engine", lambda address: named.append(address) or alone)
    for given in (("--ray",), ("--ray", "--batch", "8"), ("--ray", "10.0.0.1:6379")):
        assert run(*asked, *given)[0] == 0
    assert named == ["local", "local", "10.0.0.1:6379"]
    monkeypatch.undo()
    with pytest.raises(ValueError, match="is not the address of a Ray cluster"):
        cluster.engine("pairs.jsonl")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ValueError, match="type pip install"):
        cluster.engine("local")


def shards(outputs, out, auditor):
    run = Run(outputs)
    return bulk.shards([(run, out, bulk.checked(run))], auditor)


def test_a_killed_audit_goes_on(opening, chosen, outputs, monkeypatch):
    model, tokenizer = opening
    auditor = dwindle.Auditor(model, chosen, tokenizer, batch=2)
    out = outputs.with_name("found.jsonl")
    outputs.write_text("".join(outputs.read_text().splitlines(keepends=True)[:40]))
    assert bulk.audit(shards(outputs, out, auditor), alone).resumed == 0
    expected = out.read_bytes()
    # nothing has changed: not done again
    assert bulk.audit(shards(outputs, out, auditor), alone).resumed == 40
    out.unlink()

    def dying(*given):
        for n, one in enumerate(dwindle.omissions(*given)):
            if n == 5:  # within the second shard
                raise KeyboardInterrupt
            yield one

    first = iter([dwindle.omissions])
    monkeypatch.setattr(auditing, "omissions", lambda *given: next(first, dying)(*given))
    with pytest.raises(KeyboardInterrupt):
        bulk.audit(shards(outputs, out, auditor), alone)
    assert not out.exists()
    (folder,) = outputs.parent.glob(".found*")
    assert sorted(file.name for file in folder.iterdir()) == ["00000000.jsonl"]
    monkeypatch.setattr(auditing, "omissions", dwindle.omissions)
    told = []
    resumed = bulk.audit(shards(outputs, out, auditor), alone, lambda *one: told.append(one[1:]))
    assert resumed.resumed == 32  # a shard of one block, which is 16 batches
    assert told == [(done, 40) for done in range(32, 41)]
    assert out.read_bytes() == expected
    assert not folder.exists()


def test_what_is_there_is_made_again_after_a_change(opening, chosen, outputs, tmp_path):
    model, tokenizer = opening
    model.name_or_path = str(tmp_path)
    weights, out = tmp_path / "model.safetensors", outputs.with_name("found.jsonl")
    weights.write_bytes(b"one")
    outputs.write_text("".join(outputs.read_text().splitlines(keepends=True)[:8]))

    def resumed(listeners=chosen, batch=8):
        auditor = dwindle.Auditor(model, listeners, tokenizer, batch=batch)
        return bulk.audit(shards(outputs, out, auditor), alone).resumed

    assert (resumed(), resumed()) == (0, 8)
    assert (resumed(batch=4), resumed(batch=4)) == (0, 8)
    assert (resumed(chosen.at(0.2)), resumed(chosen.at(0.2))) == (0, 8)
    weights.write_bytes(b"another")
    assert (resumed(chosen.at(0.2)), resumed(chosen.at(0.2))) == (0, 8)
    outputs.write_text("".join(outputs.read_text().splitlines(keepends=True)[:7]))
    assert (resumed(), resumed()) == (0, 7)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is not JSON"),
        ('{"source": "a", "hypothesis": "b"}', "has no id"),
        ('{"id": 1, "source": "a"}', 'has no "hypothesis"'),
        ('{"id": 1, "hypothesis": "b"}', "name a WAV file"),
        ('{"id": 1, "source": "a", "hypothesis": "b", "score": NaN}', "has the value NaN"),
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
        bulk.checked(Run(path))


def test_outputs_that_belong_to_other_sources_are_said(run, ears, outputs):
    lines = [json.loads(line) for line in outputs.read_text().splitlines()]
    for line in lines:
        line["hypothesis"] = "zzz qqq"
    outputs.write_text("".join(json.dumps(line) + "\n" for line in lines))
    code, _, complained = run("omissions", str(outputs), "--model", "any", "--listeners", ears)
    assert code == 0
    assert "more than half" in complained


@pytest.fixture
def folder(chosen, tmp_path):
    """A saved model with its tokenizer and listeners beside it."""
    tokenizer = small.tokenizer()
    model = small.copier(len(tokenizer))
    del model.generate  # the copying one cannot be saved
    model.generation_config.max_new_tokens = 5
    for part in (model, tokenizer):
        part.save_pretrained(tmp_path / "model")
    chosen.save(tmp_path / "model")
    return tmp_path / "model"


def test_coverage_marks_what_listeners_say_was_left_out(run, folder, tmp_path):
    text, page = tmp_path / "text", tmp_path / "c.html"
    text.write_text("ferry mayor storm garden")
    code, said, _ = run("coverage", str(folder), "--text", str(text), "--out", str(page))
    assert code == 0
    assert "marked: " in said
    assert "5% would be flagged" in " ".join(said.split())
    assert "What was left out" in page.read_text()
    code, said, _ = run("coverage", str(folder), "--text", str(text), "--json")
    (record,) = json.loads(said)
    assert record["left_out"]["false_alarms"] == 0.05
    assert len(record["left_out"]["chars"]) == len(text.read_text())


def test_coverage_tells_how_far_the_writing_is(folder):
    told = []
    coverage.look(
        str(folder),
        "ferry mayor storm garden",
        "dim:log",
        lambda said: None,
        lambda *one: told.append(one),
    )
    stages = dict.fromkeys(stage for stage, _, _ in told)
    assert list(stages) == [
        "writing (it may end sooner)",
        "writing with dim:log (it may end sooner)",
    ]
    for stage in stages:
        steps = [done for name, done, _ in told if name == stage]
        assert steps == list(range(1, len(steps) + 1))
    assert {total for _, _, total in told} == {5}  # the most that this model writes


def test_the_model_of_a_run_is_opened_by_every_verb_with_its_listeners(run, outputs, tmp_path):
    model, codec = made("bart")
    build.save(model, codec, tmp_path / "run" / "model")
    probe = tuple(reader_of(model, codec.tokenizer).probe())
    loud = {
        "threshold": 1e9,
        "part_threshold": 1e9,
        "false_alarms": 0.05,
        "auroc": {},
        "tells": True,
        "origin": {},
    }
    ears = dwindle.Listeners(((0, 0),), {"": 0.0}, **loud, unit="characters", probe=probe)
    text = tmp_path / "text"
    text.write_text("ferry mayor storm garden")
    for where in ("run/model", "run"):  # beside the weights, then beside the run
        ears.save(tmp_path / where)
        code, said, _ = run("omissions", str(outputs), "--model", str(tmp_path / "run"), "--json")
        assert code == 0
        assert len(said.splitlines()) == 60
        code, said, _ = run("coverage", str(tmp_path / "run"), "--text", str(text), "--json")
        assert code == 0
        assert "left_out" in json.loads(said)[0]
        (tmp_path / where / "listeners.json").unlink()


def test_a_model_with_words_of_its_own_cannot_audit(run, outputs, tmp_path):
    build.save(*made("pointer-generator"), tmp_path / "model")
    code, _, complained = run("omissions", str(outputs), "--model", str(tmp_path / "model"))
    assert code == 2
    assert "take an encoder-decoder with a tokenizer" in complained


def test_a_sound_needs_listeners_for_sound(run, folder, tmp_path):
    path = tmp_path / "a.wav"
    with wave.open(str(path), "wb") as file:
        file.setparams((1, 2, 16_000, 0, "NONE", ""))
        file.writeframes(bytes(200))
    code, _, complained = run("coverage", str(folder), "--audio", str(path))
    assert code == 2
    assert complained.splitlines()[-1].startswith("dwindle: ")
    assert "no listeners for sound" in complained


def test_nothing_is_written_over_what_is_read(run, ears, outputs, tmp_path):
    """Findings took the place of the outputs they were made from."""
    intact, sources = tmp_path / "intact.jsonl", tmp_path / "sources.txt"
    intact.write_text(outputs.read_text())
    sources.write_text("\n".join(small.TEXTS))
    new = ["--out", str(tmp_path / "new.jsonl")]
    cases = [
        ([outputs], ["--listeners", ears, "--out", str(outputs)]),
        ([outputs], ["--listeners", ears, "--out", ears]),
        ([outputs], ["--intact", str(intact), "--out", str(intact)]),
        ([outputs], ["--sources", str(sources), "--out", str(sources)]),
        ([outputs], ["--intact", str(intact), *new, "--keep", str(intact)]),
        (["--src", sources, "--hyp", sources], ["--listeners", ears, "--out", str(sources)]),
    ]
    before = {file: file.read_bytes() for file in tmp_path.iterdir()}
    for named, more in cases:
        code, _, complained = run("omissions", *map(str, named), "--model", "any", *more)
        assert code == 2, more
        assert "give what is written a name of its own" in complained
    missing = str(tmp_path / "no" / "findings.jsonl")
    code, _, complained = run(
        "omissions", str(outputs), "--model", "any", "--listeners", ears, "--out", missing
    )
    assert (code, complained.count("\n")) == (2, 1)
    assert f"there is no folder {tmp_path / 'no'}: make it first" in complained
    assert {file: file.read_bytes() for file in tmp_path.iterdir()} == before
