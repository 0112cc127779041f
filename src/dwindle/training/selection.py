"""``Choosing``: keeps the weights of a training that are the best on dev. They lie beside the
checkpoints until it ends; what was measured at every step stays in the folder of the run. Knows
metrics, no recipe."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, TrainerCallback

from dwindle.data.example import Example
from dwindle.generation.decode import output
from dwindle.generation.generate import generate
from dwindle.generation.settings import DecodingSettings
from dwindle.metrics import catalogue
from dwindle.metrics.score import Metric, reduce
from dwindle.models.codec import Codec
from dwindle.runfiles import names, outputs, whole

LOSS = "loss"


class Choosing(TrainerCallback):
    """After every evaluation: measures, and keeps the weights if none were better.

    ``by``: ``loss``, or the name of a metric of what the model writes for ``dev`` with
    ``decoding``.
    """

    def __init__(
        self,
        by: str,
        codec: Codec,
        dev: Sequence[Example],
        decoding: DecodingSettings,
        folder: Path,
    ) -> None:
        self.by, self.codec, self.decoding = by, codec, decoding
        self.dev = [
            example for example in dev if example.image is not None or example.source.strip()
        ]
        self.metric = None if by == LOSS else metric(by)
        self.better = -1 if self.metric is None else self.metric.kind.better
        self.file, self.weights = folder / names.CHOICE, folder / names.CHECKPOINTS

    def on_evaluate(
        self,
        args: Any,
        state: Any,
        control: Any,
        model: PreTrainedModel,
        metrics: dict[str, float],
        **_: Any,
    ) -> None:
        value = metrics["eval_loss"] if self.metric is None else self.measured(model, self.metric)
        if not state.is_world_process_zero:
            return
        step = state.global_step
        # a run that goes on measures some once more
        tries = [one for one in self._tries() if one["step"] < step]
        tries.append({"step": step, "value": value})
        chosen = max(tries, key=lambda one: one["value"] * self.better)["step"]
        if chosen == step:
            self._keep(model, step)
        whole.write_json(self.file, {"by": self.by, "chosen": chosen, "tries": tries})
        for old in self.weights.glob("best-*"):
            if old != self.folder(chosen):
                shutil.rmtree(old)

    def measured(self, model: PreTrainedModel, metric: Metric) -> float:
        """The value of the metric for what the model writes for dev."""
        items = []
        for start in range(0, len(self.dev), self.decoding.batch_size):
            some = self.dev[start : start + self.decoding.batch_size]
            batch = self.codec.collate([self.codec.encode(example.input) for example in some])
            texts = self.codec.decode(
                generate(model, batch, self.decoding, self.codec).cpu(), batch
            )
            items += [output(example, text) for example, text in zip(some, texts, strict=True)]
        return float(reduce(outputs.outputs("dev", items), [metric]).value(metric))

    def chosen(self) -> Path:
        """The folder with the best weights."""
        return self.folder(whole.read_json(self.file, "train in an empty folder")["chosen"])

    def folder(self, step: int) -> Path:
        return self.weights / f"best-{step}"

    def _tries(self) -> list[dict[str, Any]]:
        if not self.file.is_file():
            return []
        tries: list[dict[str, Any]] = whole.read_json(self.file, "delete it")["tries"]
        return tries

    def _keep(self, model: PreTrainedModel, step: int) -> None:
        part = self.weights / ".best"
        for old in (part, self.folder(step)):
            shutil.rmtree(old, ignore_errors=True)
        with whole.writing(part):
            model.save_pretrained(part)
        part.rename(self.folder(step))


def metric(name: str) -> Metric:
    """The one metric of a name, of which higher or lower is better, so that it can choose."""
    found = catalogue.find([name])
    one = found[0] if len(found) == 1 else next((m for m in found if m.name == name), None)
    if one is None:
        raise ValueError(
            f"{name!r} is {len(found)} metrics: choose by one of {', '.join(m.name for m in found)}"
        )
    if not one.kind.better:
        raise ValueError(
            f"{name!r} cannot be used to choose: neither higher nor lower is better; "
            "name another metric"
        )
    return one
