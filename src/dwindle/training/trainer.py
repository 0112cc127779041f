"""``Fit``: the library's trainer with this project's examples, loss, optimisers and checkpoints.

It differs from ``Seq2SeqTrainer`` in four things. The loss of a step is a mean over all its items,
however they are spread over micro-batches and processes. The order of examples is a function of
seed and epoch. Optimisers and rates are those of ``TrainingSettings``. A checkpoint is whole or not
there.

Another objective is a subclass: override ``loss``, and ``count`` if it is not a mean over label
tokens.
"""

import math
import sys
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.tensorboard import SummaryWriter
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    Seq2SeqTrainer,
    Seq2SeqTrainingArguments,
    TrainerCallback,
)
from transformers.integrations import TensorBoardCallback

from dwindle.attaching.carrier import Carrier
from dwindle.attaching.library import missing, refusal, takes
from dwindle.data.example import Example
from dwindle.data.prepared import content
from dwindle.models.codec import IGNORED, Batch, Codec, Row
from dwindle.models.library import bars_on_terminals
from dwindle.models.pointer_generator.model import PointerGenerator
from dwindle.system import machine
from dwindle.training.checkpoints import WRITING, checkpoints, clear, keep, last_step
from dwindle.training.optimise import optimiser, schedule
from dwindle.training.rows import Encoded, Looked, codec_digest, encoded
from dwindle.training.sampler import Order, Picked, TokenOrder, picked
from dwindle.training.settings import TrainingSettings

_ASKED = [
    (Seq2SeqTrainer, name)
    for name in (
        "_get_train_sampler",
        "_issue_warnings_after_load",
        "_load_from_checkpoint",
        "_save_checkpoint",
        "get_batch_samples",
        "create_optimizer",
        "create_scheduler",
    )
]
"""The library's methods that only this file calls or replaces, and that may change."""
if lost := missing(_ASKED):
    raise refusal("train", f"it has no {lost[0]}")
_CHECKPOINTING = next(
    name
    for name in ("activation_checkpointing", "gradient_checkpointing")
    if takes(Seq2SeqTrainingArguments, name)
)
"""Name of the argument that trades time for memory; from 5.23 on, the first of the two."""
_DIVIDES = not hasattr(Seq2SeqTrainer, "loss_is_scaled_for_ga")
"""True if the library divides every loss by the micro-batches of its step, as up to 5.10 at least:
we have done so."""

_NAMED = 5
"""Number of examples that a message names."""
_DIVERGED = "lower the learning rate, or clip the gradient"


class Fit(Seq2SeqTrainer):
    """Trains ``model`` on ``train``; ``checkpoints`` and ``logs`` (curves) go to ``folder``."""

    loss_is_scaled_for_ga = True  # by ``compute_loss``, over all micro-batches of a step
    optimizer: Any
    lr_scheduler: Any

    def __init__(
        self,
        model: PreTrainedModel,
        codec: Codec,
        train: Sequence[Example],
        dev: Sequence[Example],
        settings: TrainingSettings,
        folder: Path,
        seed: int,
    ) -> None:
        self.codec, self.settings, self.home = codec, settings, folder / "checkpoints"
        self.made_of = {"corpus": content(train), "codec": codec_digest(codec)}
        if dev:
            self.made_of["dev corpus"] = content(dev)
        rows = picked(self.rows(train, "training"), settings, model.config.eos_token_id)
        self.order = _order(rows, settings, seed)
        clear(self.home)
        super().__init__(
            model,
            arguments(
                settings,
                self.home,
                seed=seed,
                eval_strategy="steps" if dev else "no",
                ddp_find_unused_parameters=False,
            ),
            data_collator=self._collated,
            train_dataset=rows,
            eval_dataset=self.rows(dev, "dev") if dev else None,
            callbacks=[_StopAtNan(), _ClipValues(self), _NewOrder(self)],
        )
        # most library models take the count of items and do not use it
        self.model_accepts_loss_kwargs = False
        self.remove_callback(PrinterCallback)
        if self.is_world_process_zero():
            self.add_callback(
                TensorBoardCallback(
                    SummaryWriter(str(folder / "logs"), purge_step=last_step(self.home))
                )
            )

    @property
    def epoch_steps(self) -> int:
        """Steps in an epoch."""
        # with max_tokens the order is one of batches, else of examples
        batch = 1 if self.settings.max_tokens else self.settings.batch_size
        return math.ceil(len(self.order) / batch / self.settings.accumulate)

    @property
    def last_step(self) -> int:
        """The last step of the training."""
        return self.settings.steps or self.epoch_steps * (self.settings.epochs or 0)

    @property
    def cut(self) -> int:
        """Number of training examples whose source is too long for the model."""
        cut: int = self.train_dataset.cut
        return cut

    def rows(self, examples: Sequence[Example], which: str) -> Encoded | Looked:
        """Examples as they are trained on; those without source or target are named and left
        out."""
        rows = (
            Looked(self.row, examples)
            if examples and examples[0].image is not None
            else encoded(self.codec, examples)
        )
        if not len(rows):
            what = "all of them are empty" if rows.empty else "there are none"
            raise ValueError(
                f"no {which} examples to learn from ({what}): check the path and the columns of "
                "the data"
            )
        if rows.empty:
            names = ", ".join(rows.empty[:_NAMED]) + (", ..." if len(rows.empty) > _NAMED else "")
            warnings.warn(
                f"{len(rows.empty)} of {len(examples)} {which} examples have an empty source or "
                f"target and are left out: {names}",
                stacklevel=4,
            )
        return rows

    def row(self, example: Example) -> Row:
        """One example, encoded by its codec."""
        return self.codec.encode(example.input, example.target)

    def collate(self, rows: list[Row]) -> Batch:
        return self.codec.collate(rows)

    def _collated(self, rows: list[Any]) -> Batch:
        """Rows; or one list of rows, where the order has whole batches."""
        return self.collate(rows[0] if isinstance(rows[0], list) else rows)

    @property
    def own_words(self) -> float:
        """Scheduled sampling: the probability, in this epoch, that a word is the captioner's
        own."""
        grown = self.settings.sampling_step * (self.order.epoch // self.settings.sampling_every)
        return min(grown, self.settings.scheduled_sampling)

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The mean loss of a micro-batch, over what ``count`` counts. ``model`` may be wrapped."""
        if isinstance(self.model, Carrier):  # our own models have a loss
            if model.training and self.own_words:
                batch["drawn"] = self.own_words
            mean: Tensor = model(**batch).loss
            return mean
        labels = batch.pop("labels")
        read = self.model.prepare_decoder_input_ids_from_labels(labels)
        logits = model(**batch, decoder_input_ids=read, use_cache=False).logits
        smoothing = self.settings.label_smoothing if model.training else 0.0
        return F.cross_entropy(
            logits.flatten(0, 1).float(),
            labels.flatten(),
            ignore_index=IGNORED,
            label_smoothing=smoothing,
        )

    def count(self, batch: Batch) -> Tensor:
        """The items that a micro-batch's loss is a mean of: label tokens, or examples for See."""
        if isinstance(self.model, PointerGenerator):
            return torch.tensor(len(batch["labels"]))
        words: Tensor = (batch["labels"] != IGNORED).sum()
        return words

    def get_batch_samples(
        self, epoch_iterator: Iterator[Batch], num_batches: int, device: torch.device
    ) -> tuple[list[Batch], Tensor | None]:
        """The micro-batches of one step, and the count of all their items on all processes."""
        batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
        if not batches:
            return batches, None
        mine = torch.stack([self.count(batch).to(device) for batch in batches]).sum()
        return batches, self.accelerator.reduce(mine, "sum")

    def compute_loss(
        self,
        model: nn.Module,
        inputs: Batch,
        return_outputs: bool = False,
        num_items_in_batch: Tensor | None = None,
    ) -> Any:
        """This micro-batch's share of the loss of its step. Processes average their gradients:
        hence their number."""
        count = self.count(inputs)
        loss = self.loss(model, dict(inputs))
        if num_items_in_batch is not None:
            loss = (
                loss * count.to(loss.device) / num_items_in_batch * self.accelerator.num_processes
            )
            if _DIVIDES:
                loss = loss * self.current_gradient_accumulation_steps
        return (loss, {"loss": loss}) if return_outputs else loss

    def create_optimizer(self, model: Any = None) -> torch.optim.Optimizer:
        self.optimizer = self.optimizer or optimiser(
            self.model if model is None else model, self.settings
        )
        return self.optimizer  # type: ignore[no-any-return]

    def create_scheduler(self, num_training_steps: int, optimizer: Any = None) -> Any:
        if self.lr_scheduler is None:
            settings = self.settings
            self.lr_scheduler = schedule(
                optimizer or self.optimizer, settings, num_training_steps, self.epoch_steps
            )
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def _get_train_sampler(self, train_dataset: Any = None) -> Order | TokenOrder:
        return self.order

    def restore(self, folder: Path) -> None:
        """Load the weights that were saved in ``folder``."""
        self._load_from_checkpoint(str(folder))

    def average(self) -> None:
        """Average the last checkpoints, as fairseq's ``scripts/average_checkpoints.py``."""
        paths = checkpoints(self.home)[-self.settings.average :]
        total: dict[str, Tensor] = {}
        for path in paths:
            self.restore(path)
            for name, weight in self.model.state_dict().items():
                if weight.is_floating_point():
                    total[name] = total.get(name, 0) + weight.double()
        mean = {name: (weight / len(paths)).float() for name, weight in total.items()}
        self.model.load_state_dict(mean, strict=False)  # what is not averaged is as in the last one

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """A checkpoint lacks tied and fixed weights. If it lacks others, it is of another model."""
        missing = {n for n, p in self.model.named_parameters() if p.requires_grad} & set(
            load_result.missing_keys
        )
        if unknown := sorted(missing | set(load_result.unexpected_keys)):
            raise ValueError(
                f"the checkpoint in {self.home} is of another model ({unknown[0]}): use an empty "
                "folder"
            )

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        """Write the checkpoint into a folder beside its place, then move it there: at any moment
        the last checkpoint is whole."""
        if not all(p.isfinite().all() for p in self.model.parameters()):
            raise ValueError(
                f"the weights are not finite any more at step {self.state.global_step}: {_DIVERGED}"
            )
        self.args.output_dir = str(self.home / WRITING)
        try:
            with bars_on_terminals():
                super()._save_checkpoint(model, trial)
        # the libraries that write have a class of their own for a full disk
        except Exception as error:
            clear(self.home)
            raise OSError(
                f"the checkpoint of step {self.state.global_step} could not be written ({error}): "
                f"make room there; the same command goes on from step {last_step(self.home)}"
            ) from error
        finally:
            self.args.output_dir = str(self.home)
        self.accelerator.wait_for_everyone()
        if self.args.should_save:
            keep(self.home, self.state.global_step, self.settings.average, self.made_of)
        self.accelerator.wait_for_everyone()


class _StopAtNan(TrainerCallback):
    """Stops the training at a loss that is not a number: it would stay so."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any], **_: Any) -> None:
        if not math.isfinite(logs.get("loss", 0.0)):
            raise ValueError(f"the loss is {logs['loss']} at step {state.global_step}: {_DIVERGED}")


class _ClipValues(TrainerCallback):
    """Clips each number of the gradient by itself, as ``misc/utils.py`` of the captioner's
    baseline."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if most := self.fit.settings.clip_value:
            self.fit.accelerator.clip_grad_value_(self.fit.model.parameters(), most)


class _NewOrder(TrainerCallback):
    """Every epoch has an order of its own, the same one if training goes on in the middle of it."""

    def __init__(self, fit: Fit) -> None:
        self.fit = fit

    def on_epoch_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.fit.order.epoch = state.global_step // self.fit.epoch_steps


def _order(rows: Picked, settings: TrainingSettings, seed: int) -> Order | TokenOrder:
    if settings.max_tokens:
        return TokenOrder(rows.tokens, seed, settings.max_tokens, settings.accumulate)
    return Order(len(rows), seed, settings.batch_size, rows.lengths if settings.by_length else None)


def arguments(settings: TrainingSettings, home: Path, **more: Any) -> Seq2SeqTrainingArguments:
    """The library's arguments for ``settings``, and ``more`` of them."""
    launched = machine.processes()
    # processes share the batches of a step, or the examples of each batch
    shared = "accumulate" if settings.max_tokens else "batch_size"
    if (count := getattr(settings, shared)) % launched:
        raise ValueError(
            f"{launched} processes cannot share {shared}={count}: make it a multiple of {launched}"
        )
    length = (
        {"max_steps": settings.steps} if settings.steps else {"num_train_epochs": settings.epochs}
    )
    found = Seq2SeqTrainingArguments(
        output_dir=str(home),
        **length,
        **more,
        per_device_train_batch_size=1 if settings.max_tokens else settings.batch_size // launched,
        per_device_eval_batch_size=max(1, settings.batch_size // launched),
        gradient_accumulation_steps=settings.accumulate // (launched if settings.max_tokens else 1),
        max_grad_norm=settings.clip,
        bf16=settings.bf16,
        fp16=settings.fp16,
        **{_CHECKPOINTING: settings.gradient_checkpointing},
        save_strategy="steps",
        save_steps=settings.save_every,
        eval_steps=settings.eval_every or sys.maxsize,
        prediction_loss_only=True,
        logging_steps=settings.log_every,
        logging_nan_inf_filter=False,
        dataloader_num_workers=settings.workers,
        disable_tqdm=not sys.stderr.isatty(),
        report_to="none",
        remove_unused_columns=False,
        label_names=["labels"],
        dataloader_pin_memory=torch.cuda.is_available(),
        # stated, because else processes on a CPU do not see each other
        use_cpu=not torch.accelerator.is_available(),
    )
    found._n_gpu = min(found.n_gpu, 1)  # one process, one device: no threads that share a batch out
    return found
