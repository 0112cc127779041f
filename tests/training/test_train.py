"""What a step learns from, what is refused, and what is left in the folder."""

from dataclasses import replace

import pytest
import torch
import transformers
from safetensors.torch import load_file
from torch.utils.data import DataLoader
from transformers import TrainerCallback
from transformers.trainer_pt_utils import LabelSmoother

from dwindle.attaching.library import KNOWN
from dwindle.data.example import Example
from dwindle.models.vocabulary import END
from dwindle.training.rows import Encoded, encoded
from dwindle.training.sampler import clean, sides
from dwindle.training.train import train
from dwindle.training.trainer import Fit
from tests.training.lesson import DEV, EXAMPLES, SETTINGS, made, taught

PLAIN = {
    "calm": True,
    "optimiser": "adagrad",
    "learning_rate": 0.05,
    "schedule": "constant",
    "eval_every": None,
}


def fit(kind: str, folder, model=None, codec=None, **changes) -> Fit:
    if model is None:
        model, codec = made(kind, calm=True)
    return Fit(
        model,
        codec,
        EXAMPLES,
        [],
        replace(SETTINGS[kind], eval_every=None, **changes),
        folder,
        seed=5,
    )


@pytest.mark.parametrize("kind", ["transformer", "pointer-generator"])
def test_micro_batches_of_any_size_make_one_step(kind, tmp_path):
    """A mean over all tokens (or examples, as See has it), not a mean of means. Labels have
    different lengths."""
    whole = taught(kind, tmp_path / "a", **PLAIN, steps=3, batch_size=8)
    parts = taught(kind, tmp_path / "b", **PLAIN, steps=3, batch_size=2, accumulate=4)
    for name in whole:
        torch.testing.assert_close(parts[name], whole[name], rtol=0, atol=2e-6, msg=name)


def test_the_loss_is_the_librarys(tmp_path):
    """With its label smoothing, which leaves padding out; without, the model's own."""
    lesson = fit("transformer", tmp_path, label_smoothing=0.1)
    batch = lesson.collate([lesson.row(e) for e in EXAMPLES[:5]])
    assert (batch["labels"] == -100).any()
    model = lesson.model.train()
    output = model(**batch)
    torch.testing.assert_close(
        lesson.loss(model, dict(batch)), LabelSmoother(0.1)(output, batch["labels"])
    )
    torch.testing.assert_close(lesson.loss(model.eval(), dict(batch)), output.loss)


@pytest.mark.parametrize("by_length", [False, True])
def test_every_process_has_its_part_of_the_batch(by_length, tmp_path):
    lesson = fit("transformer", tmp_path, by_length=by_length)
    loader = lesson.get_train_dataloader()
    assert isinstance(loader, DataLoader)
    assert [len(batch["labels"]) for batch in loader] == [8, 8, 8]
    assert lesson.epoch_steps == 3


def test_it_learns_with_every_kind_of_model(tmp_path):
    for kind in ("bart", "bertsum"):
        model, codec = made("transformer", kind=kind)
        lesson = fit("transformer", tmp_path / kind, model, codec, steps=12, learning_rate=3e-3)
        batch = lesson.collate([lesson.row(e) for e in EXAMPLES])
        before = lesson.loss(model.eval(), dict(batch)).item()
        lesson.train()
        assert lesson.loss(model.eval(), dict(batch)).item() < 0.8 * before


def test_another_order_every_epoch_and_every_seed(tmp_path, monkeypatch):
    def read(seed: int) -> list[int]:
        seen, original = [], Encoded.__getitem__
        monkeypatch.setattr(
            Encoded, "__getitem__", lambda self, i: seen.append(i) or original(self, i)
        )
        model, codec = made("pointer-generator")
        settings = replace(SETTINGS["pointer-generator"], steps=None, epochs=2)
        train(
            model,
            codec,
            EXAMPLES,
            [],
            settings,
            tmp_path / f"{len(list(tmp_path.iterdir()))}",
            seed,
        )
        monkeypatch.undo()
        return seen

    first, again, other = read(1), read(1), read(2)
    assert len(first) == 48
    assert first[:24] != first[24:]
    assert first == again != other


def test_cut_examples_are_counted_once(tmp_path):
    model, codec = made("pointer-generator", source_length=12)
    long = sum(len(e.source.split()) > 12 for e in EXAMPLES[:24])
    assert 0 < long < 24
    settings = replace(SETTINGS["pointer-generator"], steps=None, epochs=2)
    assert train(model, codec, EXAMPLES[:24], DEV, settings, tmp_path, seed=1) == long


def test_workers_change_nothing(tmp_path):
    one, two = (taught("pointer-generator", tmp_path / str(n), steps=4, workers=n) for n in (0, 1))
    assert all(torch.equal(one[name], two[name]) for name in one)


def test_bf16(tmp_path):
    weights = taught("transformer", tmp_path, steps=2, bf16=True)
    assert all(
        x.dtype == torch.float32 and x.isfinite().all()
        for x in weights.values()
        if x.is_floating_point()
    )


def test_curves_and_epochs(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    taught("transformer", tmp_path, steps=None, epochs=2)
    curves = EventAccumulator(str(tmp_path / "logs")).Reload()
    assert {"train/loss", "eval/loss", "train/learning_rate", "train/grad_norm"} <= set(
        curves.Tags()["scalars"]
    )
    assert [x.step for x in curves.Scalars("train/loss")] == [2, 4, 6]
    evaluated = [x.step for x in curves.Scalars("eval/loss")]
    # older: not at the end
    assert evaluated == [5, 6] or (evaluated == [5] and transformers.__version__ != KNOWN)


@pytest.mark.parametrize("often", [{"log_every": 1}, {"save_every": 1, "log_every": 10}])
def test_what_is_no_number_is_not_saved(often, tmp_path):
    with pytest.raises(ValueError, match="lower the learning rate"):
        taught("pointer-generator", tmp_path, learning_rate=1e38, clip=0.0, **often)
    saved = [load_file(file) for file in tmp_path.rglob("*.safetensors")]
    assert len(saved) == ("save_every" in often)
    assert all(x.isfinite().all() for weights in saved for x in weights.values())


def test_few_examples_are_one_batch(tmp_path):
    model, codec = made("transformer")
    train(
        model,
        codec,
        EXAMPLES[:5],
        [],
        replace(SETTINGS["transformer"], steps=2, eval_every=None),
        tmp_path,
        seed=1,
    )


def test_empty_examples_are_left_out_and_named(tmp_path):
    model, codec = made("pointer-generator")
    empty = [Example("void", " \n", ("x",)), Example("mute", "x", ("\n",))]
    with pytest.warns(
        UserWarning, match="2 of 29 training examples have an empty source or target .*: void, mute"
    ):
        train(
            model,
            codec,
            EXAMPLES + empty,
            [],
            replace(SETTINGS["pointer-generator"], steps=2),
            tmp_path,
            seed=1,
        )


@pytest.mark.parametrize(
    ("kind", "examples", "dev", "changes", "says"),
    [
        ("transformer", [], DEV, {}, "no training examples .*there are none"),
        ("transformer", [Example("a", "", ("",))], DEV, {}, "all of them are empty"),
        ("transformer", EXAMPLES, [], {"eval_every": 2}, "no dev examples"),
        ("pointer-generator", EXAMPLES, DEV, {"label_smoothing": 0.1}, "without label smoothing"),
        ("pointer-generator", EXAMPLES, DEV, {"coverage_loss": 1.0}, "coverage: true"),
        ("transformer", EXAMPLES, DEV, {"coverage_loss": 1.0}, "coverage: true"),
        ("transformer", EXAMPLES, DEV, {"scheduled_sampling": 0.2}, "for a top-down captioner"),
        (
            "pointer-generator",
            EXAMPLES,
            DEV,
            {"gradient_checkpointing": True},
            "leave gradient_checkpointing out",
        ),
        ("transformer", EXAMPLES, DEV, {"fp16": True}, "training.fp16=false"),
        (
            "transformer",
            EXAMPLES,
            DEV,
            {"max_tokens": 9},
            "an example has .* tokens, more than max_tokens=9",
        ),
        ("transformer", EXAMPLES, DEV, {"clean_length": 2}, "all are too long or unequal"),
    ],
)
def test_refused(kind, examples, dev, changes, says, tmp_path):
    model, codec = made(kind)
    with pytest.raises(ValueError, match=says):
        train(model, codec, examples, dev, replace(SETTINGS[kind], **changes), tmp_path, seed=1)


@pytest.mark.parametrize("name", ["learning_rate", "clip", "beta1", "warmup", "clean_ratio"])
def test_settings_are_numbers(name):
    for bad in (float("nan"), float("inf"), -1):
        with pytest.raises(ValueError, match=f"{name}={bad}: pass"):
            replace(SETTINGS["transformer"], **{name: bad})


def test_batches_of_tokens_make_the_same_step(tmp_path):
    """However 27 examples are cut into batches, a step over all of them is one mean."""
    few = {
        "calm": True,
        "optimiser": "adagrad",
        "learning_rate": 0.05,
        "schedule": "constant",
        "eval_every": None,
    }
    whole = taught("transformer", tmp_path / "a", **few, steps=2, batch_size=27)
    count = len(token_batches(tmp_path, 150))
    assert count > 3
    parts = taught("transformer", tmp_path / "b", **few, steps=2, max_tokens=150, accumulate=count)
    for name in whole:
        torch.testing.assert_close(parts[name], whole[name], rtol=0, atol=2e-6, msg=name)


def token_batches(folder, most):
    model, codec = made("transformer")
    settings = replace(SETTINGS["transformer"], max_tokens=most, eval_every=None)
    lesson = Fit(model, codec, EXAMPLES, [], settings, folder, 5)
    batches = list(lesson.get_train_dataloader())
    assert all(max(b["input_ids"].numel(), b["labels"].numel()) <= most for b in batches)
    assert sum(len(b["labels"]) for b in batches) == len(EXAMPLES)
    assert lesson.epoch_steps == len(batches)
    return batches


def test_what_is_long_or_unequal_is_left_out_and_counted(tmp_path):
    """As the Moses script: up to so many tokens, and up to so many times the other side's; the end
    is no token."""
    _, codec = made("pointer-generator")
    texts = {
        "good": ("a b c", "d e"),
        "long": ("a " * 9, "b " * 9),
        "wide": ("a b c d", "e f"),
        "tall": ("a", "b c"),
    }
    examples = [Example(id, source, (target,)) for id, (source, target) in texts.items()]
    rows = encoded(codec, examples)
    lengths = sides(rows, END)
    assert lengths.tolist() == [[3, 2], [9, 9], [4, 2], [1, 2]]
    assert sides(rows).tolist() == [[3, 3], [9, 10], [4, 3], [1, 3]]
    settings = replace(SETTINGS["pointer-generator"], clean_ratio=1.5, clean_length=8, steps=1)
    assert clean(lengths, settings) == [0]
    model, codec = made("pointer-generator")
    with pytest.warns(
        UserWarning, match="3 of 4 training examples are too long or unequal and are left out"
    ):
        train(model, codec, examples, [], settings, tmp_path / "run", seed=1)


def test_the_model_is_the_mean_of_the_last_checkpoints(tmp_path):
    weights = taught("transformer", tmp_path, steps=8, save_every=2, average=3, eval_every=None)
    files = [tmp_path / "checkpoints" / f"checkpoint-{n}" / "model.safetensors" for n in (4, 6, 8)]
    saved = [load_file(file) for file in files]
    assert not (tmp_path / "checkpoints" / "checkpoint-2").exists()
    for name in saved[0]:
        mean = sum(x[name].double() for x in saved) / 3
        torch.testing.assert_close(weights[name].double(), mean, rtol=1e-6, atol=1e-8, msg=name)


def test_each_number_of_the_gradient_is_clipped(tmp_path):
    found = []

    class Watch(TrainerCallback):
        def on_optimizer_step(self, args, state, control, model, **_):
            found.append(
                max(p.grad.abs().max().item() for p in model.parameters() if p.grad is not None)
            )

    for most in (0.0, 0.01):
        lesson = fit("pointer-generator", tmp_path / str(most), clip_value=most, clip=0.0, steps=1)
        lesson.add_callback(Watch())
        lesson.train()
    assert found[0] > 0.02
    assert found[1] == pytest.approx(0.01)


def test_computing_again_for_the_gradient_changes_nothing(tmp_path):
    few = {**PLAIN, "steps": 2}
    plain = taught("transformer", tmp_path / "a", **few)
    again = taught("transformer", tmp_path / "b", **few, gradient_checkpointing=True)
    for name in plain:
        torch.testing.assert_close(again[name], plain[name], rtol=0, atol=1e-6, msg=name)


@pytest.mark.parametrize(
    "file", ["model.safetensors", "optimizer.pt", "trainer_state.json", "files.json"]
)
def test_a_damaged_checkpoint_gives_way_to_the_one_before(file, tmp_path):
    expected = taught("transformer", tmp_path)
    damaged = tmp_path / "checkpoints" / "checkpoint-10" / file
    damaged.write_bytes(damaged.read_bytes()[:-20])
    with pytest.warns(
        UserWarning,
        match=r"checkpoint-10 is damaged \(.*\) and removed: training goes on from step 8",
    ):
        found = taught("transformer", tmp_path)
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_a_batch_that_processes_cannot_share(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    with pytest.raises(ValueError, match="3 processes cannot share batch_size=8"):
        fit("transformer", tmp_path)


def test_coverage_loss_has_its_weight(tmp_path):
    model, codec = made("pointer-generator", coverage=True)
    settings = replace(SETTINGS["pointer-generator"], steps=1, coverage_loss=0.5)
    train(model, codec, EXAMPLES, [], settings, tmp_path, seed=1)
    assert model.config.coverage_loss == 0.5


@pytest.mark.parametrize("changed", ["corpus", "dev corpus", "codec"])
def test_training_does_not_go_on_with_other_data(changed, tmp_path):
    """Killed after a checkpoint, then other files under the same names: the ids would mean other
    words."""
    model, codec = made("pointer-generator")
    settings = replace(SETTINGS["pointer-generator"], steps=4)
    train(model, codec, EXAMPLES, DEV, settings, tmp_path, seed=1)
    other = [replace(example, source=example.source.replace("mat", "rug")) for example in EXAMPLES]
    examples, dev = (
        other if changed == what else same
        for what, same in (("corpus", EXAMPLES), ("dev corpus", DEV))
    )
    codec = made("pointer-generator", target_length=19)[1] if changed == "codec" else codec
    with pytest.raises(
        ValueError, match=f"were trained with another {changed}: bring the old files back"
    ):
        train(model, codec, examples, dev, replace(settings, steps=8), tmp_path, seed=1)
    model, codec = made("pointer-generator")
    train(model, codec, list(EXAMPLES), DEV, replace(settings, steps=8), tmp_path, seed=1)
