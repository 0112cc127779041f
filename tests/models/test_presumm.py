"""PreSumm's decoder: what generate() and a rule do on it. Its equations are compared in
tests/checkpoints."""

import pytest
import torch

from dwindle.attaching.find import cross_attention
from dwindle.attaching.handle import handle_of
from tests.models.library_kit import PAIRS, built, spread


@pytest.fixture(scope="module")
def presumm():
    model, codec = built("bertsum", rule="dydim:log,power(0.5)")
    spread(model)
    return model.eval(), codec.collate([codec.encode(source) for source, _ in PAIRS[:3]])


def test_the_rule_is_in_the_last_layer(presumm):
    model, _ = presumm
    assert [found.path for found in cross_attention(model)] == ["registry"] * 2
    assert handle_of(model).layers == [1]


@pytest.mark.parametrize("beams", [1, 3])
def test_with_and_without_a_cache(presumm, beams):
    model, batch = presumm
    how = {"num_beams": beams, "max_new_tokens": 12, "min_new_tokens": 6}
    torch.testing.assert_close(
        model.generate(**batch, **how, use_cache=False),
        model.generate(**batch, **how, use_cache=True),
    )


def test_segments_reach_the_encoder(presumm):
    model, batch = presumm
    read = torch.tensor([[1, 5], [1, 6], [1, 7]])
    with_segments = model(**batch, decoder_input_ids=read).logits
    without = model(
        **{**batch, "token_type_ids": torch.zeros_like(batch["input_ids"])}, decoder_input_ids=read
    ).logits
    assert not torch.allclose(with_segments, without, atol=1e-3)


def test_every_weight_is_trained(presumm):
    """No parameter is left without a gradient: what is not used is not there."""
    model, batch = presumm
    model(
        **batch, decoder_input_ids=torch.tensor([[1, 5], [1, 6], [1, 7]])
    ).logits.square().sum().backward()
    assert [
        name for name, p in model.named_parameters() if p.requires_grad and p.grad is None
    ] == []
