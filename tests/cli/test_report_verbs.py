"""The verbs report and coverage, as a user meets them."""

import io
import json

import pytest
import torch
import transformers as hf
from tokenizers import Tokenizer, decoders
from tokenizers.models import Unigram
from tokenizers.pre_tokenizers import Metaspace

from dwindle.models import build
from dwindle.models.settings import ModelSettings
from tests import folders

TEXT = "The mayor closed a bridge .\nChildren went by ferry .\nShips waited ."


def test_a_report_of_files_and_runs(run, tmp_path):
    paths = [str(folders.plain(tmp_path / "a.jsonl", 1)), str(folders.run(tmp_path / "run", 2))]
    out = [str(tmp_path / name) for name in ("r.html", "r-tradeoff.svg", "r.md", "r.tex")]
    code, said, complained = run(
        "report", *paths, "--out", out[0], "--md", out[2], "--latex", out[3], "--lead3"
    )
    assert (code, complained) == (0, "")
    assert [line.split(" (")[0] for line in said.splitlines()] == out
    assert "LEAD-3" in (tmp_path / "r.html").read_text()


def test_figures_and_other_metrics(run, tmp_path):
    path, drawn = str(folders.run(tmp_path / "run", 1)), tmp_path / "figures"
    code, said, _ = run(
        "report", path, "--out", str(tmp_path / "r.html"), "--figures", str(drawn), "-m", "bleu"
    )
    assert code == 0
    names = ("figure1", "gains", "repetition", "entropy")
    files = [drawn / f"{name}.{kind}" for name in names for kind in ("png", "svg")]
    assert said.splitlines()[1:] == list(map(str, files))
    assert all(file.stat().st_size > 1000 for file in files)
    assert '<th scope="col">BLEU</th>' in (tmp_path / "r.html").read_text()


def test_an_unfinished_run_is_said_and_the_rest_is_written(run, tmp_path):
    (tmp_path / "half").mkdir()
    path = str(folders.plain(tmp_path / "a.jsonl", 1))
    code, _, complained = run(
        "report", path, str(tmp_path / "half"), "--out", str(tmp_path / "r.html")
    )
    assert code == 0
    assert complained.startswith("dwindle: ")
    assert "no outputs.jsonl" in complained


@pytest.mark.parametrize("name", ["traces.npz", "coverage.npz"])
def test_a_truncated_file_is_said_and_the_rest_is_written(run, tmp_path, name):
    file = folders.run(tmp_path / "run", 1) / name
    file.write_bytes(file.read_bytes()[:-40])
    code, _, complained = run("report", str(file.parent), "--out", str(tmp_path / "r.html"))
    assert code == 0
    assert complained.count("\n") == 1
    assert name in complained
    assert complained.removeprefix("dwindle: ")[:40] in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize("arguments", [["none.jsonl"], ["."], []])
def test_nothing_to_report_in_one_sentence(run, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    code, _, complained = run("report", *arguments)
    assert code == 2
    assert complained.count("\n") == 1
    assert not (tmp_path / "report.html").exists()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small pointer-generator that was never trained."""
    folder = tmp_path_factory.mktemp("model") / "small"
    settings = ModelSettings(
        "pointer-generator", size="tiny", vocabulary=40, source_length=40, rule="dim:log"
    )
    build.save(*build.build(settings, lambda: iter([(TEXT, TEXT)] * 3), seed=1), folder)
    return str(folder)


def test_coverage_of_a_file_and_of_a_pipe(run, model, tmp_path, monkeypatch):
    (tmp_path / "text").write_text(TEXT)
    code, said, _ = run(
        "coverage", model, "--text", str(tmp_path / "text"), "--out", str(tmp_path / "c.html")
    )
    assert code == 0
    assert "small (dim:log)" in said
    assert all(sentence in said for sentence in TEXT.split("\n"))
    page = (tmp_path / "c.html").read_text()
    assert 'data-view="coverage"' in page
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT))
    code, said, _ = run("coverage", model, "--json")
    [record] = json.loads(said)
    assert code == 0
    assert [row["text"] for row in record["parts"]] == TEXT.split("\n")
    assert all(row["left_out"] == (row["share"] <= record["threshold"]) for row in record["parts"])
    assert sum(row["share"] for row in record["parts"]) > 0


def test_coverage_says_first_what_the_model_cannot_know(run, model, tmp_path):
    (tmp_path / "text").write_text("Zwei fremde Worte reichen hier nicht aus", encoding="utf-8")
    code, _, complained = run("coverage", model, "--text", str(tmp_path / "text"), "--json")
    assert code == 0
    assert complained.startswith(
        "dwindle: 7 of the 7 words of this text are not in the vocabulary of small"
    )


def test_coverage_of_a_text_without_spaces(run, tmp_path, capsys):
    """Its sentences, or of a single one what the model reads as one token; unknown words are told
    by the word."""
    special = ["<pad>", "<s>", "</s>", "<unk>"]
    pieces = [
        "▁",
        "市",
        "议会",
        "关闭",
        "旧",
        "桥",
        "渡轮",
        "开始",
        "运行",
        *"议会关闭渡轮开始运行。",
    ]
    scores = dict.fromkeys(special, 0.0) | dict.fromkeys(pieces, -1.0)
    tokenizer = Tokenizer(Unigram(list(scores.items()), unk_id=3))
    tokenizer.pre_tokenizer = Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace()
    hf.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(tmp_path)
    config = hf.MarianConfig(
        vocab_size=len(scores),
        d_model=8,
        encoder_layers=1,
        decoder_layers=1,
        encoder_ffn_dim=8,
        decoder_ffn_dim=8,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        pad_token_id=0,
        decoder_start_token_id=0,
        eos_token_id=2,
        forced_eos_token_id=None,
        max_position_embeddings=64,
    )
    torch.manual_seed(0)
    hf.MarianMTModel(config).save_pretrained(tmp_path)
    capsys.readouterr()

    def parts(text):
        (tmp_path / "text").write_text(text, encoding="utf-8")
        code, said, complained = run(
            "coverage", str(tmp_path), "--text", str(tmp_path / "text"), "--json"
        )
        assert code == 0
        (found,) = json.loads(said)
        shares = [part["share"] for part in found["parts"]]
        return found["unit"], [part["text"] for part in found["parts"]], shares, complained

    unit, texts, shares, complained = parts("市议会关闭旧桥。渡轮开始运行。")
    assert (unit, texts) == ("sentences", ["市议会关闭旧桥。", "渡轮开始运行。"])
    assert None not in shares
    assert not complained
    unit, texts, shares, complained = parts("市议会关闭旧桥。")
    assert (unit, texts) == ("words", ["市", "议会", "关闭", "旧", "桥。"])
    assert None not in shares
    assert not complained
    *_, complained = parts("长说旧桥运行。")
    assert complained.startswith("dwindle: 2 of the 6 words of this text are not in the vocabulary")
    assert "(长, 说)" in complained


def test_coverage_does_not_wait_in_silence(run, model, monkeypatch):
    terminal = io.StringIO(TEXT)
    terminal.isatty = lambda: True
    monkeypatch.setattr("sys.stdin", terminal)
    code, _, complained = run("coverage", model, "--json")
    assert code == 0
    assert "paste the text" in complained


@pytest.mark.parametrize("verb", [("coverage", "MODEL", "--text"), ("recipes", "check")])
def test_a_text_in_another_encoding_is_named_by_file_and_line(run, model, tmp_path, verb):
    file = tmp_path / "bad.yaml"
    file.write_bytes(b"good: 1\nbad: \xff\n")
    code, _, complained = run(*(model if word == "MODEL" else word for word in verb), str(file))
    assert code == 2
    assert "bad.yaml, line 2 is not UTF-8" in complained
    assert complained.count("\n") == 1


def test_the_sample_is_an_article(run):
    code, said, _ = run("data", "sample")
    assert code == 0
    assert len(said.splitlines()) > 8


def test_coverage_says_what_is_wrong_in_one_sentence(run, model, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(" \n"))
    for arguments in (
        [model],
        [str(tmp_path), "--text", __file__],
        [model, "--text", "none"],
        [model, "--rule", "x", "--text", __file__],
    ):
        code, _, complained = run("coverage", *arguments)
        assert code == 2
        assert complained.startswith("dwindle: ")
        assert complained.count("\n") == 1


def test_a_report_of_line_aligned_files(run, tmp_path):
    """The same options as ``score``; a system is named after its file, and the task is told from
    the texts."""
    source, reference, output = tmp_path / "test.en", tmp_path / "test.fr", tmp_path / "ours.txt"
    source.write_text("the ferry was late today\nit rained again on monday\n")
    reference.write_text("le bac avait du retard\nil pleuvait encore lundi\n")
    output.write_text("le bac avait du retard\nil pleuvait lundi\n")
    files = ("--hyp", str(output), "--ref", str(reference), "--src", str(source))
    code, _, complained = run("report", *files, "--out", str(tmp_path / "r.html"))
    assert (code, complained) == (0, "")
    text = (tmp_path / "r.html").read_text()
    assert "<h1>ours</h1>" in text
    assert '<th scope="col">BLEU</th>' in text
    code, _, _ = run("report", *files, "--task", "text", "--out", str(tmp_path / "r.html"))
    assert '<th scope="col">ROUGE-1</th>' in (tmp_path / "r.html").read_text()
    for more in (("--task", "poem"), (str(folders.plain(tmp_path / "a.jsonl")),)):
        code, _, complained = run("report", *files, *more)
        assert code == 2
        assert complained.count("\n") == 1


def test_nothing_is_written_over_what_is_read(run, model, tmp_path):
    outputs, text = folders.plain(tmp_path / "a.jsonl", 1), tmp_path / "text"
    text.write_text(TEXT)
    before = outputs.read_bytes()
    page = str(tmp_path / "r.html")
    for arguments in (
        ["report", str(outputs), "--out", str(outputs)],
        ["report", str(outputs), "--out", page, "--md", str(outputs)],
        ["report", str(outputs), "--out", page, "--latex", str(outputs)],
        ["coverage", model, "--text", str(text), "--out", str(text)],
    ):
        code, _, complained = run(*arguments)
        assert code == 2
        assert "is read as well: give what is written a name of its own" in complained
    assert outputs.read_bytes() == before
    assert text.read_text() == TEXT
