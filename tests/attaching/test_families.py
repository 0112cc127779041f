"""The family matrix: every row of the support table, with one tiny model, through every check the
row names.

The slow twin of each model is itself: without a cache, all rows in one call. The table is that of
the newest release (``KNOWN``). Where an older one lacks a family, or fails a check without a rule
too, the check is skipped.
"""

import functools
from collections.abc import Callable

import pytest
import torch
import transformers as hf
from torch import Tensor

import dwindle
from dwindle.attaching.cache import CoveredLayer
from dwindle.attaching.families import FAMILIES, Family
from dwindle.attaching.library import KNOWN
from tests.attaching import tiny
from tests.attaching.makers import DECODER, FUSED, bert, pair
from tests.attaching.zoo import ZOO

RULE = "dydim:log,power(0.5)"
TINY = {each.name: each for each in ZOO}
CUTS = [(1,) * tiny.T, (3, 1, 3)]
BEAMS = [pytest.param(1, id="greedy"), pytest.param(4, id="beam-4")]


OLDER = hf.__version__ != KNOWN


def known(family: Family) -> bool:
    return hasattr(hf, family.model) or not OLDER


def listed(families: list[Family]) -> pytest.MarkDecorator:
    """One test for each family, by name."""
    return pytest.mark.parametrize(
        "name",
        [
            pytest.param(
                f.name,
                marks=pytest.mark.skipif(not known(f), reason="this release has no such model"),
            )
            for f in families
        ],
    )


def rows_that_check(check: str) -> pytest.MarkDecorator:
    return listed([f for f in FAMILIES if check in f.checked])


def skip_if_an_older_release_fails(check: Callable[[], bool]) -> None:
    """Skip where an older release fails ``check``, which is done without a rule."""
    if OLDER:
        try:
            passed = check()
        except RuntimeError:
            passed = False
        if not passed:
            pytest.skip("this release cannot do it without a rule")


@functools.cache
def untouched(name: str) -> Tensor:
    return TINY[name].logits(TINY[name].build())


def attached(name: str, rule: str = RULE):
    model = TINY[name].build()
    dwindle.attach(model, rule)
    return model


def close(a: Tensor, b: Tensor, parts: float) -> None:
    """Equal up to these parts of the largest logit."""
    torch.testing.assert_close(a, b, rtol=0, atol=parts * float(b.abs().max()))


def same(a: tuple[Tensor, Tensor], b: tuple[Tensor, Tensor]) -> bool:
    """Equal tokens, and equal scores of every beam at every step."""
    return torch.equal(a[0], b[0]) and torch.allclose(a[1], b[1], rtol=0, atol=1e-4)


def test_rows_and_models_are_the_same_families():
    assert [f.name for f in FAMILIES] == list(TINY)
    for family in filter(known, FAMILIES):
        model = TINY[family.name].build()
        assert type(model).__name__ == family.model
        assert family.model_type in {getattr(m.config, "model_type", "") for m in configured(model)}


def configured(model):
    return [m for m in model.modules() if hasattr(m, "config")]


@rows_that_check("identity")
def test_identity_is_the_untouched_model(name):
    close(TINY[name].logits(attached(name, "dim:identity")), untouched(name), 2e-6)


@rows_that_check("rows")
def test_at_once_step_by_step_and_in_chunks(name):
    family, model = TINY[name], attached(name)
    skip_if_an_older_release_fails(
        lambda: all(family.logits(family.build(), cuts) is not None for cuts in CUTS)
    )
    at_once = family.logits(model)
    assert (at_once - untouched(name)).abs().max() > 1e-2, (
        "the rule changed nothing: this proves nothing"
    )
    for cuts in CUTS:
        close(family.logits(model, cuts), at_once, 1e-5)


@rows_that_check("generate")
@pytest.mark.parametrize("beams", BEAMS)
def test_generate_needs_no_cache(name, beams):
    family, model = TINY[name], attached(name)
    assert same(
        family.generated(model, beams, cache=True), family.generated(model, beams, cache=False)
    )


@rows_that_check("generate")
def test_identity_generates_as_the_untouched_model(name):
    family = TINY[name]
    model = family.build()
    plain = family.generated(model, 4, cache=True)
    dwindle.attach(model, "dim:identity")
    assert same(family.generated(model, 4, cache=True), plain)


@rows_that_check("generate")
def test_control_without_reordering_beams_go_wrong(name, monkeypatch):
    def keys_only(layer: CoveredLayer, beams: Tensor) -> None:
        super(CoveredLayer, layer).reorder_cache(beams)

    family, model = TINY[name], attached(name)
    right = family.generated(model, 4, cache=False)
    monkeypatch.setattr(CoveredLayer, "reorder_cache", keys_only)
    assert not same(family.generated(model, 4, cache=True), right)


@rows_that_check("save")
def test_saved_and_loaded(name, tmp_path):
    family, model = TINY[name], attached(name)
    # a joined model
    more = {"attn_implementation": "eager"} if FUSED and hasattr(model, "decoder") else {}

    def library_keeps_every_weight() -> bool:
        family.build().save_pretrained(tmp_path)
        return torch.equal(
            family.logits(family.auto.from_pretrained(tmp_path, **more).eval()), untouched(name)
        )

    skip_if_an_older_release_fails(library_keeps_every_weight)
    expected = family.logits(model)
    model.save_pretrained(tmp_path)
    loaded = dwindle.from_pretrained(tmp_path, family.auto, **more)
    assert type(loaded) is type(model)
    assert torch.equal(family.logits(loaded.eval()), expected)


@rows_that_check("detach")
def test_detached(name):
    family = TINY[name]
    model = family.build()
    configs, keys = [id(m.config) for m in configured(model)], list(model.state_dict())
    before = model.config.to_dict()
    dwindle.attach(model, RULE)
    family.logits(model)
    dwindle.detach(model)
    assert list(model.state_dict()) == keys
    assert torch.equal(family.logits(model), untouched(name))
    assert [id(m.config) for m in configured(model)] == configs
    assert model.config.to_dict() == before


@pytest.mark.skipif(OLDER, reason="the table names the path of the newest release")
@listed([f for f in FAMILIES if f.path != "refused"])
def test_path(name):
    """The row names the path that ``attach`` takes."""
    handle = dwindle.attach(TINY[name].build(), RULE)
    path = next(f.path for f in FAMILIES if f.name == name)
    assert path in str(handle)
    assert {"registry": "hand-written", "hand-written": "registry"}[path] not in str(handle)


@listed([f for f in FAMILIES if f.path == "refused"])
def test_refused(name):
    model = TINY[name].build()
    before = list(model.__dict__)
    with pytest.raises(ValueError, match=next(f.remark for f in FAMILIES if f.name == name)):
        dwindle.attach(model, RULE)
    assert list(model.__dict__) == before


def test_a_refused_decoder_may_still_encode():
    model = pair(bert(hf.BigBirdConfig, attention_type="original_full"), bert(**DECODER))()
    assert len(dwindle.attach(model, RULE).attached) == 2
