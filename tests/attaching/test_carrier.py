"""Every kind of model says which rule it carries, takes another one, and says what it attended
to."""

import pytest
import torch

import dwindle
from dwindle.attaching.carrier import Carrier, carrier_of
from dwindle.core.rules import Plain
from dwindle.models.pointer_generator.config import PointerGeneratorConfig
from dwindle.models.pointer_generator.model import PointerGenerator
from dwindle.models.top_down import TopDown, TopDownConfig
from tests.attaching.small import bart, source, target

SMALL = {"vocab_size": 20, "hidden_size": 4, "embedding_size": 4}


@pytest.mark.parametrize(
    "build",
    [
        lambda: PointerGenerator(PointerGeneratorConfig(**SMALL)),
        lambda: TopDown(TopDownConfig(**SMALL, attention_size=4, feature_size=6)),
    ],
)
def test_a_rule_that_is_built_in(build):
    model = build()
    assert isinstance(model, Carrier)
    assert carrier_of(model) is model
    assert isinstance(model.rule, Plain)
    model.set_rule("dim:log")
    assert str(model.rule) == model.config.rule == "dim:log"


def test_a_rule_that_is_attached():
    model = bart()
    assert not isinstance(model, Carrier)
    carrier = carrier_of(model, layers=2)
    assert isinstance(carrier, Carrier)
    assert carrier.rule is None
    carrier.set_rule("dim:log")
    assert str(carrier.rule) == "dim:log"
    assert dwindle.handle_of(model).layers == [1, 2]
    found = carrier.attended(source(), torch.cat([torch.full((2, 1), 2), target(4)], dim=1))
    assert found.attention.shape == (2, 2, 4, 9)
    carrier.set_rule("plain")
    assert carrier.rule is dwindle.handle_of(model) is None


def test_the_handle_inside_a_wrapper():
    model = bart()
    wrapped = torch.nn.ModuleDict({"inner": model})
    assert dwindle.handle_of(wrapped) is None
    handle = dwindle.attach(model, "dim:log")
    assert dwindle.handle_of(wrapped) is dwindle.handle_of(model) is handle
