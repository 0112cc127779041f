"""The verbs score, compare and audit, as a user meets them."""

import json
import random
from pathlib import Path

import pytest

from dwindle.cli.main import main


def record(i, seed):
    rng, fixed = random.Random(f"{seed} {i}"), random.Random(i)
    words = "the mayor closed a bridge and children went by ferry".split()  # noqa: SIM905
    return {
        "id": i,
        "source": "\n".join(" ".join(fixed.choices(words, k=8)) for _ in range(5)),
        "reference": " ".join(fixed.choices(words, k=9)),
        "hypothesis": " ".join(rng.choices(words, k=9)),
    }


@pytest.fixture
def files(tmp_path):
    """Two systems on the same items, the second in another order of lines."""
    paths = []
    for seed in ("one", "two"):
        lines = [json.dumps(record(i, seed)) for i in range(25)]
        path = tmp_path / f"{seed}.jsonl"
        path.write_text("\n".join(lines if seed == "one" else lines[::-1]) + "\n")
        paths.append(str(path))
    return paths


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as end:
        main(list(arguments))
    captured = capsys.readouterr()
    return end.value.code, captured.out, captured.err


def test_json_has_exactly_the_promised_keys(capsys, files):
    code, out, err = run(capsys, "score", files[0], "--metrics", "rouge,bleu", "--json")
    assert (code, err) == (0, "")
    scored = json.loads(out)
    assert list(scored) == ["file", "items", "scores"]
    assert (scored["file"], scored["items"]) == (files[0], 25)
    assert [s["metric"] for s in scored["scores"]] == ["rouge1", "rouge2", "rougeL", "bleu"]
    for score in scored["scores"]:
        assert list(score) == ["metric", "value", "low", "high", "signature"]
        assert 0 <= score["low"] <= score["value"] <= score["high"] <= 100
        assert score["signature"].endswith("|seed:1|bs:1000")


def test_several_files_and_lead3_print_an_object_each(capsys, files):
    code, out, _ = run(
        capsys,
        "score",
        *files,
        "--lead3",
        "-m",
        "rouge1",
        "--json",
        "--seed",
        "5",
        "--resamples",
        "50",
    )
    scored = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert [s["file"] for s in scored] == [*files, f"LEAD-3 of {files[0]}"]
    assert scored[0]["scores"][0]["signature"].endswith("|seed:5|bs:50")


def test_order_of_lines_and_workers_change_nothing(capsys, files, tmp_path):
    lines = Path(files[0]).read_text().splitlines()
    other = tmp_path / "again" / "one.jsonl"
    other.parent.mkdir()
    other.write_text("\n".join(reversed(lines)))
    first, second = (
        json.loads(run(capsys, "score", str(path), "--json", "--workers", workers)[1])["scores"]
        for path, workers in ((files[0], "1"), (other, "3"))
    )
    assert first == second


def test_one_system_is_a_list_of_metrics_and_signatures_are_asked_for(capsys, files):
    code, out, _ = run(capsys, "score", files[0])
    assert code == 0
    for name in (
        "rouge1 ↑",
        "repetition4 ↓",
        "novelty5",
        "layoutL-reverse ↓",
        "length",
        "sentences",
    ):
        assert f"\n{name} " in out
    assert "rouge1|" not in out
    out = run(capsys, "score", files[0], "--signatures")[1]
    assert "rouge1|measure:f1|tok:rouge-1.5.5|stem:porter+wordnet2.0" in out


@pytest.mark.parametrize("verb", ["score", "compare"])
def test_no_number_and_no_name_is_cut_on_any_terminal(capsys, files, monkeypatch, verb):
    """What stands on 80 or 40 columns is what stands on 240: only the breaks between blocks
    differ."""
    long = "a-system-with-quite-a-long-name"
    monkeypatch.setenv("FORCE_COLOR", "")
    words = {}
    for width in ("40", "80", "240"):
        monkeypatch.setenv("COLUMNS", width)
        monkeypatch.setattr("dwindle.cli.terminal._PIPE", int(width))
        out = run(capsys, verb, *files, "--names", f"plain,{long}", "--resamples", "40")[1]
        words[width] = set(out.split())
        table = out.partition("\n\n")[2].rpartition("\n\n")[0]
        assert width == "40" or max(map(len, table.splitlines())) <= int(width)
    assert words["40"] == words["80"] == words["240"]
    assert long in words["80"]


def test_names_are_those_of_the_files_or_as_given(capsys, files, tmp_path):
    (tmp_path / "dim").mkdir()
    other = tmp_path / "dim" / "outputs.jsonl"
    other.write_text(Path(files[1]).read_text())
    out = run(capsys, "compare", files[0], str(other), "-m", "rouge1", "--resamples", "40")[1]
    assert "\n  one " in out
    assert "\n  dim " in out
    code, _, err = run(capsys, "compare", *files, "--names", "x")
    assert code == 2
    assert "1 names for 2 systems" in err


def test_halves(capsys, files):
    _, out, _ = run(capsys, "score", files[0], "-m", "bleu", "--halves", "--json")
    assert [s["metric"] for s in json.loads(out)["scores"]] == [
        "bleu",
        "bleu/short",
        "bleu/long",
        "bleu/gap",
    ]


def test_line_aligned_files(capsys, tmp_path):
    for name, text in {"h": "a b c d\ne f\n", "r": "a b c d\ne g\n", "s": "x\ny\n"}.items():
        (tmp_path / name).write_text(text)
    hyp, ref, src = (str(tmp_path / name) for name in "hrs")
    code, out, _ = run(
        capsys, "score", "--hyp", hyp, "--ref", ref, "--src", src, "-m", "rouge1,novelty1", "--json"
    )
    assert code == 0
    assert [s["value"] for s in json.loads(out)["scores"]] == [75, 100]
    code, out, _ = run(
        capsys, "compare", "--hyp", hyp, "--hyp", ref, "--ref", ref, "-m", "rouge1", "--json"
    )
    assert code == 0
    assert json.loads(out.splitlines()[1])["scores"][0]["difference"] == 25


def test_less_repetition_wins(capsys, tmp_path):
    """Where less is better, a clear improvement wins every resample."""
    files = []
    for name, written in (("base", "a b c a b c a b c {}"), ("other", "a b c d e f {}")):
        files.append(tmp_path / f"{name}.jsonl")
        lines = [
            {"id": n, "reference": "a b c", "hypothesis": written.format(n)} for n in range(20)
        ]
        files[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    asked = ("compare", *map(str, files), "-m", "repetition3,rouge1", "--resamples", "40")
    code, out, _ = run(capsys, *asked, "--json")
    less, more = json.loads(out.splitlines()[1])["scores"]
    assert code == 0
    assert less["difference"] < 0
    assert less["difference_high"] < 0
    assert (less["wins"], more["wins"]) == (1.0, 1.0)
    shown = [line.split() for line in run(capsys, *asked)[1].splitlines()]
    assert next(line for line in shown if line[:1] == ["other"] and len(line) > 6)[-3] == "100.0"


def test_compare(capsys, files):
    code, out, _ = run(
        capsys, "compare", *files, files[0], "-m", "rouge1,bleu", "--resamples", "200", "--json"
    )
    assert code == 0
    base, other, same = [json.loads(line) for line in out.splitlines()]
    assert list(base["scores"][0]) == ["metric", "value", "low", "high", "signature"]
    score = other["scores"][0]
    assert score["difference"] == pytest.approx(score["value"] - base["scores"][0]["value"])
    assert score["difference_low"] <= score["difference"] <= score["difference_high"]
    assert score["holm_bootstrap"] >= score["p_bootstrap"]
    assert same["scores"][0]["p_randomisation"] == 1
    code, out, _ = run(capsys, "compare", *files, "-m", "rouge1,bleu", "--resamples", "200")
    assert code == 0
    assert "p (bs)" in out
    assert "Holm" in out


def test_empty_hypotheses_are_reported(capsys, tmp_path):
    path = tmp_path / "o.jsonl"
    path.write_text(
        '{"id": "x", "reference": "a b", "hypothesis": ""}\n{"id": "y", "reference": "a", '
        '"hypothesis": "a"}'
    )
    code, out, err = run(capsys, "score", str(path), "-m", "rouge1", "--json")
    assert code == 0
    assert json.loads(out)["scores"][0]["value"] == 50
    assert "1 of 2 hypotheses" in err
    assert "score 0 (the first is id 'x')" in err


def test_a_source_without_sentences_is_reported(capsys, tmp_path):
    path = tmp_path / "o.jsonl"
    path.write_text('{"id": "x", "source": "a b", "hypothesis": "a"}')
    assert "has a newline" in run(capsys, "score", str(path), "-m", "layout")[2]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["score"], "name outputs.jsonl files, or line-aligned files"),
        (
            ["score", "nowhere.jsonl"],
            "nowhere.jsonl is not there: name a file of outputs, or the folder of a run",
        ),
        (["score", "{folder}"], "is a folder without outputs.jsonl"),
        (["compare", "--hyp", "{one}", "--ref", "nowhere"], "nowhere is not there"),
        (["score", "{latin}"], "latin, line 2 is not UTF-8"),
        (["score", "{one}", "--ref", "{two}"], "--ref and --src go with --hyp"),
        (["score", "{one}", "-m", "rogue"], "no metric is called 'rogue'"),
        (["score", "{one}", "-m", "mover"], "needs an encoder"),
        (["score", "{one}", "-m", "entropy"], "needs a coverage file"),
        (["score", "{one}", "--resamples", "3"], "3 resamples cannot bound 95 %"),
        (["compare", "{one}"], "one system alone cannot be compared"),
        (["compare", "{one}", "{bad}"], "line 2 is not JSON"),
        (["compare", "{one}", "{few}"], "lacks 24 ids"),
        (["score", "{bare}", "-m", "novelty"], "novelty1 needs sources"),
        (["score", "{bare}", "-m", "rouge"], "rouge1 needs references"),
        (["score", "{bare}", "--halves"], "halves need sources"),
        (["score", "{bare}", "--lead3"], "LEAD-3 needs sources"),
    ],
)
def test_bad_input_is_one_sentence_and_code_2(capsys, files, tmp_path, arguments, sentence):
    more = {
        "bad": json.dumps(record(0, "one")) + "\n{",
        "few": json.dumps(record(0, "one")),
        "bare": '{"id": 1, "hypothesis": "a"}\n{"id": 2, "hypothesis": "b"}',
    }
    names = {
        "one": files[0],
        "two": files[1],
        "folder": str(tmp_path),
        "latin": str(tmp_path / "latin"),
    }
    (tmp_path / "latin").write_bytes(
        json.dumps(record(0, "one")).encode() + b'\n{"id": 1, "hypothesis": "caf\xe9"}'
    )
    for name, text in more.items():
        (tmp_path / name).write_text(text)
        names[name] = str(tmp_path / name)
    code, out, err = run(capsys, *(argument.format(**names) for argument in arguments))
    assert code == 2
    assert out == ""
    assert sentence in err
    assert err.count("\n") == 1


def test_help_names_every_family(capsys):
    from dwindle.metrics.catalogue import GROUPS

    _, out, _ = run(capsys, "score", "--help")
    assert all(name in out for name in GROUPS)


def test_audit(capsys):
    code, out, _ = run(capsys, "audit")
    assert code == 0
    assert "0.42 %" in out
    assert "4.2 %" in out
    findings = json.loads(run(capsys, "audit", "--json")[1])
    assert {"about", "where", "printed", "recomputed", "agrees", "how"} == set(findings[0])


def test_cider_is_of_words_and_a_text_that_is_not_tokenised_is_said(capsys, tmp_path):
    texts = [
        ("A man sits.", "a man sits"),
        ("Two dogs run!", "two dogs run"),
        ("Trees, and a car.", "trees and a car"),
    ]
    path = tmp_path / "o.jsonl"
    path.write_text(
        "\n".join(
            json.dumps({"id": i, "reference": r, "hypothesis": h}) for i, (h, r) in enumerate(texts)
        )
    )
    values = {}
    for name in ("cider", "cider:spaces"):
        _, out, err = run(capsys, "score", str(path), "-m", name, "--json")
        values[name] = json.loads(out)["scores"][0]["value"]
        assert ("3 of 6 texts" in err and "take cider, which counts words" in err) == (
            name == "cider:spaces"
        )
    assert values["cider"] > 3 * values["cider:spaces"]


def test_synthetic_data_is_called_so(capsys, tmp_path):
    path = tmp_path / "o.jsonl"
    path.write_text('{"id": 1, "hypothesis": "a", "gold": {"world": "newsroom"}}')
    assert "(1 items, synthetic data, " in run(capsys, "score", str(path), "-m", "length")[1]
