"""Records are what the model really attended to, aligned with the tokens it returned."""

import pytest
import torch
import transformers as hf
from transformers import BartConfig, BartForConditionalGeneration, DynamicCache, EncoderDecoderCache

import dwindle
from dwindle.attaching.library import KNOWN
from dwindle.attaching.record import replay
from tests.attaching import small

RULE = "dydim:log,power(0.5)"


@pytest.fixture
def model():
    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=40,
        d_model=16,
        encoder_layers=1,
        decoder_layers=3,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=32,
        init_std=0.4,  # sharp attention: beams differ and mistakes show
        forced_eos_token_id=None,
        attn_implementation="eager",
    )
    return BartForConditionalGeneration(config).eval()


@pytest.fixture
def source():
    ids = torch.randint(3, 40, (2, 8), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    ids[1, 6:], mask[1, 6:] = 1, 0
    return {"input_ids": ids, "attention_mask": mask}


@pytest.mark.parametrize("beams", [1, 4])
def test_a_generate_is_recorded_as_the_library_itself_saw_it(model, source, beams):
    """The oracle: the attention that generate() returns for every beam, put together by its beam
    indices."""
    settings = {
        "num_beams": beams,
        "max_new_tokens": 7,
        "num_return_sequences": min(beams, 2),
        "do_sample": False,
    }
    with dwindle.attach(model, RULE), dwindle.record(model, heads="all") as records:
        out = model.generate(
            **source,
            **settings,
            return_dict_in_generate=True,
            output_attentions=True,
            output_scores=True,
        )
    (record,) = records
    assert torch.equal(record.tokens, out.sequences[:, 1:])
    count = out.sequences.shape[0]
    beam = out.beam_indices if beams > 1 else torch.arange(count)[:, None].expand(-1, 7)
    for n in range(count):
        for t, chosen in enumerate(beam[n].tolist()):
            if chosen < 0:  # the sequence has ended
                assert not record.weights[:, n, :, t].any()
                continue
            # (L, H, S)
            seen = torch.stack([layer[chosen, :, 0] for layer in out.cross_attentions[t]])
            torch.testing.assert_close(record.weights[:, n, :, t], seen, rtol=1e-4, atol=1e-6)


def test_a_forward_pass_has_raw_and_diminished_rows(model, source):
    decoder = torch.randint(3, 40, (2, 5), generator=torch.Generator().manual_seed(2))
    with (
        dwindle.attach(model, RULE) as handle,
        dwindle.record(model, heads="all") as records,
        torch.no_grad(),
    ):
        model(**source, decoder_input_ids=decoder)
        attached = list(handle.attached)
    (record,) = records
    assert record.layers == [one.name for one in attached]
    assert record.tokens is None
    torch.testing.assert_close(record.attention.sum(-1), torch.ones(3, 2, 2, 5))
    for layer in range(3):
        expected, after = dwindle.rule(RULE)(record.attention[layer])
        torch.testing.assert_close(record.weights[layer], expected)
        torch.testing.assert_close(record.coverage[layer], after.total)
        torch.testing.assert_close(record.effective[layer], expected.sum(-2))


def test_chosen_layers_and_averaged_heads_keep_it_small(model, source):
    decoder = torch.randint(3, 40, (2, 5))
    with dwindle.attach(model, RULE), torch.no_grad():
        with dwindle.record(model, heads="all") as whole:
            model(**source, decoder_input_ids=decoder)
        with dwindle.record(model, layers=[-1]) as small:
            model(**source, decoder_input_ids=decoder)
    assert small[0].attention.shape == (1, 2, 5, 8)
    torch.testing.assert_close(small[0].attention[0], whole[0].attention[-1].mean(1))


def test_a_model_without_a_rule_is_recorded_as_it_is(model, source):
    before = model.generate(**source, max_new_tokens=5)
    with dwindle.record(model) as records:
        inside = model.generate(**source, max_new_tokens=5)
    assert torch.equal(before, inside)
    assert torch.equal(records[0].attention, records[0].weights)
    assert dwindle.handle_of(model) is None
    assert "generate" not in vars(model)


def test_nothing_is_recorded_outside_the_block(model, source):
    with dwindle.attach(model, RULE) as handle:
        with dwindle.record(model) as records:
            pass
        model.generate(**source, max_new_tokens=3)
        assert records == []
        assert handle.scopes.listener is None


def test_a_layer_that_does_not_exist(model):
    with (
        dwindle.attach(model, RULE),
        pytest.raises(ValueError, match="numbered 0 to 2"),
        dwindle.record(model, [7]),
    ):
        pass


def test_no_logits_that_nobody_reads(model, source):
    """A generate() asks for one row a step, and its record for no more; a pass of the caller's own
    has all rows."""
    rows = []
    model.lm_head.register_forward_hook(lambda _, given, logits: rows.append(logits.shape[1]))
    with dwindle.record(model) as records:
        written = model.generate(**source, max_new_tokens=7)
        assert set(rows) == {1}
        logits = model(**source, decoder_input_ids=written).logits
    assert records[0].weights.shape[-2] == written.shape[1] - 1 > 1
    assert logits.shape[1] == written.shape[1]


@pytest.mark.parametrize("rule", ["dydim:log,power(0.5)", "training-free"])
@pytest.mark.parametrize("build", [small.t5, small.bart])
@pytest.mark.parametrize("start", [True, False])
def test_left_padded_prompts_of_the_decoder(build, rule, start):
    """Rows of padding are zero, and all others are those of the steps that wrote the output."""
    model, first = build(), [small.START] if start else []
    dwindle.attach(model, rule)
    texts = [[*first, *small.words(4, 1)], [*first, *small.words(2, 2)]]
    given = small.source((9, 6))
    prompt = {f"decoder_{name}": x for name, x in small.padded(texts, "left").items()}
    settings = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "num_beams": 2}
    with dwindle.record(model) as records:
        sequences = model.generate(**given, **prompt, **settings)
    (record,) = records
    assert torch.equal(record.tokens, sequences[:, 1:])
    # a start token that generate() put there
    added = sequences.shape[1] - 5 - prompt["decoder_input_ids"].shape[1]
    assert added == (0 if start else 1)
    # of the second text, whose prompt has two tokens of padding
    rows = record.weights[:, 1].sum(-1)
    assert not rows[:, added : added + 2].any()
    assert bool((rows[:, added + 2 :] > 0).all())
    cached = stepwise(model, given, sequences, prompt["decoder_attention_mask"], added)
    near = 1e-5 if hf.__version__ == KNOWN else 1e-4  # older releases round elsewhere
    torch.testing.assert_close(record.weights, cached, rtol=0, atol=near)


def stepwise(model, given, sequences, mask, added):
    """The weights of the same tokens fed one by one through a cache, as generate() does."""
    mask = torch.cat([torch.ones_like(mask[:, :added]), mask], dim=1)
    mask = torch.cat([mask, torch.ones_like(sequences[:, mask.shape[1] :])], dim=1)
    cache = EncoderDecoderCache(
        DynamicCache(config=model.config), DynamicCache(config=model.config)
    )
    with torch.no_grad(), dwindle.record(model) as records:
        for t in range(sequences.shape[1] - 1):
            step = {
                "decoder_input_ids": sequences[:, t : t + 1],
                "decoder_attention_mask": mask[:, : t + 1],
            }
            model(**given, **step, past_key_values=cache, use_cache=True)
    return torch.cat([record.weights for record in records], dim=-2)


def test_every_way_to_hand_a_source_to_generate(model, source):
    settings = {"max_new_tokens": 5, "num_beams": 3, "num_return_sequences": 2}
    ids, mask = source["input_ids"], {"attention_mask": source["attention_mask"]}
    for rule in (RULE, "training-free"):
        dwindle.attach(model, rule)
        encode = model.get_encoder()
        with dwindle.record(model) as records:
            model.generate(**source, **settings)
            model.generate(ids, **mask, **settings)
            model.generate(inputs=ids, **mask, **settings)
            model.generate(encoder_outputs=encode(**source), **mask, **settings)
        assert len(records) == 4
        for record in records[1:]:
            assert torch.equal(record.tokens, records[0].tokens)
            torch.testing.assert_close(record.weights, records[0].weights)
        states = encode(**source)
        sequences = model.generate(**source, **settings)
        again = replay(model, {"encoder_outputs": states, **mask}, sequences)
        torch.testing.assert_close(again.weights, records[0].weights)
        with pytest.raises(ValueError, match="pass input_ids, inputs or encoder_outputs"):
            replay(model, {"max_length": 5}, sequences)
        with pytest.raises(ValueError, match="4 outputs cannot be shared among 3 sources"):
            replay(model, {"input_ids": torch.ones(3, 4, dtype=torch.long)}, sequences)
        dwindle.detach(model)
