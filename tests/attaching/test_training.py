"""Training an attached model: exact gradients, the library's trainer, checkpointing, low precision,
adapters."""

import copy

import pytest
import torch
import transformers as hf
from torch import nn

import dwindle
from tests.attaching.small import (
    CHECKPOINTING,
    END,
    PAD,
    RULE,
    bart,
    forget_activations,
    generated,
    same,
    source,
    t5_in_double,
    target,
    words,
)

MASK = torch.tensor([[1] * 7, [0] * 3 + [1] * 4])


def gradients(model) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def step(model, **extra) -> torch.Tensor:
    """One backward pass of teacher forcing."""
    model.zero_grad()
    loss = model(**source(), decoder_input_ids=target(), labels=target(seed=20), **extra).loss
    loss.backward()
    return loss.detach()


def equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    """For models in float64: what should be zero (the bias of keys) is noise in float32."""
    assert a.keys() == b.keys()
    for name in a:
        torch.testing.assert_close(
            a[name], b[name], rtol=1e-7, atol=1e-9, msg=f"the gradient of {name} differs"
        )


class SlowTwin(nn.Module):
    """BART's cross-attention in plain code, one row after the other: Eq. 5 as it stands in the
    paper."""

    def __init__(self, original):
        super().__init__()
        self.k_proj, self.v_proj, self.q_proj = original.k_proj, original.v_proj, original.q_proj
        self.out_proj, self.heads = original.out_proj, original.num_heads

    def forward(self, hidden_states, key_value_states=None, attention_mask=None, **_):
        q, k, v = (
            project(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project, x in (
                (self.q_proj, hidden_states),
                (self.k_proj, key_value_states),
                (self.v_proj, key_value_states),
            )
        )
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        # before 5.10: numbers
        hidden = ~attention_mask if attention_mask.dtype is torch.bool else attention_mask < 0
        attention = scores.masked_fill(hidden, float("-inf")).softmax(-1)
        covered = peak = torch.zeros_like(attention[..., 0, :])
        weights = []
        for a in attention.unbind(-2):
            g1 = torch.log(1 + covered + a) - torch.log(1 + covered)
            g2 = torch.sqrt(1 + covered + a) - torch.sqrt(1 + covered)
            weights.append(peak * g1 + (1 - peak) * g2)
            covered, peak = covered + a, torch.maximum(peak, a)
        context = torch.stack(weights, dim=-2) @ v
        return self.out_proj(context.transpose(1, 2).flatten(-2)), None


def test_gradients_are_those_of_a_slow_twin():
    fast, slow = bart().double(), bart().double()
    dwindle.attach(fast, RULE, layers=[1])
    slow.model.decoder.layers[1].encoder_attn = SlowTwin(slow.model.decoder.layers[1].encoder_attn)
    torch.testing.assert_close(step(fast), step(slow))
    equal(gradients(fast), gradients(slow))


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize(
    ("build", "rule", "extra"),
    [
        (bart, RULE, {}),
        (bart, "training-free", {}),
        (t5_in_double, RULE, {"decoder_attention_mask": MASK}),
        (t5_in_double, "training-free", {"decoder_attention_mask": MASK}),
    ],
)
def test_gradient_checkpointing(build, rule, extra, reentrant):
    model = build().double().train()
    dwindle.attach(model, rule)
    loss = step(model, **extra)
    right = gradients(model)
    forget_activations(model, reentrant)
    if reentrant:
        model.enable_input_require_grads()
    torch.testing.assert_close(step(model, **extra), loss)
    equal(gradients(model), right)


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("rule", [RULE, "training-free"])
def test_two_batches_before_one_backward_pass(rule, reentrant):
    """What a call needs to be run again is the call's own, not that of the last one."""
    model = t5_in_double().train()
    dwindle.attach(model, rule)

    def both() -> dict:
        model.zero_grad()
        first = model(
            **source(), decoder_input_ids=target(), decoder_attention_mask=MASK, labels=target()
        ).loss
        second = model(**source(seed=5), decoder_input_ids=target(5), labels=target(5)).loss
        (first + second).backward()
        return gradients(model)

    right = both()
    forget_activations(model, reentrant)
    if reentrant:
        model.enable_input_require_grads()
    equal(both(), right)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("whole", [True, False], ids=["whole model", "autocast"])
@pytest.mark.parametrize("rule", [RULE, "training-free"])
def test_low_precision(dtype, whole, rule):
    """As near to float32 as the untouched model is, and coverage itself stays in float32."""

    def off(model) -> float:
        exact = model(**source(), decoder_input_ids=target()).logits
        lower = copy.deepcopy(model).to(dtype) if whole else model
        with torch.autocast("cpu", dtype, enabled=not whole):
            out = lower(**source(), decoder_input_ids=target())
        layer = out.past_key_values.self_attention_cache.layers[0]
        if hasattr(layer, "coverage"):
            assert layer.coverage.total.dtype == torch.float32
            assert layer.coverage.total.max() > 1
        out.logits.float().square().mean().backward()
        assert all(torch.isfinite(p.grad).all() for p in lower.parameters() if p.grad is not None)
        return float(
            (out.logits.float() - exact).abs().mean().detach() / exact.abs().mean().detach()
        )

    model = bart(init_std=0.15)
    plain = off(model)
    dwindle.attach(model, rule)
    assert off(model) < 3 * plain + 1e-3


@pytest.mark.parametrize("backend", ["chunked", "eager"])
@pytest.mark.parametrize("rule", [RULE, "training-free"])
def test_float16_with_a_scaled_loss(rule, backend, monkeypatch):
    """Gradients that float16 alone would lose come through, unscaled as in float32; a step whose
    gradients overflow is left out, and the scale is halved."""
    monkeypatch.setenv("DWINDLE_BACKEND", backend)
    model = bart(init_std=0.15)
    dwindle.attach(model, rule)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12)
    inputs = {**source(), "decoder_input_ids": target()}

    def loss() -> torch.Tensor:  # so small that its gradients are below float16's smallest number
        return 1e-4 * model(**inputs).logits.float().square().mean()

    def gradients() -> torch.Tensor:
        return torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])

    loss().backward()
    right = gradients()
    optimiser.zero_grad()
    with torch.autocast("cpu", torch.float16):
        scaled = scaler.scale(loss())
    scaled.backward()
    scaler.unscale_(optimiser)
    assert (gradients() - right).norm() / right.norm() < 0.02
    scaler.step(optimiser)
    scaler.update()
    assert scaler.get_scale() == 2.0**12
    before = model.get_output_embeddings().weight.detach().clone()
    next(model.parameters()).grad.fill_(float("inf"))
    scaler.step(optimiser)
    scaler.update()
    assert scaler.get_scale() == 2.0**11
    torch.testing.assert_close(model.get_output_embeddings().weight, before)


def test_low_precision_generates():
    model = bart().to(torch.bfloat16)
    dwindle.attach(model, RULE)
    with_cache, without = (
        generated(model, source(), num_beams=4, use_cache=c) for c in (True, False)
    )
    assert torch.isfinite(with_cache.sequences_scores).all()
    torch.testing.assert_close(with_cache.scores[0], without.scores[0], rtol=0, atol=0.5)


def test_coverage_counts_clean_attention_under_dropout():
    model = bart(attention_dropout=0.5)
    dwindle.attach(model, RULE, layers=[0])

    def covered(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        out = model(**source(), decoder_input_ids=target())
        return out.past_key_values.self_attention_cache.layers[0].coverage.total

    calm = covered(0)
    # each row of attention sums to one
    torch.testing.assert_close(calm.sum(-1), torch.full((2, 4), 7.0))
    model.model.decoder.layers[0].encoder_attn.train()
    torch.testing.assert_close(covered(1), calm)
    logits = [model(**source(), decoder_input_ids=target()).logits for _ in range(2)]
    assert not torch.allclose(*logits)  # the weights themselves were dropped


class Copies(torch.utils.data.Dataset):
    """Sources and the first words of them."""

    def __len__(self):
        return 12

    def __getitem__(self, i):
        text = words(6 + i % 3, i)
        return {"input_ids": [*text, END], "labels": [*text[:4], END]}


def collate(items):
    width = max(len(x["input_ids"]) for x in items)
    ids = torch.tensor([x["input_ids"] + [PAD] * (width - len(x["input_ids"])) for x in items])
    return {
        "input_ids": ids,
        "attention_mask": (ids != PAD).long(),
        "labels": torch.tensor([x["labels"] for x in items]),
    }


def trainer(model, folder, **settings) -> hf.Seq2SeqTrainer:
    base = {
        "per_device_train_batch_size": 4,
        "learning_rate": 1e-3,
        "num_train_epochs": 2,
        "save_steps": 2,
        "logging_steps": 1,
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "seed": 3,
    }
    arguments = hf.Seq2SeqTrainingArguments(str(folder), **{**base, **settings})
    return hf.Seq2SeqTrainer(
        model,
        arguments,
        data_collator=collate,
        train_dataset=Copies(),
        eval_dataset=Copies(),
        compute_metrics=lambda x: {"length": float(x.predictions.shape[1])},
    )


quiet = pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning", "ignore::FutureWarning")


@quiet
def test_trainer_with_generation_and_the_best_model(tmp_path):
    model = bart()
    dwindle.attach(model, RULE, layers=2)
    run = trainer(
        model,
        tmp_path,
        predict_with_generate=True,
        generation_max_length=6,
        generation_num_beams=2,
        eval_strategy="steps",
        eval_steps=2,
        load_best_model_at_end=True,
        metric_for_best_model="loss",
    )
    run.train()
    assert all(torch.tensor(x["loss"]).isfinite() for x in run.state.log_history if "loss" in x)
    predictions = run.predict(Copies()).predictions
    model.eval()
    inputs = {
        name: x for name, x in collate([Copies()[i] for i in range(8)]).items() if name != "labels"
    }
    alone = model.generate(**inputs, max_length=6, num_beams=2)
    assert torch.equal(torch.tensor(predictions)[:8, : alone.shape[1]], alone)

    best = dwindle.from_pretrained(run.state.best_model_checkpoint)
    for (name, a), (_, b) in zip(
        best.state_dict().items(), model.state_dict().items(), strict=True
    ):
        assert torch.equal(a, b), name
    assert dwindle.handle_of(best).settings.as_dict() == {"rule": RULE, "layers": [1, 2]}


@quiet
def test_trainer_resumes(tmp_path):
    runs = []
    for part in ("whole", "resumed"):
        model = bart()
        dwindle.attach(model, RULE)
        run = trainer(model, tmp_path / part)
        if part == "whole":
            run.train()
        else:
            run.train(resume_from_checkpoint=str(tmp_path / "whole" / "checkpoint-4"))
        runs.append(model.state_dict())
    for name in runs[0]:
        torch.testing.assert_close(runs[0][name], runs[1][name], msg=name)


@quiet
def test_trainer_in_bfloat16_with_checkpointing(tmp_path):
    model = bart()
    dwindle.attach(model, "training-free")
    more = {CHECKPOINTING: True, "max_steps": 2, "gradient_accumulation_steps": 2}
    run = trainer(model, tmp_path, bf16=True, **more)
    assert torch.tensor(run.train().training_loss).isfinite()
    assert dwindle.handle_of(model).layers == [0, 1, 2]


@quiet
def test_lora(tmp_path):
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(
        task_type="SEQ_2_SEQ_LM", r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False
    )
    model = bart()
    dwindle.attach(model, "training-free")
    adapted = peft.get_peft_model(model, settings)
    trainer(adapted, tmp_path, max_steps=2).train()
    adapted.eval()
    assert all("lora" in name for name, p in adapted.named_parameters() if p.grad is not None)

    right = generated(adapted, source(), num_beams=4)
    assert same(generated(adapted, source(), num_beams=4, use_cache=False), right)
    adapted.save_pretrained(tmp_path / "adapter")

    again = bart()
    dwindle.attach(again, "training-free")
    again = peft.PeftModel.from_pretrained(again, tmp_path / "adapter").eval()
    assert same(generated(again, source(), num_beams=4), right)

    merged = adapted.merge_and_unload()
    assert merged is model
    assert same(generated(merged, source(), num_beams=4), right, atol=1e-3)
    merged.save_pretrained(tmp_path / "merged")
    assert same(
        generated(dwindle.from_pretrained(tmp_path / "merged").eval(), source(), num_beams=4),
        right,
        atol=1e-3,
    )
    dwindle.detach(merged)
    assert not same(generated(merged, source(), num_beams=4), right, atol=1e-3)


def test_attach_after_an_adapter():
    """The other order: a model that an adapter wraps already."""
    peft = pytest.importorskip("peft")
    settings = peft.LoraConfig(task_type="SEQ_2_SEQ_LM", r=2, target_modules=["q_proj"])
    model, adapted = bart(), peft.get_peft_model(bart(), settings).eval()
    dwindle.attach(model, RULE)
    dwindle.attach(adapted.get_base_model(), RULE)
    out = [m(**source(), decoder_input_ids=target()).logits for m in (model, adapted)]
    torch.testing.assert_close(*out)
