"""Traces of small real models: their rows are what the model attended to, their words are what it
wrote."""

import numpy as np
import pytest
import torch

from dwindle.attaching.carrier import attended
from dwindle.cli.coverage import look
from dwindle.data.example import Example
from dwindle.generation import tracing
from dwindle.generation.generate import generate
from dwindle.generation.settings import DecodingSettings
from dwindle.models import build
from dwindle.models.settings import ModelSettings

TEXT = "The mayor closed a bridge .\nChildren went by ferry .\nShips waited ."
SETTINGS = DecodingSettings(beams=2, max_length=9)


def made(kind, **more):
    """A small model that was never trained: what it writes is noise, and that is enough here."""
    words = {"pointer-generator": 40, "bart": 290}[kind]
    settings = ModelSettings(
        kind=kind, size="tiny", vocabulary=words, source_length=40, target_length=20, **more
    )
    return build.build(settings, lambda: iter([(TEXT, TEXT)] * 3), seed=1)


@pytest.fixture(scope="module", params=["pointer-generator", "bart"])
def both(request):
    return made(request.param, rule="dim:boxcox(0.5)")


def test_a_trace_is_what_the_model_attended_to(both):
    model, codec = both
    example = Example("x", TEXT, ("a",))
    one = tracing.trace(model, codec, example, SETTINGS)
    batch = codec.collate([codec.encode(TEXT)])
    sequences = generate(model, batch, SETTINGS)
    record = attended(model, batch, sequences)
    steps = len(one.output)
    assert steps >= 1
    assert np.allclose(one.attention, record.attention[:, 0, :steps].mean(0).numpy())
    assert np.allclose(one.weights.sum(0), record.effective[:, 0].mean(0).numpy(), atol=1e-5)
    assert (one.weights <= one.attention + 1e-6).all()
    assert (
        "".join(one.output).strip()
        == codec.decode(sequences, batch)[0].replace("\ufffd", "").strip()
    )
    assert one.source == codec.source_tokens(TEXT)
    assert [TEXT[at].lower() for at in one.places if at >= 0] == [
        token.strip()[0].lower()
        for token, at in zip(one.source, one.places, strict=True)
        if at >= 0
    ]
    assert sum(at >= 0 for at in one.places) >= len(TEXT.split())


def test_the_first_few_that_can_be_read(both):
    model, codec = both
    examples = [Example("empty", " ", ()), *(Example(str(k), TEXT, ()) for k in range(5))]
    assert [one.id for one in tracing.traces(model, codec, examples, SETTINGS, 3)] == [
        "0",
        "1",
        "2",
    ]


def test_look_at_a_run_a_saved_model_and_any_model(tmp_path, both):
    model, codec = both
    build.save(model, codec, tmp_path / "run" / "model")
    [(name, one)] = look(str(tmp_path / "run"), TEXT).items()
    assert name == "run (dim:boxcox(0.5))"
    assert (
        look(str(tmp_path / "run" / "model"), TEXT)["model (dim:boxcox(0.5))"].output == one.output
    )


def test_look_at_a_model_of_the_library_and_at_it_with_a_rule(tmp_path):
    model, codec = made("bart")
    model.save_pretrained(tmp_path / "plain")
    codec.tokenizer.save_pretrained(tmp_path / "plain")
    with pytest.warns(UserWarning, match="was not trained with"):
        found = look(str(tmp_path / "plain"), TEXT, "dim:log")
    plain, ruled = found.values()
    assert list(found) == ["plain", "plain with dim:log"]
    assert torch.allclose(torch.tensor(plain.attention), torch.tensor(plain.weights))
    assert ruled.weights.sum() < ruled.attention.sum()
    assert "\n" not in "".join(plain.source)
    lines = [TEXT[:at].count("\n") for at in plain.places if at >= 0]
    assert sorted(set(lines)) == [0, 1, 2]


def test_what_cannot_be_looked_at_in_one_sentence(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"has no config\.json"):
        look(str(tmp_path / "empty"), TEXT)
    with pytest.raises(ValueError, match=r"there is no .*none: name the folder"):
        look(str(tmp_path / "none"), TEXT)
