"""Every kind of text model of a recipe: the search with penalties, and decoding that goes on after
loading."""

import json

import pytest
import torch

from dwindle.data.example import Example
from dwindle.generation.decode import decode
from dwindle.generation.generate import generate
from dwindle.generation.settings import DecodingSettings
from dwindle.models.build import build, load, save
from dwindle.models.settings import ModelSettings
from tests.generation import slow

PAIRS = [
    ("the cat sat on the mat\nit was red", "a cat sat"),
    ("dogs run far away from cats", "dogs run"),
] * 4
EXAMPLES = [Example(f"e{i}", source, (target,)) for i, (source, target) in enumerate(PAIRS[:2])]
EXAMPLES += [
    Example("long", "a red dog sat on the mat " * 9, ("a dog",)),
    Example("short", "run", ("far",)),
]
SETTINGS = DecodingSettings(
    beams=3, max_length=8, min_length=3, batch_size=2, coverage_penalty="gehrmann", beta=0.5
)
KINDS = ("transformer", "bertsum", "bart", "pointer-generator")


def made(kind):
    given = ModelSettings(kind=kind, size="tiny", vocabulary=300, source_length=40)
    model, codec = build(given, lambda: PAIRS, seed=0)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1 and "embed" not in name:
                weight.mul_(6)  # sharp attention
    return model.eval(), codec


@pytest.mark.parametrize("kind", KINDS[:3])
def test_equals_the_slow_twin(kind):
    """Coverage is that of the layers a rule would have, and beams are searched by it."""
    model, codec = made(kind)
    model.set_attn_implementation("eager")  # the twin asks for the attentions of all layers
    batch = codec.collate([codec.encode(e.input) for e in EXAMPLES])
    settings = DecodingSettings(beams=3, max_length=5, coverage_penalty="gehrmann", beta=20.0)
    start = model.generation_config.decoder_start_token_id
    end = model.generation_config.eos_token_id
    layers = {"transformer": 1, "bertsum": 1, "bart": 7}[kind]
    for row, e in zip(generate(model, batch, settings).tolist(), EXAMPLES, strict=True):
        one = codec.collate([codec.encode(e.input)])

        def look(hypotheses, one=one):
            sources = {k: v.expand(len(hypotheses), -1) for k, v in one.items()}
            out = model(
                **sources, decoder_input_ids=torch.tensor(hypotheses), output_attentions=True
            )
            return out.logits[:, -1], torch.stack(out.cross_attentions[-layers:]).sum(3).mean(
                (0, 2)
            )

        expected = slow.best(look, settings, start, end)
        assert row[: len(expected)] == expected


@pytest.mark.parametrize("kind", KINDS)
def test_a_loaded_model_goes_on(kind, tmp_path):
    """Half is decoded by the model that was built, the rest by the same one from its folder:
    nothing is done twice."""
    model, codec = made(kind)
    save(model, codec, tmp_path / "model")

    def stop(done):
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        decode(model, codec, EXAMPLES, SETTINGS, tmp_path / "run", stop)
    told = []
    summary = decode(*load(tmp_path / "model"), EXAMPLES, SETTINGS, tmp_path / "run", told.append)
    assert told == [2, 2]
    assert (summary.items, summary.truncated) == (4, 1)
    assert (
        decode(model, codec, EXAMPLES, SETTINGS, tmp_path / "whole").fingerprint
        == summary.fingerprint
    )
    outputs = [(tmp_path / name / "outputs.jsonl").read_text() for name in ("run", "whole")]
    assert outputs[0] == outputs[1]
    assert all(json.loads(line)["hypothesis"] for line in outputs[0].splitlines())
