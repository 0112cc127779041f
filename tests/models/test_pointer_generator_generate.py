"""``generate()`` of the pointer-generator: beams and their state, copied words, and that it learns
to copy."""

import itertools

import pytest
import torch

from dwindle.models.pointer_generator.config import PointerGeneratorConfig
from dwindle.models.pointer_generator.loop import State
from dwindle.models.pointer_generator.model import PointerGenerator
from dwindle.models.pointer_generator.words import WordCodec
from tests.models.pg_kit import LENGTHS, SETTINGS, alone, sources, tiny

END = 3
beams = {
    "num_beams": 4,
    "max_new_tokens": 9,
    "length_penalty": 0.0,
    "return_dict_in_generate": True,
    "output_scores": True,
}
EVERYTHING = {"rule": "dydim:log,power(0.5)", "coverage": True, "temporal": True}


def score(model, batch, sequence):
    """The log-probability of one sequence by teacher forcing, up to its end."""
    ids = sequence.tolist()
    ids = ids[: ids.index(END) + 1] if END in ids else ids
    logits = model(**batch, decoder_input_ids=torch.tensor([ids[:-1]])).logits[0]
    return sum(logits[t, id] for t, id in enumerate(ids[1:]))


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_beams_keep_their_states(settings, seed):
    """What beam search adds up is what teacher forcing says of the sequences it returns; so it is
    without a cache."""
    model = tiny(**settings)
    with torch.no_grad():
        model.vocabulary.bias.normal_(generator=torch.Generator().manual_seed(seed))
    out = model.generate(**sources(), **beams, num_return_sequences=4)
    again = model.generate(**sources(), **beams, num_return_sequences=4, use_cache=False)
    assert torch.equal(out.sequences, again.sequences)
    torch.testing.assert_close(out.sequences_scores, again.sequences_scores)
    for i, (sequence, claimed) in enumerate(zip(out.sequences, out.sequences_scores, strict=True)):
        batch = alone(sources(), i // 4, LENGTHS[i // 4])
        torch.testing.assert_close(
            score(model, batch, sequence).float(), claimed, rtol=1e-4, atol=1e-4
        )


@pytest.mark.parametrize("left", ["hidden", "cell", "context", "coverage", "energy"])
def test_a_part_of_the_state_that_is_not_reordered_shows(left, monkeypatch):
    whole = State.reorder_cache

    def forgetful(self, beam_idx):
        kept = getattr(self, left)
        whole(self, beam_idx)
        setattr(self, left, kept)

    model = tiny(**EVERYTHING)
    right = model.generate(**sources(), **beams)
    monkeypatch.setattr(State, "reorder_cache", forgetful)
    wrong = model.generate(**sources(), **beams)
    assert not torch.equal(right.sequences_scores, wrong.sequences_scores)


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_wide_beam_finds_the_best_of_all_sequences(penalty):
    model = tiny(**EVERYTHING)
    batch = alone(sources(), 0, 7)
    width, longest = 13, 3
    with torch.no_grad():
        logits = {}
        for length in range(longest):
            prefixes = torch.tensor(
                [[2, *ids] for ids in itertools.product(range(width), repeat=length)]
            )
            many = {name: x.expand(len(prefixes), -1) for name, x in batch.items()}
            rows = model(**many, decoder_input_ids=prefixes).logits[:, -1]
            logits |= {tuple(p[1:].tolist()): row for p, row in zip(prefixes, rows, strict=True)}
    best = (-torch.inf, ())
    for length in range(1, longest + 1):
        for ids in itertools.product(range(width), repeat=length):
            if END in ids[:-1] or (length < longest and ids[-1] != END):
                continue
            summed = sum(float(logits[ids[:t]][id]) for t, id in enumerate(ids))
            best = max(best, (summed / length**penalty, ids))
    found = model.generate(
        **batch,
        **{**beams, "num_beams": width**2, "max_new_tokens": longest, "length_penalty": penalty},
        early_stopping="never",
    )
    written = found.sequences[0, 1:].tolist()
    assert tuple(written[: len(best[1])]) == best[1]
    assert float(found.sequences_scores[0]) == pytest.approx(best[0], rel=1e-5)


def test_the_librarys_options_reach_copied_words():
    model = tiny(dtype=torch.float32)
    # only the two unknown words are left
    copying = {"max_new_tokens": 8, "suppress_tokens": list(range(11))}
    first = alone(sources(), 0, 7)
    stuck = model.generate(**first, **copying)[0, 1:5].tolist()
    blocked = model.generate(**first, **copying, no_repeat_ngram_size=2)[0, 1:5].tolist()
    assert set(stuck) <= {11, 12}
    assert set(blocked) <= {11, 12}
    assert len(set(itertools.pairwise(stuck))) < 3
    assert len(set(itertools.pairwise(blocked))) == 3
    free = model.generate(**first, max_new_tokens=8)[0, 1:].tolist()
    punished = model.generate(**first, max_new_tokens=8, repetition_penalty=50.0)[0, 1:].tolist()
    assert len(set(punished)) > len(set(free))
    long = model.generate(**sources(), min_new_tokens=8, max_new_tokens=8, num_beams=3)
    assert long.shape == (3, 9)
    assert not (long == END).any()


def test_assisted_decoding_is_refused_for_a_state_cannot_be_taken_back():
    with pytest.raises(ValueError, match="stateful"):
        tiny().generate(**alone(sources(), 0, 7), prompt_lookup_num_tokens=2, max_new_tokens=4)


def test_samples_follow_the_distribution():
    model = tiny()
    batch = alone(sources(), 0, 7)
    torch.manual_seed(0)
    drawn = model.generate(
        **batch, do_sample=True, num_return_sequences=4000, max_new_tokens=1, top_k=0
    )[:, 1]
    expected = model(**batch, decoder_input_ids=torch.tensor([[2]])).logits[0, 0].exp()
    found = torch.bincount(drawn, minlength=13) / 4000
    torch.testing.assert_close(found, expected.float(), rtol=0, atol=0.03)


def test_rows_after_the_end_are_not_attended():
    model = tiny()
    # two sequences for each source
    record = model.attended(sources(), torch.tensor([[2, 5, END, 0, 0]] * 6))
    assert record.attention.shape == record.weights.shape == (1, 6, 4, 7)
    assert record.attention.sum(-1)[0, 0].tolist() == pytest.approx([1, 1, 0, 0])
    assert torch.equal(record.attention[0, 0], record.attention[0, 1])
    assert not torch.equal(record.attention[0, 1], record.attention[0, 2])
    assert record.tokens.tolist()[0] == [5, END, 0, 0]


def test_it_learns_to_copy_words_it_has_never_seen():
    """Synthetic data: sources of six words, half of them unknown; the target is the first and last
    three."""
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)

    def draw(names):
        ids = torch.randint(20, (2, 3), generator=generator).tolist()
        mixed = [w for a, b in zip(*ids, strict=True) for w in (f"w{a}", f"{names}{b}")]
        return " ".join(mixed), " ".join(mixed[:3]) + "\n" + " ".join(mixed[3:])

    pairs = [draw("name") for _ in range(256)]
    codec = WordCodec.fitted([(f"w{i} " * 999, "") for i in range(20)], size=None)
    model = PointerGenerator(
        PointerGeneratorConfig(vocab_size=len(codec.vocabulary), hidden_size=32, embedding_size=16)
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    rows = [codec.encode(*pair) for pair in pairs]
    for step in range(70):
        batch = codec.collate([rows[(32 * step + i) % 256] for i in range(32)])
        optimiser.zero_grad()
        model(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimiser.step()
    model.eval()
    unseen = [draw("other") for _ in range(20)]
    batch = codec.collate([codec.encode(source) for source, _ in unseen])
    written = codec.decode(model.generate(**batch, num_beams=2, max_new_tokens=10), batch)
    assert sum(text == target for text, (_, target) in zip(written, unseen, strict=True)) >= 18
