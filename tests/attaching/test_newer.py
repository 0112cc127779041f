"""The self-check of releases that no test has seen: it passes here, and finds each way of being
wrong."""

import pytest
import torch

import dwindle
from dwindle.attaching import library, newer
from dwindle.attaching.cache import CoveredLayer
from dwindle.attaching.cross import CrossAttention
from tests.attaching.prompts import made
from tests.attaching.small import RULE, bart

MODELS = {"attach": (bart, None), "attach to a prompt": (lambda: made("Llama"), "prompt")}


@pytest.fixture(autouse=True)
def _newer_than_known(monkeypatch):
    monkeypatch.setattr(newer, "KNOWN", "1.0")
    monkeypatch.setattr(newer, "_tried", set())


@pytest.mark.parametrize("what", MODELS)
def test_it_runs_once_and_leaves_the_random_numbers_alone(what, monkeypatch):
    make, source = MODELS[what]
    model, ran = make(), []
    name = "cross_attention" if source is None else "prompt"
    trial = getattr(newer, name)
    monkeypatch.setattr(newer, name, lambda *given: ran.append(name) or trial(*given))
    before = torch.get_rng_state()
    for _ in range(2):
        dwindle.attach(model, "dim:log", source=source)
    assert ran == [name]
    assert torch.equal(torch.get_rng_state(), before)


def test_it_does_not_run_for_a_release_that_was_tested(monkeypatch):
    monkeypatch.setattr(newer, "KNOWN", library.transformers.__version__)
    monkeypatch.setattr(newer, "cross_attention", pytest.fail)
    dwindle.attach(bart(), RULE)


def leave_in(self):
    """A release in which the config is not all that an attached module has."""


WRONG = {
    "the rule has no effect": (library, "call_instead", lambda module, *_: module.config),
    "rows fed at once and one by one": (CoveredLayer, "_move", lambda *_: None),
    "the model is not what it was": (CrossAttention, "leave", leave_in),
}


@pytest.mark.parametrize("why", WRONG)
def test_what_it_finds(why, monkeypatch):
    owner, name, broken = WRONG[why]
    model = bart()
    monkeypatch.setattr(owner, name, broken)
    found = "was called without its hook" if why == "the model is not what it was" else why
    sentence = (
        rf"cannot attach with .*{found}.* newest release known to work is {library.KNOWN}, pip "
        rf"install"
    )
    for _ in range(2):  # it is not taken for tried
        with pytest.raises(ImportError, match=sentence):
            dwindle.attach(model, RULE)
    assert dwindle.handle_of(model) is None
