"""The pointer-generator against See's equations in loops: forward, loss, gradients, cache, sizes,
files, bad input."""

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dwindle.models.pointer_generator.config import PointerGeneratorConfig
from dwindle.models.pointer_generator.encoder import read_both_ways
from dwindle.models.pointer_generator.model import PointerGenerator, _first, coverage_losses
from tests.models.pg_kit import LENGTHS, SETTINGS, E, H, alone, labels, read, sources, tiny
from tests.models.see import tell

W = 13  # two words outside the vocabulary
exact = {"rtol": 1e-9, "atol": 1e-11}


def told(model, row, words):
    batch = alone(sources(), row, LENGTHS[row])
    return tell(
        model, batch["input_ids"][0].tolist(), batch["extended_ids"][0].tolist(), words.tolist(), W
    )


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
class TestEveryKind:
    def test_the_distribution_is_that_of_the_equations(self, settings, path):
        model = tiny(**settings)
        output = model(**sources(), decoder_input_ids=read())
        record = model.attended(sources(), torch.cat([read(), torch.full((3, 1), 5)], dim=1))
        torch.testing.assert_close(
            output.logits.exp().sum(-1), torch.ones(3, 5, dtype=torch.float64)
        )
        for row, length in enumerate(LENGTHS):
            slow = told(model, row, read()[row])
            torch.testing.assert_close(output.logits[row].exp(), slow.distribution, **exact)
            torch.testing.assert_close(
                output.cross_attentions[0][row, 0, :, :length], slow.weights, **exact
            )
            torch.testing.assert_close(record.attention[0, row, :, :length], slow.attention.float())
            torch.testing.assert_close(record.weights[0, row, :, :length], slow.weights.float())
            assert not record.attention[0, row, :, length:].any()

    def test_the_loss_and_its_gradients_are_those_of_the_equations(self, settings, path):
        model = tiny(**settings)
        loss = model(**sources(), labels=labels()).loss
        slow = 0
        for row, targets in enumerate(labels()):
            targets = targets[targets != -100]
            by_hand = told(model, row, torch.cat([torch.tensor([2]), targets[:-1]]))
            losses = -by_hand.distribution[torch.arange(len(targets)), targets].log()
            if model.config.coverage:
                losses = losses + by_hand.coverage_losses
            slow = slow + losses.mean() / 3
        torch.testing.assert_close(loss, slow, **exact)
        weights = dict(model.named_parameters())
        fast_gradients = torch.autograd.grad(loss, weights.values())
        slow_gradients = torch.autograd.grad(slow, weights.values())
        for name, ours, theirs in zip(weights, fast_gradients, slow_gradients, strict=True):
            assert theirs.abs().max() > 0, name
            torch.testing.assert_close(ours, theirs, rtol=1e-7, atol=1e-10, msg=name)

    @pytest.mark.parametrize("cuts", [(1, 1, 1, 1, 1), (2, 3), (4, 1)])
    def test_all_rows_at_once_are_as_one_by_one(self, settings, cuts):
        model = tiny(**settings)
        whole = model(**sources(), decoder_input_ids=read(), use_cache=True)
        state, pieces = None, []
        for rows in read().split(cuts, dim=1):
            output = model(
                **sources(), decoder_input_ids=rows, past_key_values=state, use_cache=True
            )
            state = output.past_key_values
            pieces.append(output.logits)
        torch.testing.assert_close(torch.cat(pieces, dim=1), whole.logits, **exact)
        assert state.get_seq_length() == whole.past_key_values.get_seq_length() == 5
        for ours, theirs in zip(state.coverage, whole.past_key_values.coverage, strict=True):
            torch.testing.assert_close(ours, theirs, **exact)

    def test_a_source_is_read_alone_as_in_a_batch(self, settings):
        model = tiny(**settings)
        together = model(**sources(), decoder_input_ids=read()).logits
        for row, length in enumerate(LENGTHS):
            one = alone(sources(), row, length)
            by_itself = model(**one, decoder_input_ids=read()[row : row + 1]).logits[0]
            width = by_itself.shape[-1]
            torch.testing.assert_close(by_itself, together[row, :, :width], **exact)
            assert (together[row, :, width:] == -torch.inf).all()

    def test_the_loss_is_minus_the_logarithm_of_what_generate_uses(self, settings):
        model = tiny(**settings, **({"coverage_loss": 0.0} if settings.get("coverage") else {}))
        batch = alone(sources(), 0, 7)
        torch.manual_seed(1)
        out = model.generate(
            **batch,
            do_sample=True,
            max_new_tokens=6,
            return_dict_in_generate=True,
            output_logits=True,
        )
        written = out.sequences[:, 1:]
        chosen = torch.stack([row[0, id] for row, id in zip(out.logits, written[0], strict=True)])
        loss = model(**batch, labels=written).loss
        torch.testing.assert_close(loss.float(), -chosen.mean(), rtol=1e-5, atol=1e-6)

    def test_bfloat16_is_near_and_trains(self, settings):
        model = tiny(spread=0.3, dtype=torch.float32, **settings)
        full = model(**sources(), labels=labels()).loss
        with torch.autocast("cpu", torch.bfloat16):
            half = model(**sources(), labels=labels()).loss
        half.backward()
        torch.testing.assert_close(half, full, rtol=0.03, atol=0.03)
        assert all(torch.isfinite(p.grad).all() for p in model.parameters())
        whole = model(**sources(), decoder_input_ids=read()).logits.exp()
        half = model.bfloat16()(**sources(), decoder_input_ids=read()).logits.exp()
        torch.testing.assert_close(half, whole, rtol=0.1, atol=0.05)


def test_the_state_of_coverage_is_the_plain_attention():
    model = tiny(rule="dim:log", coverage=True)
    state = model(**sources(), decoder_input_ids=read(), use_cache=True).past_key_values
    record = model.attended(sources(), torch.cat([read(), torch.full((3, 1), 5)], dim=1))
    assert state.coverage.total.shape == (3, 1, 7)
    torch.testing.assert_close(state.coverage.total[:, 0].float(), record.coverage[0])
    assert (record.coverage - record.effective).abs().max() > 0.1


@pytest.mark.parametrize("settings", [{}, {"coverage": True}, {"temporal": True}])
def test_the_identity_is_plain_attention(settings):
    model = tiny(**settings)
    plain = model(**sources(), decoder_input_ids=read()).logits
    model.set_rule("dim:identity")
    assert torch.equal(model(**sources(), decoder_input_ids=read()).logits, plain)
    model.set_rule("dydim:log,power(0.5)")
    assert model.config.rule == "dydim:log,power(0.5)"
    assert (
        model(**sources(), decoder_input_ids=read()).logits.exp() - plain.exp()
    ).abs().max() > 0.01


def test_temporal_attention_can_be_put_on_for_decoding_only():
    model = tiny()
    model.config.temporal = True
    expected = tiny(temporal=True)(**sources(), decoder_input_ids=read()).logits
    assert torch.equal(model(**sources(), decoder_input_ids=read()).logits, expected)


def test_nothing_of_a_source_is_special_so_nothing_is_protected():
    model = tiny(rule="dim:log+protect(special)")
    protected = model(**sources(), decoder_input_ids=read()).logits
    model.set_rule("dim:log")
    assert torch.equal(model(**sources(), decoder_input_ids=read()).logits, protected)


def test_the_coverage_loss_by_hand():
    attention = torch.tensor([[[0.7, 0.3, 0.0], [0.6, 0.1, 0.3], [0.0, 0.5, 0.5]]])
    # before: nothing; (0.7, 0.3, 0); (1.3, 0.4, 0.3)
    expected = torch.tensor([[0.0, 0.6 + 0.1 + 0.0, 0.0 + 0.4 + 0.3]])
    torch.testing.assert_close(coverage_losses(attention), expected)
    whole = tiny(coverage=True, coverage_loss=2.0)(**sources(), labels=labels()).loss
    once = tiny(coverage=True, coverage_loss=1.0)(**sources(), labels=labels()).loss
    never = tiny(coverage=True, coverage_loss=0.0)(**sources(), labels=labels()).loss
    torch.testing.assert_close(whole - once, once - never)
    assert once - never > 0.1


def test_padding_costs_no_cell_of_the_lstm(path):
    lstm = torch.nn.LSTM(E + 1, H, bias=False, batch_first=True, bidirectional=True).double()
    words = torch.randn(3, 7, E + 1, dtype=torch.float64, requires_grad=True)
    mask = torch.arange(7) < torch.tensor(LENGTHS)[:, None]
    states, hidden, cell = read_both_ways(lstm, words, mask)
    packed = pack_padded_sequence(words, torch.tensor(LENGTHS), batch_first=True)
    theirs, (h, c) = lstm(packed)
    theirs = pad_packed_sequence(theirs, batch_first=True)[0]
    pairs = [
        (states * mask[..., None], theirs),
        (hidden, torch.cat(tuple(h), 1)),
        (cell, torch.cat(tuple(c), 1)),
    ]
    for ours, expected in pairs:
        torch.testing.assert_close(ours, expected, **exact)
        drawn = torch.randn_like(expected)
        inputs = [words, *lstm.parameters()]
        gradients = zip(
            torch.autograd.grad((ours * drawn).sum(), inputs, retain_graph=True),
            torch.autograd.grad((expected * drawn).sum(), inputs, retain_graph=True),
            strict=True,
        )
        for a, b in gradients:
            torch.testing.assert_close(a, b, **exact)


def test_the_sizes_are_those_of_sees_code():
    v, e, h = 50_000, 128, 256
    matrices = {  # every variable of the TensorFlow graph at its defaults
        "embedding": v * e,
        "encoder, forwards": (e + h) * 4 * h + 4 * h,
        "encoder, backwards": (e + h) * 4 * h + 4 * h,
        "w_reduce_c and its bias": 2 * h * h + h,
        "w_reduce_h and its bias": 2 * h * h + h,
        "W_h": 2 * h * 2 * h,
        "v": 2 * h,
        "W_s and b_attn": 2 * h * 2 * h + 2 * h,
        "input and last context to input": (e + 2 * h) * e + e,
        "decoder": (e + h) * 4 * h + 4 * h,
        "p_gen": 2 * h + h + h + e + 1,
        "AttnOutputProjection": (h + 2 * h) * h + h,
        "output_projection": h * v + v,
    }
    assert sum(matrices.values()) == 21_500_753
    with torch.device("meta"):
        assert PointerGenerator(PointerGeneratorConfig()).num_parameters() == 21_500_753
        assert (
            PointerGenerator(PointerGeneratorConfig(coverage=True)).num_parameters()
            == 21_500_753 + 512
        )


def test_it_starts_as_sees_code_does():
    model = PointerGenerator(
        PointerGeneratorConfig(vocab_size=200, hidden_size=32, embedding_size=16, coverage=True)
    )
    for weight in (
        model.encoder.lstm.weight_hh_l0,
        model.encoder.lstm.weight_ih_l0[:, :-1],
        model.decoder.gates.weight,
    ):
        assert 0.019 < weight.abs().max() <= 0.02
    for bias in (model.decoder.gates.bias, model.encoder.lstm.weight_ih_l0_reverse[:, -1]):
        assert [part.unique().tolist() for part in bias.chunk(4)] == [[0], [1], [0], [0]]
    for module in (
        model.encoder.embedding,
        model.encoder.reduce_cell,
        model.encoder.reduce_hidden,
        model.vocabulary,
    ):
        assert 0.7e-4 < module.weight.std() < 1e-4  # of a normal cut at two deviations: 0.88 of it
        assert module.weight.abs().max() <= 2e-4
    bounds = {  # Glorot's square root of 6 / (in + out)
        model.decoder.query: (6 / 128) ** 0.5,
        model.decoder.score: (6 / 128) ** 0.5,
        model.decoder.covered: (6 / 65) ** 0.5,
        model.merge: (6 / 128) ** 0.5,
    }
    for module, bound in bounds.items():
        assert 0.9 * bound < module.weight.abs().max() <= bound


def test_saved_and_loaded_it_is_the_same(tmp_path):
    model = tiny(rule="dydim:log,power(0.5)", coverage=True, temporal=True, copy="renormalised")
    model.save_pretrained(tmp_path)
    again = PointerGenerator.from_pretrained(tmp_path).eval()
    assert again.config.rule == "dydim:log,power(0.5)"
    batch = {**sources(), "decoder_input_ids": read()}
    assert again.state_dict().keys() == model.state_dict().keys()
    assert all(
        torch.equal(weight, again.state_dict()[name]) for name, weight in model.state_dict().items()
    )
    # Loaded weights lie elsewhere in memory, and on some processors products round by where their
    # matrices lie.
    exact = {"rtol": 1e-13, "atol": 1e-13}
    torch.testing.assert_close(again(**batch).logits, model(**batch).logits, **exact)
    learnt = {**sources(), "labels": labels()}
    torch.testing.assert_close(again(**learnt).loss, model(**learnt).loss, **exact)


def test_a_trained_model_takes_coverage_on(tmp_path):
    plain = tiny()
    plain.save_pretrained(tmp_path)
    covered = PointerGenerator.from_pretrained(tmp_path, coverage=True).eval()
    assert covered.num_parameters() == plain.num_parameters() + 2 * H
    first = {**sources(), "decoder_input_ids": read()[:, :1]}  # no coverage yet
    torch.testing.assert_close(covered(**first).logits, plain(**first).logits)
    with torch.no_grad():
        covered.decoder.covered.weight.zero_()
    batch = {**sources(), "decoder_input_ids": read()}
    torch.testing.assert_close(covered(**batch).logits, plain(**batch).logits)


def test_a_target_that_seems_impossible_keeps_its_gradient():
    model = tiny(dtype=torch.float32)
    with torch.no_grad():
        model.switch.bias.fill_(200.0)  # never copies: 1 - p_gen is 0 in float32
    loss = model(**sources(), labels=torch.tensor([[11], [11], [6]])).loss
    loss.backward()
    assert torch.isfinite(loss)
    assert loss > 50
    assert model.switch.bias.grad > 0.5


def test_bad_input_is_refused_in_a_sentence():
    model, batch, rows = tiny(), sources(), read()
    del batch["extended_ids"]
    with pytest.raises(ValueError, match="extended_ids is missing"):
        model(**batch, decoder_input_ids=rows)
    batch = sources()
    with pytest.raises(ValueError, match="decoder_input_ids or labels"):
        model(**batch)
    with pytest.raises(ValueError, match="no source"):
        model(extended_ids=batch["extended_ids"], labels=labels())
    with pytest.raises(ValueError, match="both must be"):
        model(**{**batch, "extended_ids": batch["extended_ids"][:, :4]}, labels=labels())
    with pytest.raises(ValueError, match=r"give both as \(B, S\)"):
        model(**{**batch, "attention_mask": batch["attention_mask"][:, :4]}, labels=labels())
    with pytest.raises(ValueError, match="go into extended_ids"):
        model(**{**batch, "input_ids": batch["extended_ids"]}, labels=labels())
    with pytest.raises(ValueError, match="pad on the right"):
        model(**{**batch, "attention_mask": batch["attention_mask"].flip(1)}, labels=labels())
    with pytest.raises(ValueError, match="drop empty sources"):
        model(**{**batch, "attention_mask": torch.zeros(3, 7, dtype=torch.long)}, labels=labels())
    with pytest.raises(ValueError, match="B = 3"):
        model(**batch, decoder_input_ids=rows[:2])
    with pytest.raises(ValueError, match="labels has shape"):
        model(**batch, labels=labels(), decoder_input_ids=rows[:, :2])
    with pytest.raises(ValueError, match="copy is 'mixed'"):
        PointerGeneratorConfig(copy="mixed")
    with pytest.raises(ValueError, match="0 or more"):
        PointerGeneratorConfig(coverage_loss=-1.0)
    with pytest.raises(ValueError, match="temporal=True"):
        model.set_rule("temporal")
    with pytest.raises(ValueError, match="did you mean"):
        model.set_rule("dimm:log")


def test_where_each_word_is_for_the_first_time():
    ids = torch.randint(0, 9, (3, 20), generator=torch.Generator().manual_seed(0))
    assert _first(ids).tolist() == [[row.index(word) for word in row] for row in ids.tolist()]
