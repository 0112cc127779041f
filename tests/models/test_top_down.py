"""The captioner against its equations in loops: forward, loss, gradients, steps, beams, sizes,
files, bad input."""

import pytest
import torch

from dwindle.attaching.carrier import attended
from dwindle.generation.generate import generate
from dwindle.generation.settings import DecodingSettings
from dwindle.models import build
from dwindle.models.top_down import TopDown, TopDownConfig, TopDownState
from dwindle.models.top_down_codec import RegionCodec
from dwindle.models.vocabulary import Vocabulary
from tests.models.top_down_kit import (
    LENGTHS,
    RULES,
    A,
    D,
    E,
    H,
    V,
    images,
    labels,
    read,
    tiny,
    told,
)

END = 3
exact = {"rtol": 1e-9, "atol": 1e-11}
beams = {
    "num_beams": 4,
    "max_new_tokens": 9,
    "length_penalty": 0.0,
    "return_dict_in_generate": True,
}
beams |= {"output_scores": True}


@pytest.mark.parametrize("rule", RULES)
class TestEveryRule:
    def test_forward_is_that_of_the_equations(self, rule):
        model = tiny(rule)
        output = model(**images(), decoder_input_ids=read(), output_attentions=True)
        for row, length in enumerate(LENGTHS):
            logits, attention, _ = told(model, images()["features"][row, :length], read()[row])
            torch.testing.assert_close(output.logits[row], logits, **exact)
            torch.testing.assert_close(
                output.cross_attentions[0][row, 0, :, :length], attention, **exact
            )
            assert attention.max() > 0.5  # sharp

    def test_the_loss_and_its_gradients_are_those_of_the_equations(self, rule):
        model = tiny(rule)
        loss = model(**images(), labels=labels()).loss
        slow, words = 0, 0
        for row, targets in enumerate(labels()):
            targets = targets[targets != -100]
            given = torch.cat([torch.tensor([2]), targets[:-1]])
            logits, _, _ = told(model, images()["features"][row, : LENGTHS[row]], given)
            slow = slow - logits.log_softmax(-1)[torch.arange(len(targets)), targets].sum()
            words += len(targets)
        torch.testing.assert_close(loss, slow / words, **exact)
        torch.testing.assert_close(
            model(**images(), labels=labels(), num_items_in_batch=4).loss, slow / 4, **exact
        )
        weights = dict(model.named_parameters())
        ours, theirs = (
            torch.autograd.grad(x, weights.values(), retain_graph=True)
            for x in (loss, slow / words)
        )
        for name, fast, by_hand in zip(weights, ours, theirs, strict=True):
            # A softmax does not see a constant, so the bias of the scores has no gradient.
            assert by_hand.abs().max() > 0 or name == "decoder.score.bias", name
            torch.testing.assert_close(fast, by_hand, rtol=1e-7, atol=1e-10, msg=name)

    @pytest.mark.parametrize("cuts", [(1, 1, 1, 1, 1), (2, 3), (4, 1)])
    def test_all_words_at_once_are_as_one_by_one(self, rule, cuts):
        model = tiny(rule)
        whole = model(**images(), decoder_input_ids=read())
        state, pieces = None, []
        for words in read().split(cuts, dim=1):
            output = model(**images(), decoder_input_ids=words, past_key_values=state)
            state = output.past_key_values
            pieces.append(output.logits)
        torch.testing.assert_close(torch.cat(pieces, dim=1), whole.logits, **exact)
        for ours, theirs in zip(state.coverage, whole.past_key_values.coverage, strict=True):
            torch.testing.assert_close(ours, theirs, **exact)

    def test_beams_keep_their_states(self, rule):
        """What beam search adds up is what teacher forcing says of the sequences; so it is without
        a cache."""
        model = tiny(rule)
        out = model.generate(**images(), **beams, num_return_sequences=4)
        again = model.generate(**images(), **beams, num_return_sequences=4, use_cache=False)
        assert torch.equal(out.sequences, again.sequences)
        torch.testing.assert_close(out.sequences_scores, again.sequences_scores)
        for i, (sequence, claimed) in enumerate(
            zip(out.sequences, out.sequences_scores, strict=True)
        ):
            ids = sequence.tolist()
            ids = ids[: ids.index(END) + 1] if END in ids else ids
            logits, _, _ = told(model, images()["features"][i // 4, : LENGTHS[i // 4]], ids[:-1])
            score = sum(row[id] for row, id in zip(logits.log_softmax(-1), ids[1:], strict=True))
            torch.testing.assert_close(score.float(), claimed, rtol=1e-4, atol=1e-4)

    def test_attended_is_what_was_looked_at(self, rule):
        model = tiny(rule)
        sequences = torch.tensor([[2, 5, 6, END, 0], [2, 7, 8, 9, END], [2, END, 0, 0, 0]])
        record = attended(model, images(), sequences)
        assert record.attention.shape == record.weights.shape == (1, 3, 4, 7)
        for row, written in enumerate((3, 4, 1)):
            length = LENGTHS[row]
            _, attention, weights = told(
                model, images()["features"][row, :length], sequences[row, :written]
            )
            torch.testing.assert_close(
                record.attention[0, row, :written, :length], attention.float()
            )
            torch.testing.assert_close(record.weights[0, row, :written, :length], weights.float())
            assert not record.attention[0, row, written:].any()
            assert not record.attention[0, row, :, length:].any()

    def test_saved_and_loaded_it_is_the_same(self, rule, tmp_path):
        model = tiny(rule, dtype=torch.float32)
        codec = RegionCodec(Vocabulary(list("abcdefg")), D, 7, 9)
        build.save(model, codec, tmp_path / "model")
        again, read_back = build.load(tmp_path / "model")
        inputs = images(torch.float32)
        assert again.config.rule == model.config.rule
        assert torch.equal(
            again(**inputs, labels=labels()).logits, model(**inputs, labels=labels()).logits
        )
        assert read_back.vocabulary.words == codec.vocabulary.words
        assert (read_back.width, read_back.max_regions, read_back.target_length) == (D, 7, 9)


@pytest.mark.parametrize("left", ["attention", "language", "coverage"])
def test_a_part_of_the_state_that_is_not_reordered_shows(left, monkeypatch):
    whole = TopDownState.reorder_cache

    def forgetful(self, beams):
        kept = getattr(self, left)
        whole(self, beams)
        setattr(self, left, kept)

    model = tiny("dydim:log,power(0.5)")
    right = model.generate(**images(), **beams)
    monkeypatch.setattr(TopDownState, "reorder_cache", forgetful)
    wrong = model.generate(**images(), **beams)
    assert not torch.equal(right.sequences_scores, wrong.sequences_scores)


@pytest.mark.parametrize("rule", ["plain", "dydim:log,power(0.5)"])
def test_word_by_word_is_as_all_at_once_and_a_drawn_word_is_read(rule, monkeypatch):
    model = tiny(rule)
    whole = model(**images(), labels=labels())
    slow = model(**images(), labels=labels(), drawn=0.0)
    torch.testing.assert_close(slow.logits, whole.logits, **exact)
    weights = list(model.parameters())
    for fast, led in zip(
        *(torch.autograd.grad(x.loss, weights) for x in (whole, slow)), strict=True
    ):
        torch.testing.assert_close(led, fast, rtol=1e-7, atol=1e-10)
    drawn = []
    original = torch.multinomial
    monkeypatch.setattr(
        torch, "multinomial", lambda p, n: drawn.append(original(p, n)) or drawn[-1]
    )
    led = model(**images(), labels=labels(), drawn=1 - 1e-9).logits
    read = torch.cat([torch.full((len(led), 1), 2), *drawn], 1)[:, :-1]
    torch.testing.assert_close(led, model(**images(), decoder_input_ids=read).logits, **exact)
    torch.manual_seed(0)
    mixed = [model(**images(), labels=labels(), drawn=0.5).logits for _ in range(2)]
    assert not torch.equal(*mixed)
    assert torch.equal(mixed[0][:, 0], led[:, 0])  # the first word is given


def test_greedy_and_sampling_are_of_the_models_own_distribution():
    model = tiny("dim:log(1.9)")
    greedy = generate(model, images(), DecodingSettings(beams=1, max_length=6))
    for row, length in enumerate(LENGTHS):
        ids = greedy[row].tolist()
        logits, _, _ = told(model, images()["features"][row, :length], ids[:-1])
        for t, best in enumerate(logits.argmax(-1).tolist()):
            assert ids[t + 1] == (best if END not in ids[1 : t + 1] else 0)
    one = {name: x[:1].expand(4000, *x.shape[1:]) for name, x in images().items()}
    drawn = generate(model, one, DecodingSettings(beams=1, max_length=1, sample=True))[:, 1]
    logits, _, _ = told(model, images()["features"][0], [2])
    shares = torch.bincount(drawn, minlength=V) / 4000
    torch.testing.assert_close(shares, logits[0].softmax(-1).float(), rtol=0, atol=0.03)


@pytest.mark.parametrize("beams", [1, 3])
def test_blocking_and_the_soft_penalty_work_on_the_captioner(beams):
    """A model that says one word for ever: blocked it never repeats a trigram, penalised it turns
    to others later."""
    model = tiny()
    with torch.no_grad():
        model.output.weight.zero_()
        model.output.bias.copy_(torch.tensor([-50.0, -50, -50, -50, 9, 6, 5, 5, 5, 5, 5]))
    free, blocked, soft = (
        generate(model, images(), DecodingSettings(beams=beams, max_length=12, **how))[
            0, 1:
        ].tolist()
        for how in ({}, {"block_ngrams": 3}, {"soft_trigrams": 2.0})
    )
    assert free == [4] * 12
    trigrams = list(zip(blocked, blocked[1:], blocked[2:], strict=False))
    assert len(set(trigrams)) == len(trigrams)
    if beams == 1:  # 9 - 2 ln 2 n against 6: the third time that 4 4 4 would be repeated, n = 3
        assert soft[:6] == [4, 4, 4, 4, 4, 5]
        assert blocked[:4] == [4, 4, 4, 5]


def test_padding_changes_nothing():
    model = tiny("dydim:log,power(0.5)")
    changed = images()
    changed["features"] = changed["features"].masked_fill(
        changed["attention_mask"][..., None] == 0, 99.0
    )
    assert torch.equal(
        model(**images(), labels=labels()).logits, model(**changed, labels=labels()).logits
    )


def test_options_of_a_rule_mean_the_same_here():
    """One head, so sharing heads changes nothing, whatever the batch; and no region is a special
    token."""
    plain, shared, special = (
        tiny(f"dim:log{option}")(**images(), labels=labels()).logits
        for option in ("", "+share_heads", "+protect(special)")
    )
    assert torch.equal(plain, shared)
    assert torch.equal(plain, special)
    kept = tiny("dim:log+protect(0)")(**images(), labels=labels()).logits
    assert not torch.equal(plain, kept)


def test_the_size_is_that_of_the_baseline():
    """By hand, from the layers of Melas-Kyriazi et al.: 512 everywhere, features of 2048."""
    words, n, wide = 1000, 512, 2048
    model = TopDown(TopDownConfig(vocab_size=words))
    encoder = 2 * (wide * n + n) + (n * n + n)
    lstms = 4 * n * (3 * n + n + 2) + 4 * n * (2 * n + n + 2)
    attention = (n * n + n) + (n + 1)
    assert sum(p.numel() for p in model.parameters()) == encoder + lstms + attention + words * n + (
        n * words + words
    )


def test_a_rule_can_be_changed_and_costs_no_weight():
    model = tiny()
    before = {name: p.shape for name, p in model.named_parameters()}
    build.put_rule(model, "dim:log(1.9)", None)
    assert model.config.rule == "dim:log(1.9)"
    assert before == {name: p.shape for name, p in model.named_parameters()}
    with pytest.raises(ValueError, match="did you mean"):
        model.set_rule("dimm:log")


def test_dropout_is_where_the_baseline_has_it():
    """Words, regions, mean and output: with dropout of nearly everything the logits are almost the
    bias."""
    model = tiny(dropout=0.9).train()
    assert sum(isinstance(m, torch.nn.Dropout) for m in model.modules()) == 4
    torch.manual_seed(0)
    assert not torch.equal(
        model(**images(), labels=labels()).logits, model(**images(), labels=labels()).logits
    )


def test_features_of_another_width_are_refused():
    with pytest.raises(ValueError, match=f"width 4, but this model reads {D}"):
        tiny()(features=torch.zeros(1, 2, 4), decoder_input_ids=torch.tensor([[2]]))


def test_what_is_missing_is_said():
    with pytest.raises(ValueError, match="there is no image"):
        tiny()(labels=labels())
    with pytest.raises(ValueError, match="there is nothing to read"):
        tiny()(**images())


def test_it_learns_to_say_what_it_sees():
    """Which of four regions differs: greedy decoding says its kind for new images."""
    torch.manual_seed(1)
    model = TopDown(
        TopDownConfig(
            vocab_size=8, feature_size=4, hidden_size=16, embedding_size=16, attention_size=16
        )
    )
    model.train()
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)
    kinds = torch.randint(4, (256,))
    features = torch.zeros(256, 4, 4)
    features[torch.arange(256), torch.randint(4, (256,)), kinds] = 3.0
    targets = torch.stack([kinds + 4, torch.full_like(kinds, END)], 1)
    for _ in range(60):
        loss = model(features=features[:200], labels=targets[:200]).loss
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    said = generate(
        model.eval(), {"features": features[200:]}, DecodingSettings(beams=2, max_length=3)
    )
    assert (said[:, 1] == targets[200:, 0]).float().mean() > 0.95


def test_sizes_of_the_kit_are_all_different():
    assert len({V, D, H, E, A}) == 5  # else a transposed weight passes unseen


@pytest.mark.parametrize("rule", RULES)
def test_in_half_precision_it_is_nearly_the_same(rule):
    model, inputs = tiny(rule, dtype=torch.float32), images(torch.float32)
    loss = model(**inputs, labels=labels()).loss
    with torch.autocast("cpu", torch.bfloat16):
        half = model(**inputs, labels=labels()).loss
    half.backward()
    torch.testing.assert_close(half, loss, rtol=0.01, atol=0)
    whole = tiny(rule, dtype=torch.bfloat16)
    assert whole.generate(**images(torch.bfloat16), max_new_tokens=3).shape == (3, 4)
