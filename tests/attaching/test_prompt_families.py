"""A rule in the prompt of decoder-only models: what holds for every family."""

import copy

import pytest
import torch
from transformers import StaticCache

import dwindle
from tests.attaching.prompts import (
    EAGER,
    FAMILIES,
    OTHERS,
    RULE,
    TOKENS,
    batch,
    close,
    configs,
    families,
    made,
    stepped,
)


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


@families
def test_identity_changes_nothing(family: str) -> None:
    model, (ids, mask) = made(family), batch()
    plain = model(ids).logits
    dwindle.attach(model, "dim:identity", source="prompt")
    with dwindle.source_span(model, mask):
        close(model(ids, use_cache=False).logits, plain, EAGER)
        close(stepped(model, ids, [6, 1, 1, 6]), plain, EAGER)


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_all_at_once_is_step_by_step_is_in_pieces(family: str, implementation: str) -> None:
    if (family, implementation) == ("Gemma2", "sdpa"):
        implementation = "eager"  # the library has no soft cap in sdpa
    model, (ids, mask) = made(family, attn_implementation=implementation), batch()
    plain = model(ids).logits
    dwindle.attach(model, RULE, source="prompt")
    with dwindle.source_span(model, mask):
        logits = model(ids, use_cache=False).logits
        close(stepped(model, ids, [1] * TOKENS), logits)
        close(stepped(model, ids, [3, 4, 5, 2]), logits)
        close(stepped(model, ids, [TOKENS]), logits)
        close(
            stepped(model, ids, [8, 1, 5], StaticCache(config=model.config, max_cache_len=20)),
            logits,
        )
    for i, row in enumerate(mask):
        last = int(row.nonzero().max())
        close(logits[i, : last + 1], plain[i, : last + 1], EAGER)  # the prompt is as it was
        # and what follows is not
        assert (logits[i, last + 1 :] - plain[i, last + 1 :]).abs().amax(-1).min() > 1e-4


@families
def test_generating_with_a_cache_is_without(family: str) -> None:
    model, (ids, mask) = made(family), batch()
    ids, mask = ids[:, :10], mask[:, :10]
    settings = {"max_new_tokens": 8, "do_sample": False}
    before = model.generate(ids, **settings)
    dwindle.attach(model, RULE, source="prompt")
    with dwindle.source_span(model, mask):
        greedy = model.generate(ids, **settings)
        assert not torch.equal(greedy, before)
        assert torch.equal(model.generate(ids, use_cache=False, **settings), greedy)
        assert torch.equal(model.generate(ids, cache_implementation="static", **settings), greedy)
        assert torch.equal(model.generate(ids, prefill_chunk_size=4, **settings), greedy)
        beams = model.generate(ids, num_beams=4, **settings)
        assert torch.equal(model.generate(ids, num_beams=4, use_cache=False, **settings), beams)


@families
def test_left_padding_changes_nothing(family: str) -> None:
    # In float64 the library's own eager attention turns padding into NaN.
    model = made(family, torch.float32 if family == "Gemma2" else torch.float64)
    ids, mask = batch()
    dwindle.attach(model, RULE + "+renormalise", source="prompt", layers=2)
    padded = torch.cat([torch.zeros(2, 3, dtype=torch.long), ids], dim=1)
    real = (torch.arange(TOKENS + 3) >= 3).long().expand(2, -1)
    wider = torch.cat([torch.zeros(2, 3, dtype=torch.bool), mask], dim=1)
    settings = {"max_new_tokens": 6, "do_sample": False, "num_beams": 2}
    with dwindle.source_span(model, mask):
        wanted = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
    for more in ({}, {"cache_implementation": "static"}, {"use_cache": False}):
        with dwindle.source_span(model, wider):
            written = model.generate(padded, attention_mask=real, **settings, **more)
        assert torch.equal(written[:, 3:], wanted)


@families
def test_saved_and_loaded_with_the_rule(family: str, tmp_path) -> None:
    model, (ids, mask) = made(family, torch.float32), batch()
    dwindle.attach(model, RULE, source="prompt", layers=2)
    model.save_pretrained(tmp_path)
    loaded = dwindle.from_pretrained(tmp_path)
    assert dwindle.handle_of(loaded).settings.as_dict() == {
        "rule": RULE,
        "layers": [1, 2],
        "source": "prompt",
    }
    with dwindle.source_span(model, mask), dwindle.source_span(loaded, mask):
        assert torch.equal(loaded(ids).logits, model(ids).logits)


@families
def test_detached_without_a_trace(family: str) -> None:
    model, (ids, mask) = made(family), batch()
    before, plain = copy.deepcopy(model.__dict__), model(ids).logits
    had = configs(model)
    with dwindle.attach(model, RULE, source="prompt"), dwindle.source_span(model, mask):
        assert not torch.equal(model(ids).logits, plain)
    assert torch.equal(model(ids).logits, plain)
    assert model.__dict__.keys() == before.keys()
    assert model.config.to_dict() == before["config"].to_dict()
    assert all(a is b for a, b in zip(had, configs(model), strict=True))
