"""A rule, and a way of copying, for the time of a search: as if the model had them, and then no
trace of them."""

import copy
from functools import partial

import pytest
import torch

import dwindle
from dwindle.attaching.handle import attach, handle_of
from dwindle.core import reference
from dwindle.generation.decode import decode
from dwindle.generation.generate import generate, prepared
from dwindle.generation.settings import DecodingSettings
from dwindle.models.build import rule_layers
from dwindle.runfiles import arrays, names
from tests.generation import slow
from tests.generation.numbers_codec import Numbers, corpus
from tests.models import pg_kit

RULE = "dim:boxcox(-2)"


def settings(**more):
    return DecodingSettings(beams=3, max_length=12, **more)


@pytest.mark.parametrize("way", ["plain", "renormalised", "alone"])
def test_a_pointer_generator_decodes_as_if_it_had_the_rule(way):
    model, batch = pg_kit.tiny(), pg_kit.sources()
    before = copy.deepcopy(model.config.to_dict())
    switched = generate(model, batch, settings(rule=RULE, copy=way))
    assert model.config.to_dict() == before
    assert str(model.rule) == "plain"
    assert torch.equal(switched, generate(pg_kit.tiny(rule=RULE, copy=way), batch, settings()))
    assert not torch.equal(switched, generate(model, batch, settings()))


def test_a_search_that_fails_leaves_the_model_as_it_was():
    model = pg_kit.tiny(rule="dim:log", copy="renormalised")

    def fail():
        with prepared(model, settings(rule=RULE, copy="plain")):
            assert (str(model.rule), model.config.copy) == (RULE, "plain")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (str(model.rule), model.config.copy) == ("dim:log", "renormalised")


@pytest.mark.parametrize("own", [None, "dim:log"])
def test_a_library_model_decodes_as_if_the_rule_were_attached(own, recwarn):
    model, batch = slow.model(1), slow.batch()
    model.config.name_or_path = "somebody/model"
    if own:
        attach(model, own, layers=[0])
    with torch.no_grad():
        logits = model(**batch, decoder_input_ids=torch.full((4, 3), 5)).logits
    recwarn.clear()
    switched = generate(model, batch, settings(rule=RULE))
    assert not recwarn.list  # that it was not trained with the rule is the point of it
    twin = slow.model(1)
    # where its rule is, or where the paper puts one
    attach(twin, RULE, layers=[0] if own else rule_layers(twin, None))
    assert torch.equal(switched, generate(twin, batch, settings()))
    with torch.no_grad():
        assert torch.equal(logits, model(**batch, decoder_input_ids=torch.full((4, 3), 5)).logits)
    handle = handle_of(model)
    assert (handle and str(handle.rule), handle and handle.layers) == (
        (own, [0]) if own else (None, None)
    )


def test_copying_alone_is_by_the_rule_and_the_context_is_plain():
    """Against the paper's equations as loops, in one call and one by one."""
    alone, plain = pg_kit.tiny(rule=RULE, copy="alone"), pg_kit.tiny()
    batch = pg_kit.sources()
    sequences = torch.tensor([[2, 5, 7, 6, 3], [2, 8, 9, 8, 3], [2, 6, 6, 7, 3]])
    ours, theirs = (m.attended(batch, sequences) for m in (alone, plain))
    # so the context vectors, which are fed back, are plain
    assert torch.equal(ours.attention, theirs.attention)
    expected = reference.rows(partial(reference.dim, dwindle.BoxCox(-2)), ours.attention[0, 0])
    torch.testing.assert_close(ours.weights[0, 0], expected)
    words = pg_kit.read()
    whole = alone(**batch, decoder_input_ids=words).logits
    first = alone(**batch, decoder_input_ids=words[:, :2], use_cache=True)
    rest = alone(
        **batch,
        decoder_input_ids=words[:, 2:],
        past_key_values=first.past_key_values,
        use_cache=True,
    )
    torch.testing.assert_close(torch.cat([first.logits, rest.logits], 1), whole)


def test_what_is_kept_of_a_decoding_is_of_the_rule(tmp_path):
    decode(slow.model(1), Numbers(), corpus(3), settings(rule=RULE), tmp_path)
    for raw, effective in arrays.read_coverage(tmp_path / names.COVERAGE).values():
        assert effective.sum() < raw.sum() - 0.1
        assert (effective < dwindle.BoxCox(-2).limit).all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rule": "dim:boxcox(2)"}, "at most 1"),
        ({"rule": "dim:logg"}, "logg"),
        ({"rule": RULE, "temporal": True}, "takes the place of a rule"),
        ({"copy": "both"}, "choose one of plain, renormalised, alone"),
    ],
)
def test_mistakes_are_said_before_anything_is_decoded(given, said):
    with pytest.raises(ValueError, match=said):
        settings(**given)


def test_what_does_not_copy_says_so():
    with pytest.raises(ValueError, match=r"does not copy: decode it without decoding\.copy"):
        generate(slow.model(1), slow.batch(), settings(copy="plain"))
