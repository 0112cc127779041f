"""Records are what the model really attended to, aligned with the tokens it returned."""

import pytest
import torch
from transformers import BartConfig, BartForConditionalGeneration

import dwindle

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
    """The oracle: the attention that generate() returns for every beam, put together by its beam indices."""
    settings = {"num_beams": beams, "max_new_tokens": 7, "num_return_sequences": min(beams, 2), "do_sample": False}
    with dwindle.attach(model, RULE), dwindle.record(model, heads="all") as records:
        out = model.generate(
            **source, **settings, return_dict_in_generate=True, output_attentions=True, output_scores=True
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
            seen = torch.stack([layer[chosen, :, 0] for layer in out.cross_attentions[t]])  # (L, H, S)
            torch.testing.assert_close(record.weights[:, n, :, t], seen, rtol=1e-4, atol=1e-6)


def test_a_forward_pass_has_raw_and_diminished_rows(model, source):
    decoder = torch.randint(3, 40, (2, 5), generator=torch.Generator().manual_seed(2))
    with dwindle.attach(model, RULE) as handle, dwindle.record(model, heads="all") as records, torch.no_grad():
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
        assert handle.here.listener is None


def test_a_layer_that_does_not_exist(model):
    with dwindle.attach(model, RULE), pytest.raises(ValueError, match="numbered 0 to 2"), dwindle.record(model, [7]):
        pass


def test_no_logits_that_nobody_reads(model, source):
    """A generate() asks for one row a step, and its record for no more; a pass of the caller's own has all rows."""
    rows = []
    model.lm_head.register_forward_hook(lambda _, given, logits: rows.append(logits.shape[1]))
    with dwindle.record(model) as records:
        written = model.generate(**source, max_new_tokens=7)
        assert set(rows) == {1}
        logits = model(**source, decoder_input_ids=written).logits
    assert records[0].weights.shape[-2] == written.shape[1] - 1 > 1
    assert logits.shape[1] == written.shape[1]
