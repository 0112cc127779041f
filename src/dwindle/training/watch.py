"""``Watch``: repetition and coverage in the curves of the library's ``Seq2SeqTrainer``.

At every evaluation the model writes outputs of a few sources, and what it repeats and what it uses
of them is logged like a loss: to TensorBoard, to Weights & Biases, to whatever the trainer reports
to. Training itself stays as it was, to the last bit. Knows no recipes.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from transformers import TrainerCallback

from dwindle.attaching.carrier import attended
from dwindle.metrics.entropy import entropies
from dwindle.metrics.repetition import ORDERS, Repetition
from dwindle.runfiles.outputs import Item

if TYPE_CHECKING:
    from transformers import Seq2SeqTrainer

UNUSED = 0.5
"""A source token is unused if its coverage is at most this share of its source's average."""
_BATCH = 8


class Watch(TrainerCallback):
    """Logs what a model repeats and uses while it is trained.

    Example:
        >>> trainer.add_callback(dwindle.Watch(trainer, sources, num_beams=4))

    Logged are, as means over the outputs: ``eval_repetition1`` to ``4``, the percentage of n-grams
    that an output has had before; ``eval_unused``, the percentage of source tokens that got at most
    half of the average coverage; and ``eval_coverage_entropy``, how evenly the source was drawn on,
    from 0 to 1 (all tokens alike).

    Args:
        trainer: with a tokenizer as its ``processing_class``, and evaluations switched on.
        sources: a few dozen texts that are not trained on.
        generation: for ``generate``; the default is a greedy search of the model's usual length.
    """

    def __init__(
        self, trainer: "Seq2SeqTrainer", sources: Sequence[str], **generation: Any
    ) -> None:
        if trainer.processing_class is None:
            raise ValueError("this trainer has no tokenizer: pass it as its processing_class")
        if not sources:
            raise ValueError("there are no sources to watch: pass some texts")
        self.trainer, self.sources = trainer, list(sources)
        self.generation = {"do_sample": False} | generation

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if str(getattr(args.eval_strategy, "value", args.eval_strategy)) == "no":
            raise ValueError("nothing would be watched: set eval_strategy to 'steps' or 'epoch'")

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            self.trainer.log(self.measured())

    def measured(self) -> dict[str, float]:
        """Means over the outputs that the model writes now, by the names they are logged under."""
        model: Any = self.trainer.model
        training = model.training
        model.eval()
        rows: list[list[float]] = []
        try:
            with torch.no_grad(), torch.random.fork_rng():
                for start in range(0, len(self.sources), _BATCH):
                    rows += self._rows(model, self.sources[start : start + _BATCH])
        finally:
            model.train(training)
        names = [*(f"eval_repetition{n}" for n in ORDERS), "eval_unused", "eval_coverage_entropy"]
        return {
            name: float(value) for name, value in zip(names, np.mean(rows, axis=0), strict=True)
        }

    def _rows(self, model: Any, sources: list[str]) -> list[list[float]]:
        tokenizer: Any = self.trainer.processing_class
        batch = tokenizer(sources, return_tensors="pt", padding=True, truncation=True).to(
            model.device
        )
        batch.pop("token_type_ids", None)
        sequences = model.generate(**batch, **self.generation)
        texts = tokenizer.batch_decode(sequences, skip_special_tokens=True)
        seen = attended(model, dict(batch), sequences)
        rows = []
        for n, text in enumerate(texts):
            real = batch["attention_mask"][n].bool().cpu()
            raw, used = (
                x[:, n].cpu()[:, real].double().numpy() for x in (seen.coverage, seen.effective)
            )
            share = raw.mean(0) / raw.mean()
            repeated = Repetition().row(Item("", text))[2::3]
            even = entropies(np.stack([raw, used]), f"the output of {sources[n]!r}")[1]
            rows.append([*repeated, 100 * float((share <= UNUSED).mean()), even])
        return rows
