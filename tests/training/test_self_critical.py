"""Self-critical training: rewards and advantages by hand, the gradient and its sign, processes, and
that it helps."""

import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from dwindle.data.example import Example
from dwindle.generation.processors import SoftTrigrams
from dwindle.metrics.cider import CiderScorer
from dwindle.models.build import build
from dwindle.models.settings import ModelSettings
from dwindle.models.vocabulary import END, PAD, START
from dwindle.training.self_critical import labels
from dwindle.training.settings import TrainingSettings
from dwindle.training.train import train
from tests.training.critical import KINDS, Image, lesson, taught, trainer

SETTINGS = TrainingSettings(steps=4, batch_size=4, objective="self-critical", learning_rate=1e-3)


@pytest.fixture
def made(tmp_path):
    return partial(trainer, tmp_path)


def batch_of(fit, count=4):
    return fit.collate([fit.row(e) for e in lesson(count)])


def test_advantages_by_hand(made, monkeypatch):
    """Four images; what is drawn and what is greedy is given; the rewards are CIDEr-D of the
    training references."""
    fit = made()
    batch = batch_of(fit)
    ids = fit.codec.vocabulary.ids
    drawn = torch.tensor([[START, *ids(f"a {kind} sits here .".split()), END] for kind in KINDS])
    greedy = torch.tensor([[START, *ids(["a", "cat", "sits", "here", "."]), END]] * 4)
    monkeypatch.setattr(fit, "drawn", lambda batch, seed: drawn)
    monkeypatch.setattr(fit, "greedy", lambda batch: greedy)
    played = fit.played(batch)
    ended = [[f"{text} END" for text in e.references] for e in lesson()]
    scorer = CiderScorer(ended)
    by_hand = [
        scorer.reward(f"a {kind} sits here . END", references)
        - scorer.reward("a cat sits here . END", references)
        for kind, references in zip(KINDS, ended, strict=False)
    ]
    assert played["advantage"].tolist() == pytest.approx(by_hand, rel=1e-6)
    assert by_hand[0] == 0
    assert min(by_hand[1:]) > 0.1
    assert torch.equal(played["labels"], drawn[:, 1:])
    assert "references" not in played


def test_the_reward_of_one_text_by_hand(made):
    """Two documents, 'a b' and 'a c': the idf of b is ln 2, that of a and of the end is 0."""
    pairs = [
        Image(id, id, (text,), image=np.ones((1, 4), np.float32))
        for id, text in (("1", "a b"), ("2", "a c"))
    ]
    fit = made(examples=pairs)
    batch = fit.collate([fit.row(pairs[0])])
    sequences = torch.tensor([[START, *fit.codec.vocabulary.ids(["b", "a"]), END]])
    # Words: cosine 1. Pairs (b a), (a end) and (a b), (b end) differ, and so do threes. Lengths are
    # equal.
    assert fit.rewards(sequences, batch["references"]).tolist() == pytest.approx([2.5])
    # a b end: each pair and three is of one document: 1 + 1 + 1. Without its end, it is a word too
    # short.
    whole = torch.tensor([[START, *fit.codec.vocabulary.ids(["a", "b"]), END, PAD]])
    assert fit.rewards(whole, batch["references"]).tolist() == pytest.approx([7.5])
    cut = fit.rewards(whole[:, :3], batch["references"]).item()
    assert cut == pytest.approx(2.5 * (1 + 0.5**0.5) * np.exp(-1 / 72))


def test_the_reward_counts_punctuation_unknown_words_and_an_end_within_the_length(made):
    fit = made()
    row = fit.row(lesson(1)[0])
    ids = fit.codec.vocabulary.ids(["a", "cat", "sits", "here", ".", "it", "sees", "a", "cat", "."])
    assert row["references"] == [" ".join(map(str, [*ids, END]))]
    long = Image("e", "e", ("strange " * 12,), image=lesson(1)[0].image)
    assert fit.row(long)["references"] == [" ".join(["1"] * 12)]


@pytest.mark.parametrize("rule", ["plain", "dim:log(1.9)", "dydim:log,power(0.5)"])
def test_the_loss_and_its_gradient_are_those_of_the_equation(rule, made):
    """- sum_b A_b sum_t log p(w_bt) / words, from teacher forcing one image at a time; and the sign
    is right."""
    fit = made(rule)
    model = fit.model.train()
    torch.manual_seed(3)
    played = fit.played(batch_of(fit))
    played["advantage"] = torch.tensor([1.0, -2.0, 0.0, 0.5])
    loss = fit.loss(model, dict(played))
    total, words, likelihood = 0, 0, []
    for i, advantage in enumerate((1.0, -2.0, 0.0, 0.5)):
        ids = [id for id in played["labels"][i].tolist() if id != -100]
        regions = int(played["attention_mask"][i].sum())
        logits = model(
            features=played["features"][i : i + 1, :regions],
            decoder_input_ids=torch.tensor([[START, *ids[:-1]]]),
        ).logits[0]
        log_p = sum(row[id] for row, id in zip(logits.log_softmax(-1), ids, strict=True))
        likelihood.append(log_p)
        total = total - advantage * log_p
        words += len(ids)
    torch.testing.assert_close(loss, total / words, rtol=1e-4, atol=1e-5)
    weights = list(model.parameters())
    fast, slow = (torch.autograd.grad(x, weights, retain_graph=True) for x in (loss, total / words))
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-5)
    # A small step down the loss makes what earned more likelier, and what earned less unlikelier.
    before = [x.item() for x in likelihood]
    for i, sign in ((0, 1), (1, -1)):
        one = {k: v if k == "seed" else v[i : i + 1] for k, v in played.items()}
        gradient = torch.autograd.grad(fit.loss(model, dict(one)), weights)
        with torch.no_grad():
            for p, g in zip(weights, gradient, strict=True):
                p -= 1e-3 * g
        after = -fit.loss(model, one | {"advantage": torch.ones(1)}).item() * int(
            (one["labels"] != -100).sum()
        )
        assert (after - before[i]) * sign > 0
        with torch.no_grad():
            for p, g in zip(weights, gradient, strict=True):
                p += 1e-3 * g


def every(most, words=(4, 5)):
    """All texts of two words, as rows (1 + T) from the start to the end, or ``most`` words long."""
    whole, open_ = [], [[START]]
    for _ in range(most):
        whole += [[*row, END] for row in open_]
        open_ = [[*row, word] for row in open_ for word in words]
    texts = whole + open_
    return torch.tensor([row + [PAD] * (1 + most - len(row)) for row in texts])


def test_the_gradient_is_that_of_the_expected_reward(made, monkeypatch):
    """A vocabulary of two words: all 63 texts are enumerated, and so is the gradient of what a draw
    earns on average.

    Drawn are 20,000 texts at once. The penalty, far too strong, must not reach them; the last lines
    show that this test would see it.
    """
    pairs = [
        Image(str(i), str(i), (text,), image=np.ones((1, 4), np.float32))
        for i, text in enumerate(("a b a", "b"))
    ]
    settings = TrainingSettings(steps=1, batch_size=2, objective="self-critical", soft_trigrams=9.0)
    fit = made("dim:log(1.9)", settings, pairs, target_length=5)
    with torch.no_grad():
        fit.model.output.bias[[PAD, 1, START]] = -1e4  # never drawn
        fit.model.output.bias[END] -= 1  # long texts, in which trigrams come again
    texts = every(5)
    image = fit.collate([fit.row(pairs[0])])
    references = image.pop("references")
    times = {k: v.expand(len(texts), *v.shape[1:]) for k, v in image.items()}
    reward = fit.rewards(texts, references * len(texts)) - fit.rewards(
        fit.greedy(image), references
    )
    targets = labels(texts, END)
    logits = fit.model(**{**times, "labels": targets}).logits.log_softmax(-1)
    steps = logits.gather(-1, targets.clamp(min=0).unsqueeze(-1)).squeeze(-1) * (targets >= 0)
    chance = steps.sum(1).exp()
    assert chance.sum().item() == pytest.approx(1, abs=1e-5)

    def expected(chance):
        """The gradient of - E[advantage] / E[words] where the words are not learnt."""
        words = (chance * (targets >= 0).sum(1)).sum()
        weighted = (chance * reward).detach() * steps.sum(1)
        gradient = torch.autograd.grad(
            -weighted.sum() / words.detach(), list(fit.model.parameters()), retain_graph=True
        )
        return torch.cat([g.flatten() for g in gradient])

    many = fit.collate([fit.row(pairs[0])] * 20_000)
    torch.manual_seed(0)
    loss = fit.loss(fit.model, fit.played(many))
    drawn = torch.cat(
        [g.flatten() for g in torch.autograd.grad(loss, list(fit.model.parameters()))]
    )

    def apart(one, other):
        return ((one - other).norm() / other.norm()).item()

    assert apart(drawn, expected(chance)) < 0.05
    penalised = SoftTrigrams(9.0)
    lost = sum(
        penalised(texts[:, :t], logits[:, t - 1]).gather(1, texts[:, t : t + 1])[:, 0]
        * (targets[:, t - 1] >= 0)
        for t in range(1, 6)
    )
    assert apart(expected((lost.exp() / lost.exp().sum()).detach()), expected(chance)) > 0.2


def test_the_likelihood_is_of_the_distribution_that_was_drawn_from_dropout_and_all(
    made, monkeypatch
):
    seen = []
    whole = torch.multinomial
    monkeypatch.setattr(torch, "multinomial", lambda p, n: seen.append(p) or whole(p, n))
    fit = made(dropout=0.5)
    played = fit.played(batch_of(fit))
    count = len(seen)
    fit.loss(fit.model.train(), dict(played))
    assert len(seen) == 2 * count
    for t, (first, again) in enumerate(zip(seen[:count], seen[count:], strict=True)):
        going = played["labels"][:, t] >= 0
        torch.testing.assert_close(first[going], again[going])
    assert played["labels"].shape[1] == count
    still = fit.model.eval()(
        **{k: v for k, v in played.items() if k not in ("advantage", "seed")}
    ).logits.softmax(-1)
    assert not torch.allclose(still[:, 0], seen[0], atol=0.01)


def test_what_follows_the_end_is_no_label():
    sequences = torch.tensor([[START, 5, END, 0, 0], [START, 5, 6, 7, 8], [START, END, 0, 0, 0]])
    assert labels(sequences, END).tolist() == [
        [5, END, -100, -100],
        [5, 6, 7, 8],
        [END, -100, -100, -100],
    ]


def test_samples_are_drawn_and_the_greedy_one_is_not(made):
    fit = made()
    batch = batch_of(fit, 8)
    batch.pop("references")
    greedy = [fit.greedy(batch) for _ in range(2)]
    drawn = [fit.drawn(batch, seed) for seed in (1, 2, 1)]
    assert torch.equal(*greedy)
    assert drawn[0].shape != drawn[1].shape or not torch.equal(*drawn[:2])
    assert torch.equal(drawn[0], drawn[2])
    assert fit.model.training


def test_the_trigram_penalty_is_in_the_greedy_paragraph_alone(made, monkeypatch):
    seen = []
    whole = SoftTrigrams.__call__
    monkeypatch.setattr(
        SoftTrigrams, "__call__", lambda self, *a: seen.append(self.alpha) or whole(self, *a)
    )
    fit = made(
        settings=TrainingSettings(
            steps=1, batch_size=4, objective="self-critical", soft_trigrams=2.0
        )
    )
    batch = batch_of(fit)
    batch.pop("references")
    fit.drawn(batch, 1)
    assert not seen
    fit.greedy(batch)
    assert set(seen) == {2.0}
    with pytest.raises(ValueError, match="soft_trigrams belongs to self-critical training"):
        TrainingSettings(steps=1, soft_trigrams=2.0)


def test_only_a_captioner_is_trained_so(tmp_path):
    examples = [Example(f"e{i}", "a b c", ("a b",)) for i in range(4)]
    wanted = ModelSettings(kind="pointer-generator", size="tiny", vocabulary=20)
    model, codec = build(wanted, lambda: ((e.source, e.target) for e in examples), seed=1)
    with pytest.raises(ValueError, match="for a top-down captioner, not for a PointerGenerator"):
        train(model, codec, examples, [], SETTINGS, tmp_path, 1)


@pytest.mark.slow
def test_it_earns_more_than_before(made):
    """From a model that has hardly begun, the reward of what it writes rises."""
    fit = made(
        "dim:log(1.9)",
        TrainingSettings(steps=60, batch_size=16, objective="self-critical", learning_rate=0.01),
    )
    batch = batch_of(fit, 16)
    references = batch.pop("references")
    before = fit.rewards(fit.greedy(batch), references).mean()
    fit.train()
    after = fit.rewards(fit.greedy(batch), references).mean()
    assert after > before + 0.5


def test_the_loss_on_dev_is_minus_the_reward(made):
    fit = made()
    batch = batch_of(fit)
    greedy = fit.greedy({k: v for k, v in batch.items() if k != "references"})
    expected = -fit.rewards(greedy, batch["references"]).mean().item()
    assert fit.evaluate()["eval_loss"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.skipif(
    not torch.distributed.is_gloo_available(), reason="two processes on a CPU need gloo"
)
def test_two_processes_are_as_one(tmp_path):
    """Each has half of every batch and draws paragraphs of other lengths: still one mean over all
    words of a step."""
    program = Path(__file__).with_name("critical.py")
    subprocess.run(
        [sys.executable, program, tmp_path], check=True, capture_output=True, timeout=300
    )
    together = torch.load(tmp_path / "two.pt", weights_only=True)
    for name, weight in taught(tmp_path / "one").items():
        torch.testing.assert_close(together[name], weight, rtol=1e-4, atol=1e-5, msg=name)
