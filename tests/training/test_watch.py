"""Repetition and coverage in the curves of a training, which they leave as it is."""

import numpy as np
import pytest
import torch
import transformers as hf
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

import dwindle
from dwindle.metrics.entropy import entropies
from dwindle.models.subword import trained

TEXTS = [
    "the ferry is late again today",
    "the mayor closed the old bridge",
    "a storm came over the river",
]
NAMES = [*(f"eval_repetition{n}" for n in (1, 2, 3, 4)), "eval_unused", "eval_coverage_entropy"]


@pytest.fixture(scope="module")
def tokenizer():
    return trained(TEXTS, 320, "bart")


def made(tokenizer, folder, watch=True, **more):
    """A trainer of a tiny BART with a rule; with dropout, so that a number drawn elsewhere would
    show."""
    torch.manual_seed(0)
    sizes = {
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
    }
    sizes |= {
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "dropout": 0.1,
        "init_std": 0.5,
    }
    ids = {
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "forced_eos_token_id": None,
    }
    ids |= {
        "bos_token_id": tokenizer.bos_token_id,
        "decoder_start_token_id": tokenizer.eos_token_id,
    }
    model = hf.BartForConditionalGeneration(
        hf.BartConfig(vocab_size=len(tokenizer), **sizes, **ids)
    )
    dwindle.attach(model, "dim:log")
    rows = [tokenizer(text, text_target=text) for text in TEXTS]
    rows = [{name: row[name] for name in ("input_ids", "attention_mask", "labels")} for row in rows]
    settings = {
        "max_steps": 4,
        "eval_strategy": "steps",
        "eval_steps": 2,
        "report_to": "none",
        "use_cpu": True,
    }
    settings |= {"save_strategy": "no", "per_device_train_batch_size": 2, "disable_tqdm": True}
    trainer = hf.Seq2SeqTrainer(
        model,
        hf.Seq2SeqTrainingArguments(folder, **(settings | more)),
        hf.DataCollatorForSeq2Seq(tokenizer),
        train_dataset=rows,
        eval_dataset=rows,
        processing_class=tokenizer,
    )
    if watch:
        trainer.add_callback(dwindle.Watch(trainer, TEXTS, max_new_tokens=8))
    return trainer


def test_curves_go_where_the_trainer_reports_to(tokenizer, tmp_path, monkeypatch):
    monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "logs"))
    trainer = made(tokenizer, tmp_path, report_to="tensorboard")
    seen = []

    class Other(hf.TrainerCallback):  # as that of Weights & Biases is
        def on_log(self, args, state, control, logs, **_):
            seen.append(logs)

    trainer.add_callback(Other)
    trainer.train()
    logged = [logs for logs in seen if "eval_unused" in logs]
    assert len(logged) == 2
    curves = EventAccumulator(str(next((tmp_path / "logs").rglob("events*")).parent))
    curves.Reload()
    for name in NAMES:
        told = [event.value for event in curves.Scalars(name.replace("eval_", "eval/", 1))]
        assert told == pytest.approx([logs[name] for logs in logged])
    assert [entry["step"] for entry in trainer.state.log_history if "eval_unused" in entry] == [
        2,
        4,
    ]


def test_the_numbers_are_those_of_what_the_model_writes(tokenizer, tmp_path):
    trainer = made(tokenizer, tmp_path)
    found = dwindle.Watch(trainer, TEXTS[:1], max_new_tokens=8).measured()
    model = trainer.model.eval()
    given = tokenizer(TEXTS[:1], return_tensors="pt")
    given.pop("token_type_ids", None)
    with torch.no_grad(), dwindle.record(model) as records:
        (written,) = model.generate(**given, max_new_tokens=8, do_sample=False)
    words = tokenizer.decode(written, skip_special_tokens=True).split()
    (record,) = records
    coverage = record.coverage[:, 0].double()  # (L, S)
    mean = coverage.mean(0)
    assert found["eval_unused"] == pytest.approx(
        100 * (mean <= mean.mean() / 2).double().mean().item()
    )
    both = np.stack([coverage.numpy(), record.effective[:, 0].double().numpy()])
    assert found["eval_coverage_entropy"] == pytest.approx(entropies(both, "")[1])
    assert found["eval_repetition1"] == pytest.approx(
        dwindle.evaluate([" ".join(words)], metrics="repetition1")["repetition1"].value
    )


def test_training_is_the_same_without_it(tokenizer, tmp_path):
    """Even if what it writes is drawn at random."""
    weights = []
    for watch in (True, False):
        trainer = made(tokenizer, tmp_path, watch=False)
        if watch:
            trainer.add_callback(dwindle.Watch(trainer, TEXTS, max_new_tokens=8, do_sample=True))
        trainer.train()
        weights.append(trainer.model.state_dict())
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_what_would_watch_nothing_is_refused(tokenizer, tmp_path):
    with pytest.raises(ValueError, match="set eval_strategy"):
        made(tokenizer, tmp_path, eval_strategy="no").train()
    trainer = made(tokenizer, tmp_path)
    with pytest.raises(ValueError, match="no sources"):
        dwindle.Watch(trainer, [])
    trainer.processing_class = None
    with pytest.raises(ValueError, match="processing_class"):
        dwindle.Watch(trainer, TEXTS)
