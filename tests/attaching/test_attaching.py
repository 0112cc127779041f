"""Where the rule goes, what stays as it was, and that nothing is left behind."""

import copy
import pickle
from collections import Counter

import pytest
import torch
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

import dwindle
from tests.attaching.small import RULE, bart, generated, same, source, t5, target


def logits(model):
    with torch.no_grad():
        return model(**source(), decoder_input_ids=target(), use_cache=False).logits


def state(model):
    """Everything that attaching may touch, by identity where objects must be the same."""
    modules = {
        name: (
            id(m),
            id(getattr(m, "config", None)),
            set(m.__dict__),
            list(m._forward_pre_hooks.items()),
        )
        for name, m in model.named_modules()
    }
    tensors = {name: id(x) for name, x in (*model.named_parameters(), *model.named_buffers())}
    return (
        modules,
        tensors,
        list(model.state_dict()),
        id(model.config),
        copy.deepcopy(model.config.__dict__),
    )


def calls(model) -> Counter:
    """How often a forward pass calls each attention function of the library."""
    counts: Counter = Counter()
    registry = type(ALL_ATTENTION_FUNCTIONS)
    # as modules ask it
    asked = "get_interface" if hasattr(registry, "get_interface") else "__getitem__"
    original = getattr(registry, asked)

    def counted(self, name, *default):
        counts[name] += 1
        return original(self, name, *default)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, asked, counted)
        logits(model)
    return counts


@pytest.mark.parametrize("build", [bart, t5])
@pytest.mark.parametrize("rule", [RULE, "training-free"])
def test_detach_restores_everything(build, rule):
    model = build()
    before, plain = state(model), logits(model)
    handle = dwindle.attach(model, rule, layers=2)
    assert not torch.equal(logits(model), plain)
    generated(model, source(), num_beams=2)
    handle.detach()
    assert state(model) == before
    assert torch.equal(logits(model), plain)


def test_detach_restores_what_the_config_said_before():
    model = bart()
    model.config.dwindle = said = {"rule": "dim:log", "layers": [0]}
    dwindle.attach(model, RULE)
    dwindle.attach(model, "plain")
    dwindle.detach(model)
    assert model.config.dwindle is said


def test_attaching_twice_replaces():
    model, other = bart(), bart()
    before = state(model)
    dwindle.attach(model, "dim:log")
    dwindle.attach(model, RULE, layers=1)
    dwindle.attach(other, RULE, layers=1)
    assert torch.equal(logits(model), logits(other))
    assert dwindle.handle_of(model).settings.as_dict() == {"rule": RULE, "layers": [2]}
    dwindle.detach(model)
    assert state(model) == before
    with pytest.raises(ValueError, match="no rule is attached"):
        dwindle.detach(model)


def test_a_rule_that_is_refused_leaves_the_one_before():
    model = bart()
    dwindle.attach(model, RULE)
    right = logits(model)
    for wrong in (
        {"rule": "dim:lgo"},
        {"rule": "dim:log", "layers": 4},
        {"rule": "dim:log", "modules": ["x"]},
    ):
        with pytest.raises(ValueError, match=r"did you mean|pass 1 to 3|no module"):
            dwindle.attach(model, **wrong)
    assert torch.equal(logits(model), right)


def test_context_manager():
    model = bart()
    plain = logits(model)
    with dwindle.attach(model, RULE) as handle:
        assert "3 layers" in str(handle)
        assert not torch.equal(logits(model), plain)
    assert torch.equal(logits(model), plain)


def test_nested_context_managers():
    """The inner one replaces the outer one, which then has nothing left to take out."""
    model = bart()
    before, plain = state(model), logits(model)
    with dwindle.attach(model, RULE), dwindle.attach(model, "dim:log"):
        inner = logits(model)
    assert state(model) == before
    assert torch.equal(logits(model), plain)
    dwindle.attach(model, "dim:log")
    assert torch.equal(logits(model), inner)


def test_context_manager_ends_on_an_error():
    model = bart()
    before = state(model)
    with pytest.raises(RuntimeError, match="stop"), dwindle.attach(model, RULE):
        raise RuntimeError("stop")
    assert state(model) == before


@pytest.mark.parametrize(
    ("layers", "chosen"),
    [
        (None, [0, 1, 2]),
        (1, [2]),
        (2, [1, 2]),
        ([0], [0]),
        ([-1, 0], [0, 2]),
        (range(1, 3), [1, 2]),
        ([2, 2], [2]),
    ],
)
def test_layers(layers, chosen):
    model = bart()
    handle = dwindle.attach(model, RULE, layers=layers)
    assert handle.layers == handle.settings.layers == chosen
    lines = str(handle).splitlines()
    count = "1 layer" if len(chosen) == 1 else f"{len(chosen)} layers"
    assert lines[0] == f"{RULE} attached to {count} of BartForConditionalGeneration"
    assert [line.split() for line in lines[1:]] == [
        [f"model.decoder.layers.{i}.encoder_attn", "registry"] for i in chosen
    ]


def test_other_layers_keep_their_implementation():
    model = bart()
    assert calls(model) == {"sdpa": 2 + 3 + 3}
    dwindle.attach(model, RULE, layers=2)
    assert calls(model) == {"sdpa": 2 + 3 + 1, "dwindle": 2}
    dwindle.detach(model)
    assert calls(model) == {"sdpa": 8}


def test_the_rule_survives_another_implementation():
    model = bart()
    dwindle.attach(model, RULE, layers=2)
    right = logits(model)
    model.set_attn_implementation("eager")
    found = calls(model)
    assert found.pop("eager", 6) == 6  # older releases do not ask the registry for it
    assert found == {"dwindle": 2}
    torch.testing.assert_close(logits(model), right, rtol=0, atol=1e-4)
    dwindle.detach(model)
    assert set(calls(model)) <= {"eager"}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_identity_is_the_untouched_model(attention):
    model = bart(attention=attention)
    plain = logits(model)
    dwindle.attach(model, "dim:identity")
    torch.testing.assert_close(logits(model), plain, rtol=0, atol=1e-4)


@pytest.mark.parametrize("rule", [RULE, "training-free"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies(copied, rule):
    model = bart()
    plain = logits(model)
    dwindle.attach(model, rule)
    right = generated(model, source(), num_beams=4)
    twin = copied(model)
    assert same(generated(twin, source(), num_beams=4), right)

    dwindle.detach(twin)  # the twin is its own: neither touches the other
    assert torch.equal(logits(twin), plain)
    assert same(generated(model, source(), num_beams=4), right)
    dwindle.detach(model)
    assert torch.equal(logits(model), plain)


def test_a_call_leaves_nothing_of_its_batch_on_the_model():
    model = bart()
    dwindle.attach(model, "training-free")
    size = len(pickle.dumps(model))
    big = source((60,) * 30)
    model(
        **big,
        decoder_input_ids=target(8, 30),
        decoder_attention_mask=torch.ones(30, 8, dtype=torch.long),
    )
    assert len(pickle.dumps(model)) < size + 1000


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_forward_called_directly(attention):
    """Some wrappers call ``model.forward`` past the model's own hooks: the decoder's mask is seen
    all the same."""
    model = t5(attention=attention)
    dwindle.attach(model, RULE)
    mask = torch.tensor([[1] * 7, [0] * 3 + [1] * 4])
    inputs = {
        **source(),
        "decoder_input_ids": target(),
        "decoder_attention_mask": mask,
        "use_cache": False,
    }
    with torch.no_grad():
        right = model(**inputs).logits
        model(**source(), decoder_input_ids=target())  # a call without a mask in between
        torch.testing.assert_close(model.forward(**inputs).logits, right)
        model.forward(**inputs)
        again = model.forward(**source(), decoder_input_ids=target()).logits
        torch.testing.assert_close(again, logits(model), rtol=0, atol=1e-3)


def test_a_backend_by_name():
    """It computes the same, and does not go into the config: another machine may not have it."""
    model, other = bart(), bart()
    dwindle.attach(model, RULE, backend="eager")
    dwindle.attach(other, RULE)
    torch.testing.assert_close(logits(model), logits(other), rtol=0, atol=1e-4)
    assert dwindle.handle_of(model).settings == dwindle.handle_of(other).settings
    dwindle.attach(model, RULE, backend="triton")
    with pytest.raises(ValueError, match="backend 'triton' cannot do this"):
        logits(model)
