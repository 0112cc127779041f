"""Self-critical training: rewards and advantages by hand, the gradient and its sign, processes, and that it helps."""

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
from dwindle.models.vocabulary import END, START
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
    """Four images; what is drawn and what is greedy is given; the rewards are CIDEr-D of the training references."""
    fit = made()
    batch = batch_of(fit)
    ids = fit.codec.vocabulary.ids
    drawn = torch.tensor([[START, *ids(f"a {kind} sits here .".split()), END] for kind in KINDS])
    greedy = torch.tensor([[START, *ids(["a", "cat", "sits", "here", "."]), END]] * 4)
    monkeypatch.setattr(fit, "written", lambda batch, sample: drawn if sample else greedy)
    played = fit.played(batch)
    scorer = CiderScorer([e.references for e in lesson()], unicode_words=True)
    by_hand = [
        scorer.reward(f"a {kind} sits here .", e.references) - scorer.reward("a cat sits here .", e.references)
        for kind, e in zip(KINDS, lesson(4), strict=True)
    ]
    assert played["advantage"].tolist() == pytest.approx(by_hand, rel=1e-6)
    assert by_hand[0] == 0
    assert min(by_hand[1:]) > 0.1
    assert torch.equal(played["labels"], drawn[:, 1:])
    assert "references" not in played


def test_the_reward_of_one_text_by_hand(made):
    """Two documents, 'a b' and 'a c': the idf of b is ln 2, that of a is 0, so among the words only b counts."""
    pairs = [Image(id, id, (text,), image=np.ones((1, 4), np.float32)) for id, text in (("1", "a b"), ("2", "a c"))]
    fit = made(examples=pairs)
    batch = fit.collate([fit.row(pairs[0])])
    sequences = torch.tensor([[START, *fit.codec.vocabulary.ids(["b", "a"]), END]])
    # Words: cosine 1. Pairs (b a) and (a b) differ: 0. No longer n-grams. Lengths are equal. 10 (1 + 0 + 0 + 0) / 4.
    assert fit.rewards(sequences, batch, batch["references"]).tolist() == pytest.approx([2.5])


@pytest.mark.parametrize("rule", ["plain", "dim:log(1.9)", "dydim:log,power(0.5)"])
def test_the_loss_and_its_gradient_are_those_of_the_equation(rule, made):
    """- sum_b A_b sum_t log p(w_bt) / words, from teacher forcing one image at a time; and the sign is right."""
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
            features=played["features"][i : i + 1, :regions], decoder_input_ids=torch.tensor([[START, *ids[:-1]]])
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
        one = {k: v[i : i + 1] for k, v in played.items()}
        gradient = torch.autograd.grad(fit.loss(model, dict(one)), weights)
        with torch.no_grad():
            for p, g in zip(weights, gradient, strict=True):
                p -= 1e-3 * g
        after = -fit.loss(model, one | {"advantage": torch.ones(1)}).item() * int((one["labels"] != -100).sum())
        assert (after - before[i]) * sign > 0
        with torch.no_grad():
            for p, g in zip(weights, gradient, strict=True):
                p += 1e-3 * g


def test_what_follows_the_end_is_no_label():
    sequences = torch.tensor([[START, 5, END, 0, 0], [START, 5, 6, 7, 8], [START, END, 0, 0, 0]])
    assert labels(sequences, END).tolist() == [[5, END, -100, -100], [5, 6, 7, 8], [END, -100, -100, -100]]


def test_samples_are_drawn_and_the_greedy_one_is_not(made):
    fit = made()
    batch = batch_of(fit, 8)
    batch.pop("references")
    greedy = [fit.written(batch, sample=False) for _ in range(2)]
    drawn = [fit.written(batch, sample=True) for _ in range(2)]
    assert torch.equal(*greedy)
    assert drawn[0].shape != drawn[1].shape or not torch.equal(*drawn)
    fit.model.train()
    fit.written(batch, sample=True)
    assert fit.model.training


def test_the_trigram_penalty_is_in_what_is_drawn_and_written(made, monkeypatch):
    seen = []
    whole = SoftTrigrams.__call__
    monkeypatch.setattr(SoftTrigrams, "__call__", lambda self, *a: seen.append(self.alpha) or whole(self, *a))
    fit = made(settings=TrainingSettings(steps=1, batch_size=4, objective="self-critical", soft_trigrams=2.0))
    fit.played(batch_of(fit))
    assert set(seen) == {2.0}
    with pytest.raises(ValueError, match="soft_trigrams is of self-critical training"):
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
    fit = made("dim:log(1.9)", TrainingSettings(steps=60, batch_size=16, objective="self-critical", learning_rate=0.01))
    batch = batch_of(fit, 16)
    references = batch.pop("references")
    before = fit.rewards(fit.written(batch, sample=False), batch, references).mean()
    fit.train()
    after = fit.rewards(fit.written(batch, sample=False), batch, references).mean()
    assert after > before + 0.5


def test_the_loss_on_dev_is_minus_the_reward(made):
    fit = made()
    batch = batch_of(fit)
    greedy = fit.written({k: v for k, v in batch.items() if k != "references"}, sample=False)
    expected = -fit.rewards(greedy, batch, batch["references"]).mean().item()
    assert fit.evaluate()["eval_loss"] == pytest.approx(expected, abs=1e-6)


@pytest.mark.skipif(not torch.distributed.is_gloo_available(), reason="two processes on a CPU need gloo")
def test_two_processes_are_as_one(tmp_path):
    """Each has half of every batch and draws paragraphs of other lengths: still one mean over all words of a step."""
    program = Path(__file__).with_name("critical.py")
    subprocess.run([sys.executable, program, tmp_path], check=True, capture_output=True, timeout=300)
    together = torch.load(tmp_path / "two.pt", weights_only=True)
    for name, weight in taught(tmp_path / "one").items():
        torch.testing.assert_close(together[name], weight, rtol=1e-4, atol=1e-5, msg=name)
