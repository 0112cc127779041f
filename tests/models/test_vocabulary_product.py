"""Products with a vocabulary against the plain one."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from dwindle.generation.generate import generate
from dwindle.generation.settings import DecodingSettings
from dwindle.models import vocabulary_product
from dwindle.models.vocabulary_product import Wide, product, widened
from tests.generation import slow

V, H = 2**13, 2**7
OP = pytest.mark.skipif(
    not hasattr(torch.ops.mkldnn, "_linear_pointwise"), reason="this torch has no oneDNN operator"
)


def drawn(*rows, dtype=torch.float32):
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(shape, generator=generator).to(dtype) for shape in ((*rows, H), (V, H), (V,))
    ]


@OP
@pytest.mark.parametrize("rows", [(1,), (7,), (3, 5), (2, 1)])
@pytest.mark.parametrize("biased", [True, False])
def test_scores_are_those_of_the_plain_product(rows, biased):
    x, weight, bias = drawn(*rows)
    given = bias if biased else None
    assert vocabulary_product._by_onednn(x, weight)
    torch.testing.assert_close(
        product(x, weight, given), F.linear(x, weight, given), rtol=1e-5, atol=1e-4
    )
    turned = x.mT.contiguous().mT if x.dim() > 1 else x
    torch.testing.assert_close(
        product(turned, weight, given), F.linear(x, weight, given), rtol=1e-5, atol=1e-4
    )


@OP
def test_a_turned_matrix_is_taken_as_it_lies():
    x, weight, _ = drawn(7)
    scores = x @ weight.mT
    assert vocabulary_product._by_onednn(scores, weight.mT)
    torch.testing.assert_close(product(scores, weight.mT), scores @ weight, rtol=1e-4, atol=0.1)


def test_what_it_cannot_take_is_the_plain_product():
    x, weight, bias = drawn(4)
    layer = nn.Parameter(weight)
    assert not vocabulary_product._by_onednn(x, layer)  # it learns
    assert not vocabulary_product._by_onednn(x.double(), weight.double())
    assert not vocabulary_product._by_onednn(x[:0], weight)
    assert not vocabulary_product._by_onednn(x, weight[:10])
    with torch.autocast("cpu", torch.bfloat16):
        assert not vocabulary_product._by_onednn(x, weight)
        assert product(x, weight, bias).dtype == torch.bfloat16
    product(x, layer, bias).sum().backward()
    torch.testing.assert_close(layer.grad, x.sum(0).expand(V, H))


@OP
def test_a_layer_is_a_linear_layer():
    x, weight, bias = drawn(4)
    layer, plain = Wide(H, V), nn.Linear(H, V)
    for one in (layer, plain):
        one.load_state_dict({"weight": weight, "bias": bias})
    torch.testing.assert_close(layer(x), plain(x))
    with torch.no_grad():
        assert vocabulary_product._by_onednn(x, layer.weight)
        torch.testing.assert_close(layer(x), plain(x), rtol=1e-5, atol=1e-4)


@OP
def test_a_library_model_is_widened_for_a_while():
    model, batch, kinds = slow.model(), slow.batch(), []
    model.resize_token_embeddings(V * 8)
    model.lm_head.register_forward_hook(lambda head, _, scores: kinds.append(type(head)))
    read = {**batch, "decoder_input_ids": torch.tensor([[2, 5]] * 4)}
    with torch.no_grad():
        plain = model(**read).logits
        with widened(model):
            assert vocabulary_product._by_onednn(plain[..., :16], model.lm_head.weight)
            torch.testing.assert_close(model(**read).logits, plain, rtol=1e-5, atol=1e-4)
    assert kinds == [nn.Linear, Wide]
    generate(model, batch, DecodingSettings(beams=2, max_length=3))
    assert set(kinds[2:]) == {Wide}
    assert type(model.lm_head) is nn.Linear


@OP
def test_every_layer_of_a_library_model_is_widened_where_there_is_much_to_do(monkeypatch):
    """An audit's pass over many rows: the numbers of the plain pass, by oneDNN."""
    monkeypatch.setattr(vocabulary_product, "_MUCH", 0)
    model, batch, taken = slow.model(), slow.batch(), []
    by = vocabulary_product._by_onednn
    monkeypatch.setattr(
        vocabulary_product, "_by_onednn", lambda x, w: taken.append(by(x, w)) or taken[-1]
    )
    read = {**batch, "decoder_input_ids": torch.tensor([[2, 5]] * 4)}
    linear = [layer for layer in model.modules() if type(layer) is nn.Linear]
    with torch.inference_mode():
        plain = model(**read).logits
        assert not taken
        with widened(model, every=True), widened(model):
            torch.testing.assert_close(model(**read).logits, plain, rtol=1e-5, atol=1e-5)
    assert len(taken) >= len(linear)
    assert all(taken)
    assert {type(layer) for layer in linear} == {nn.Linear}


def test_it_is_narrow_again_after_an_error():
    model = slow.model()
    with pytest.raises(IndexError), widened(model):
        model(**slow.batch(), decoder_input_ids=torch.full((4, 1), slow.WORDS))
    assert type(model.lm_head) is nn.Linear
