"""``dwindle inspect`` and ``dwindle bench model`` as a user types them."""

import json

import pytest
import transformers as hf

import dwindle
from dwindle.bench import model as bench
from dwindle.models.pointer_generator.config import PointerGeneratorConfig
from dwindle.models.pointer_generator.model import PointerGenerator

SHAPE = {
    f"{side}_{k}": n for side in ("encoder", "decoder") for k, n in (("layers", 2), ("ffn_dim", 8))
}
HEADS = {"encoder_attention_heads": 2, "decoder_attention_heads": 2}


@pytest.fixture
def model():
    return hf.BartForConditionalGeneration(
        hf.BartConfig(vocab_size=20, d_model=8, **SHAPE, **HEADS)
    )


def test_inspect(run, model, tmp_path):
    dwindle.attach(model, "dydim:log,power(0.5)", layers=1)
    model.save_pretrained(tmp_path)
    code, out, _ = run("inspect", str(tmp_path))
    assert code == 0
    assert "BartForConditionalGeneration" in out
    assert "dydim:log,power(0.5)" in out
    assert "dwindle.from_pretrained" in out
    code, out, _ = run("inspect", str(tmp_path), "--json")
    assert json.loads(out)["dwindle"] == {"rule": "dydim:log,power(0.5)", "layers": [1]}


def test_inspect_a_rule_that_is_built_in(run, tmp_path):
    config = PointerGeneratorConfig(vocab_size=20, hidden_size=4, embedding_size=4, rule="dim:log")
    PointerGenerator(config).save_pretrained(tmp_path)
    code, out, _ = run("inspect", str(tmp_path))
    assert code == 0
    assert "dim:log (built in)" in out
    assert "untouched" not in out
    found = json.loads(run("inspect", str(tmp_path), "--json")[1])
    assert (found["rule"], found["dwindle"]) == ("dim:log", None)


def test_inspect_without_a_rule(run, model, tmp_path):
    model.save_pretrained(tmp_path)
    assert "no rule" in run("inspect", str(tmp_path))[1]
    assert json.loads(run("inspect", str(tmp_path), "--json")[1])["dwindle"] is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["inspect", "/nowhere"], "has no config.json"),
        (["bench", "model", "--config", "bart"], "choose one of bart-base, bart-large, marian-big"),
        (
            ["bench", "model", "--part", "speed"],
            "choose from step, step-added, generate, generate-added, memory",
        ),
        (["bench", "model", "--source", "2000"], "see 'dwindle bench model --help'"),
    ],
)
def test_errors_are_one_sentence_and_exit_2(run, arguments, said):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


def test_bench_model(run, monkeypatch):
    figures = {
        "step": {"seconds": 2.5, "attached": 1.01, "control": 0.99, "rounds": 3},
        "step-added": {
            "seconds": 5.0,
            "untouched": 0.02,
            "attached": 0.025,
            "added": 0.005,
            "control": 0.0001,
            "rounds": 3,
        },
        "memory": {"megabytes": 2000.0, "attached": 1.002, "control": 1.0},
    }
    monkeypatch.setattr(bench, "bench", lambda what, seconds, parts: figures)
    code, out, _ = run("bench", "model", "--config", "bart-large")
    assert code == 0
    assert all(
        x in out
        for x in ("random weights", "last 7 layers", "x 1.010", "x 0.990", "+0.50%", "2000 MB")
    )
    found = json.loads(run("bench", "model", "--json", "--layers", "3")[1])
    assert found["setting"]["layers"] == 3
    assert found["step"] == figures["step"]
    assert found["machine"]["torch"]
