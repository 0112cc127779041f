"""Every way to decode gives what decoding without a cache gives: there coverage is counted anew at
each step."""

import copy
import pickle

import pytest
import torch
import transformers as hf
from transformers.cache_utils import DynamicCache, EncoderDecoderCache

import dwindle
from dwindle.attaching.cache import CoveredLayer
from tests.attaching.small import (
    RULE,
    START,
    VOCABULARY,
    bart,
    generated,
    padded,
    same,
    source,
    t5,
    t5_in_double,
    target,
    words,
)

SAMPLING = {"do_sample": True, "top_k": 0, "temperature": 3.0}
WAYS = {
    "greedy": {},
    "sampling": SAMPLING,
    "beams": {"num_beams": 4},
    "beams and sampling": {"num_beams": 4, **SAMPLING},
    "all beams returned": {"num_beams": 4, "num_return_sequences": 4},
    "three samples an item": {"num_return_sequences": 3, **SAMPLING},
}


def attached(rule: str = RULE, **changes) -> hf.BartForConditionalGeneration:
    model = bart(**changes)
    dwindle.attach(model, rule)
    return model


def seeded(model, inputs, **settings):
    torch.manual_seed(3)
    return generated(model, inputs, **settings)


def empty(model) -> EncoderDecoderCache:
    return EncoderDecoderCache(DynamicCache(config=model.config), DynamicCache(config=model.config))


@pytest.mark.parametrize("cache", ["dynamic", "static"])
@pytest.mark.parametrize("way", WAYS)
def test_with_cache_as_without(way, cache):
    model, inputs = attached(), source()
    right = seeded(model, inputs, use_cache=False, **WAYS[way])
    assert same(seeded(model, inputs, cache_implementation=cache, **WAYS[way]), right)
    dwindle.detach(model)
    assert not same(seeded(model, inputs, **WAYS[way]), right), (
        "the rule changed nothing: this proves nothing"
    )


@pytest.mark.parametrize("cache", ["dynamic", "static"])
def test_control_beams_need_the_reorder(cache, monkeypatch):
    model, inputs = attached(), source()
    right = generated(model, inputs, num_beams=4, use_cache=False)
    monkeypatch.setattr(
        CoveredLayer,
        "reorder_cache",
        lambda layer, beams: super(CoveredLayer, layer).reorder_cache(beams),
    )
    assert not same(generated(model, inputs, num_beams=4, cache_implementation=cache), right)


def test_protected_beams_with_cache_as_without():
    model, inputs = attached("training-free"), source()
    right = generated(model, inputs, num_beams=4, use_cache=False)
    assert same(generated(model, inputs, num_beams=4), right)
    dwindle.attach(model, "dim:boxcox(0.5)+renormalise")
    assert not same(generated(model, inputs, num_beams=4), right), "protection changed nothing"


@pytest.mark.parametrize("assistant_rule", [None, RULE])
def test_assisted(assistant_rule, monkeypatch):
    model, assistant, inputs = endless(attached()), endless(bart(decoder_layers=2)), source((9,))
    assistant.generation_config.num_assistant_tokens = 4
    if assistant_rule:
        dwindle.attach(assistant, assistant_rule)
    cropped = crops(monkeypatch)
    drafted = generated(model, inputs, assistant_model=assistant, min_new_tokens=None)
    assert same(drafted, generated(model, inputs, use_cache=False, min_new_tokens=None))
    assert any(cropped), "every draft was accepted: nothing was taken back"


def test_prompt_lookup(monkeypatch):
    model, inputs = endless(attached()), source((9,))
    cropped = crops(monkeypatch)
    lookup = generated(model, inputs, prompt_lookup_num_tokens=4, min_new_tokens=None)
    assert same(lookup, generated(model, inputs, use_cache=False, min_new_tokens=None))
    assert any(cropped)


def endless(model):
    """A model whose end is no token of it: older releases take no least length beside an
    assistant."""
    model.generation_config.eos_token_id = VOCABULARY
    return model


def crops(monkeypatch) -> list[int]:
    """How many tokens each crop of a covered layer takes back."""
    original, seen = CoveredLayer.crop, []
    monkeypatch.setattr(
        CoveredLayer, "crop", lambda layer, n: (seen.append(n), original(layer, n))[1]
    )
    return seen


@pytest.mark.parametrize("beams", [1, 4])
def test_prompt_of_the_decoder(beams):
    model, inputs = attached(), source()
    prompt = torch.cat([torch.full((2, 1), START), target(5)], dim=1)
    ways = [
        generated(model, inputs, decoder_input_ids=prompt, num_beams=beams, use_cache=c)
        for c in (True, False)
    ]
    assert same(*ways)


@pytest.mark.parametrize("cuts", [(1,) * 7, (3, 1, 3), (5, 2)])
def test_chunks_of_the_prompt(cuts):
    model, inputs, rows = attached(), source(), target()
    with torch.no_grad():
        at_once = model(**inputs, decoder_input_ids=rows, use_cache=False).logits
        cache = empty(model)
        pieces = [
            model(**inputs, decoder_input_ids=x, past_key_values=cache).logits
            for x in rows.split(cuts, dim=1)
        ]
    torch.testing.assert_close(
        torch.cat(pieces, dim=1), at_once, rtol=0, atol=1e-5 * float(at_once.abs().max())
    )


@pytest.mark.parametrize("beams", [1, 4])
@pytest.mark.parametrize("rule", [RULE, "training-free"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padded_source_is_the_source_alone(side, rule, beams):
    """T5, because BART's learned positions count padding on the left; float64, for its eager
    attention is noisy."""
    model = t5().double()
    dwindle.attach(model, rule)
    texts = [words(8, 1), words(5, 2)]
    together = generated(model, padded(texts, side), num_beams=beams)
    for row, text in enumerate(texts):
        alone = generated(model, padded([text]), num_beams=beams)
        assert torch.equal(together.sequences[row], alone.sequences[0])
        for a, b in zip(together.scores, alone.scores, strict=True):
            torch.testing.assert_close(a.view(2, beams, -1)[row], b, rtol=0, atol=1e-3)


@pytest.mark.parametrize("cache", ["dynamic", "static", None])
@pytest.mark.parametrize("beams", [1, 4])
def test_prompts_padded_on_the_left_are_the_prompts_alone(beams, cache):
    model = t5_in_double()
    dwindle.attach(model, RULE)
    texts, prompts = [words(8, 1), words(5, 2)], [[START, *words(5, 3)], [START, *words(2, 4)]]
    settings = {
        "num_beams": beams,
        **({"cache_implementation": cache} if cache else {"use_cache": False}),
    }
    together = generated(model, padded(texts) | decoder_prompt(prompts, "left"), **settings)
    for row in range(2):
        alone = generated(
            model, padded(texts[row : row + 1]) | decoder_prompt(prompts[row : row + 1]), **settings
        )
        for a, b in zip(together.scores, alone.scores, strict=True):
            torch.testing.assert_close(a.view(2, beams, -1)[row], b, rtol=0, atol=1e-3)


@pytest.mark.parametrize("build", [bart, t5])
def test_rows_padded_on_the_right_add_nothing(build):
    """Padding on the right comes after every real row, so those rows are what they are alone."""
    model = build()
    dwindle.attach(model, RULE)
    texts, rows = [words(8, 1), words(5, 2)], [[START, *words(5, 3)], [START, *words(2, 4)]]
    with torch.no_grad():
        out = model(**padded(texts), **decoder_prompt(rows))
        short = model(**padded(texts[1:]), **decoder_prompt(rows[1:]))
    torch.testing.assert_close(out.logits[1, :3], short.logits[0], rtol=0, atol=1e-4)
    total = [x.past_key_values.self_attention_cache.layers[0].coverage.total for x in (out, short)]
    torch.testing.assert_close(total[0][1, :, :5], total[1][0], rtol=0, atol=1e-4)


def decoder_prompt(texts, side="right"):
    return {f"decoder_{name}": x for name, x in padded(texts, side).items()}


def prefilled(model, rows=7):
    """A cache after some rows, and a function that gives the logits of the rows that follow."""
    inputs, ids, cache = source(), target(rows + 3), empty(model)
    with torch.no_grad():
        model(**inputs, decoder_input_ids=ids[:, :rows], past_key_values=cache)

    def follow(cache, items=slice(None), start=rows):
        chosen = {name: x[items] for name, x in inputs.items()}
        with torch.no_grad():
            return model(
                **chosen, decoder_input_ids=ids[items, start:], past_key_values=cache
            ).logits

    return cache, follow


def expected(model, rows=7):
    with torch.no_grad():
        return model(**source(), decoder_input_ids=target(rows + 3), use_cache=False).logits


def near(a, b):
    torch.testing.assert_close(a, b, rtol=0, atol=1e-5 * float(b.abs().max()))


def test_cache_select_and_repeat():
    model = attached()
    right = expected(model)[:, 7:]
    cache, follow = prefilled(model)
    cache.batch_repeat_interleave(2)
    near(follow(cache, [0, 0, 1, 1]), right[[0, 0, 1, 1]])
    cache, follow = prefilled(model)
    cache.batch_select_indices(torch.tensor([1]))
    near(follow(cache, [1]), right[[1]])
    cache, follow = prefilled(model)
    cache.reorder_cache(torch.tensor([1, 0]))
    near(follow(cache, [1, 0]), right[[1, 0]])


@pytest.mark.parametrize("back", [1, 4])
def test_cache_crop(back):
    model = attached()
    cache, follow = prefilled(model)
    cache.crop(-back)
    near(follow(cache, start=7 - back), expected(model)[:, 7 - back :])


def test_crop_further_than_kept_is_refused():
    model = attached()
    cache, follow = prefilled(model)
    follow(cache)
    cache.reorder_cache(torch.tensor([1, 0]))  # what came before has moved and cannot be taken back
    with pytest.raises(ValueError, match="too far back"):
        cache.crop(-1)


def test_cache_reset_starts_anew():
    model = attached()
    cache, follow = prefilled(model)
    cache.reset()
    if cache.get_seq_length():  # the library before 5.10: its cache is full of zeros, and not empty
        with pytest.raises(ValueError, match="start from an empty cache"):
            follow(cache, start=0)
    else:
        near(follow(cache, start=0), expected(model))


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_cache_copies(copied):
    model = attached()
    cache, follow = prefilled(model)
    twin = copied(cache)
    near(follow(twin), expected(model)[:, 7:])
    near(follow(cache), expected(model)[:, 7:])  # the first was not touched by what its copy did
    twin.crop(-3)
    near(follow(twin), expected(model)[:, 7:])


def test_a_cache_of_the_untouched_model_is_refused():
    model = bart()
    cache, follow = prefilled(model)
    dwindle.attach(model, RULE)
    with pytest.raises(ValueError, match="start from an empty cache with the rule attached"):
        follow(cache)


def test_a_cache_that_went_on_without_the_rule_is_refused():
    model = attached()
    cache, follow = prefilled(model)
    dwindle.detach(model)
    follow(cache)
    dwindle.attach(model, RULE)
    with pytest.raises(ValueError, match="holds 10 tokens, but coverage has seen 7"):
        follow(cache)


def test_nothing_leaks_from_one_text_to_the_next():
    model, inputs = attached(), source()
    first = generated(model, inputs, num_beams=4)
    generated(model, source((7, 5), seed=5), num_beams=2)
    assert same(generated(model, inputs, num_beams=4), first)


def test_eager_returns_the_diminished_rows():
    """A slow twin: the rule on the untouched model's own attention, for the first attached
    layer."""
    model, inputs, rows = bart(attention="eager"), source(), target()
    settings = {"decoder_input_ids": rows, "use_cache": False, "output_attentions": True}
    with torch.no_grad():
        plain = model(**inputs, **settings).cross_attentions
        dwindle.attach(model, RULE, layers=2)
        out = model(**inputs, **settings).cross_attentions
    assert torch.equal(out[0], plain[0])
    diminished, _ = dwindle.rule(RULE)(plain[1])
    torch.testing.assert_close(out[1], diminished)
    assert not torch.allclose(out[1].sum(-1), torch.ones(()))


def test_quantised_caches_are_not_for_these_models():
    """The library itself has none for encoder-decoder models, attached or not."""
    for model in (bart(), attached()):
        with pytest.raises(ValueError, match="does not support the quantized cache"):
            generated(model, source(), cache_implementation="quantized")


def test_special_tokens_go_along_with_the_encoder_output():
    """A source that was encoded before is not mistaken for the one encoded last."""
    model = attached("training-free")
    one, other, rows = source(), source(seed=9), target()
    with torch.no_grad():
        expected = model(**one, decoder_input_ids=rows, use_cache=False).logits
        encoded = model.get_encoder()(**one)
        model(**other, decoder_input_ids=rows)
        given = {
            "encoder_outputs": encoded,
            "attention_mask": one["attention_mask"],
            "decoder_input_ids": rows,
        }
        assert torch.equal(model(**given, use_cache=False).logits, expected)
        assert torch.equal(
            model(**{**given, "encoder_outputs": (encoded[0],)}, use_cache=False).logits, expected
        )
        # nobody can tell whose these are
        for states in (encoded[0] + 1, torch.zeros_like(encoded[0])):
            with pytest.raises(ValueError, match="call the model with input_ids"):
                model(encoder_outputs=(states,), decoder_input_ids=rows[: len(states)])


@pytest.mark.parametrize("rule", ["training-free", RULE])
def test_parts_called_by_themselves_see_their_own_source(rule):
    """After a call of the whole model with another source, and after one that failed."""
    model = attached(rule)
    one, rows = source(), target()
    with torch.no_grad():
        expected = model.model(**one, decoder_input_ids=rows, use_cache=False).last_hidden_state
        model(**source(seed=9), decoder_input_ids=rows)
        # a batch of 3 for 2 sources
        with pytest.raises((ValueError, RuntimeError), match=r"fit|size|shape"):
            model(**source(seed=9), decoder_input_ids=target(batch=3))
        assert torch.equal(
            model.model(**one, decoder_input_ids=rows, use_cache=False).last_hidden_state, expected
        )
        states = model.get_encoder()(**one).last_hidden_state
        model(**source(seed=9), decoder_input_ids=rows)
        given = {"encoder_hidden_states": states, "encoder_attention_mask": one["attention_mask"]}
        assert torch.equal(
            model.get_decoder()(rows, **given, use_cache=False).last_hidden_state, expected
        )


@pytest.mark.parametrize("rule", [RULE, "training-free", "temporal"])
def test_beams_that_have_moved_advance_in_place(rule, monkeypatch):
    """As many steps as there are, but the first; the same as with a coverage made anew at each
    step."""
    model = attached(rule)
    taken = []
    overwritten = CoveredLayer.overwritten
    monkeypatch.setattr(
        CoveredLayer, "overwritten", lambda layer, n: (taken.append(n), overwritten(layer, n))[1]
    )
    found = generated(model, source(), num_beams=4)
    assert taken == [1] * (11 * 3)
    monkeypatch.setattr(CoveredLayer, "overwritable", False)
    assert same(generated(model, source(), num_beams=4), found, atol=1e-5)
    assert len(taken) == 11 * 3


def test_what_was_advanced_in_place_is_not_taken_back():
    model = attached(RULE)
    with torch.no_grad():
        states = model.get_encoder()(**source())
        cache = model(encoder_outputs=states, decoder_input_ids=target(3)).past_key_values
        cache.reorder_cache(torch.tensor([1, 0]))
        model(encoder_outputs=states, decoder_input_ids=target(1), past_key_values=cache)
    with pytest.raises(ValueError, match="too far back"):
        cache.crop(-1)
