"""Learning rates against their formulas and the library's own, and what the optimisers are
given."""

import pytest
import torch
import transformers as hf
from torch import nn

from dwindle.training.optimise import factor, optimiser, schedule
from dwindle.training.settings import TrainingSettings
from tests.training.lesson import made

STEPS, EPOCH = 40, 3


def settings(**given) -> TrainingSettings:
    return TrainingSettings(**{"steps": STEPS, "learning_rate": 0.5, **given})


def rates(given: TrainingSettings) -> list[float]:
    """The rate of every step, as an optimiser sees it."""
    optimizer = torch.optim.Adam(
        [{"params": [nn.Parameter(torch.zeros(1))], "lr": 0.5, "warmup": given.warmup}]
    )
    rate, found = schedule(optimizer, given, STEPS, EPOCH), []
    for _ in range(STEPS):
        found.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        rate.step()
    return found


@pytest.mark.parametrize(
    ("kind", "right"),
    [
        ("constant", lambda n: 1.0),
        ("inverse-sqrt", lambda n: (6 / n) ** 0.5),
        ("linear", lambda n: (41 - n) / 34),
        ("polynomial", lambda n: ((41 - n) / 34) ** 2),
        ("step", lambda n: 0.85 ** ((n - 1) // 3 // 2)),
    ],
)
def test_schedules(kind, right):
    given = settings(schedule=kind, warmup=6, power=2.0, decay_every=2)
    expected = [0.5 * (n / 6 if n <= 6 else right(n)) for n in range(1, STEPS + 1)]
    assert rates(given) == pytest.approx(expected)


def test_inverse_sqrt_is_the_librarys():
    """Which counts from 0, and begins its warm-up with a rate of 0."""
    weight = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=0.5)
    library = hf.get_inverse_sqrt_schedule(weight, num_warmup_steps=6).lr_lambdas[0]
    given = settings(schedule="inverse-sqrt", warmup=6)
    assert [factor(given, 6, n, STEPS, EPOCH) for n in range(1, 40)] == pytest.approx(
        [library(n) for n in range(1, 40)]
    )


def test_noam_is_presumms():
    """PreSumm's rates at steps that matter: the encoder's 2e-3 peaks at 20k, the decoder's 0.2 at
    10k."""
    given = settings(schedule="noam", warmup=10_000, learning_rate=0.2)
    assert factor(given, 10_000, 10_000, STEPS, EPOCH) == pytest.approx(0.01)
    assert factor(given, 20_000, 5_000, STEPS, EPOCH) == pytest.approx(5_000 * 20_000**-1.5)
    assert factor(given, 20_000, 80_000, STEPS, EPOCH) == pytest.approx(80_000**-0.5)


def test_an_encoder_with_its_own_rate():
    model, _ = made("transformer", kind="bertsum")
    given = settings(
        schedule="noam",
        learning_rate=0.2,
        warmup=10,
        encoder_learning_rate=2e-3,
        encoder_warmup=20,
        weight_decay=0.1,
    )
    optimizer = optimiser(model, given)
    schedule(optimizer, given, STEPS, EPOCH)
    encoder = {id(p) for p in model.encoder.parameters()}
    for group in optimizer.param_groups:
        inside = {id(p) in encoder for p in group["params"]}
        assert len(inside) == 1
        rate, warmup = (2e-3, 20) if inside.pop() else (0.2, 10)
        assert group["lr"] == pytest.approx(rate * warmup**-1.5)
        for p in group["params"]:
            assert group["weight_decay"] == (0.1 if p.dim() > 1 else 0.0)
    assert sum(len(group["params"]) for group in optimizer.param_groups) == sum(
        p.requires_grad for p in model.parameters()
    )


def test_adagrad_begins_with_its_accumulator():
    """See's Adagrad: one step of gradient 3 from accumulator 0.1 at rate 0.15."""
    model = nn.Linear(1, 1, bias=False)
    optimizer = optimiser(model, settings(optimiser="adagrad", learning_rate=0.15))
    before = model.weight.item()
    model.weight.grad = torch.tensor([[3.0]])
    optimizer.step()
    assert before - model.weight.item() == pytest.approx(0.15 * 3 / (0.1 + 9) ** 0.5)


@pytest.mark.parametrize(
    ("kind", "cls"), [("adam", torch.optim.Adam), ("adamw", torch.optim.AdamW)]
)
def test_adam(kind, cls):
    optimizer = optimiser(nn.Linear(2, 2), settings(optimiser=kind, beta2=0.98))
    assert type(optimizer) is cls
    assert optimizer.defaults["betas"] == (0.9, 0.98)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"steps": None}, "steps or a number of epochs"),
        ({"epochs": 2}, "steps or a number of epochs"),
        ({"optimiser": "sgd"}, "adagrad, adam, adamw"),
        ({"schedule": "cosine"}, "inverse-sqrt"),
        ({"batch_size": 0}, "1 or more"),
        ({"clip": -1.0}, "0 or more"),
        ({"label_smoothing": 1.0}, "below 1"),
        ({"learning_rate": 0.0}, "more than 0"),
        ({"schedule": "noam"}, "warmup"),
    ],
)
def test_settings_that_make_no_sense(given, says):
    with pytest.raises(ValueError, match=says):
        settings(**given)
