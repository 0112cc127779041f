"""The steps of a run, train, generate, score: each reads the folder, does its part, and is skipped
where it is done.

Launched as several processes, they train together and each decodes its share. Knows the order of
things; what a step does is the business of its room.
"""

import contextlib
import errno
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

from dwindle.data.example import SPLITS
from dwindle.data.prepared import fingerprint
from dwindle.generation import tracing
from dwindle.generation.decode import decode, output
from dwindle.metrics import catalogue, layout, significance
from dwindle.metrics.score import Metric, Statistics, reduce
from dwindle.models import build as models
from dwindle.models.top_down_codec import RegionCodec
from dwindle.runfiles import arrays, names, outputs, scores, whole
from dwindle.runs import job, recipe
from dwindle.runs.job import Job
from dwindle.runs.recipe import ROOT, Recipe
from dwindle.system import machine
from dwindle.training.train import train as fit

Say = Callable[[str], None]


def run(
    wanted: Recipe,
    folder: Path | None = None,
    start: Path | None = None,
    say: Say = lambda sentence: None,
) -> Job:
    """All steps. The recipe's start is trained first: in ``start``, or beside or inside the run."""
    with prepared(wanted, folder, start, say) as made:
        train(made, say)
        generate(made, say)
        score_outputs(made, say)
    return made


@contextlib.contextmanager
def prepared(wanted: Recipe, folder: Path | None, start: Path | None, say: Say) -> Iterator[Job]:
    """The run of a recipe, locked for this command, with its start trained."""
    folder = folder or ROOT / wanted.name
    if wanted.start:
        start = start or beside(folder, wanted)
    with _full_disk(folder), job.opened(folder, wanted, start) as made:
        if not made.done("generate"):
            _check(made)
        if wanted.start and not made.done("train"):  # a trained model needs its start no more
            with prepared(wanted.start, start, None, say) as begun:
                train(begun, say)
        yield made


def _check(run: Job) -> None:
    """Report errors in the metrics, or in the data of any split, before anything is trained."""
    metrics(run.recipe)
    for split in SPLITS if run.recipe.training else SPLITS[-1:]:
        run.examples(split)


def _check_images(run: Job, codec: Any) -> None:
    """Refuse images of any split that the model could not read."""
    if isinstance(codec, RegionCodec):
        for split in SPLITS:
            for example in run.examples(split):
                codec.check(example.image)


def beside(folder: Path, wanted: Recipe) -> Path:
    """The folder for the start of a recipe: beside this run if runs lie there, else inside it."""
    shared = folder == ROOT / wanted.name and wanted.start and wanted.start.name
    return ROOT / wanted.start.name if shared else folder / names.START  # type: ignore[union-attr]


def train(run: Job, say: Say) -> None:
    """Train the model of the recipe and save it in ``model/``."""
    settings = run.recipe.training
    if settings is None or run.done("train"):
        return
    say(f"{run}: training")
    with run.stage("train") as counts:
        model, codec = _built(run)
        _check_images(run, codec)
        examples, dev = run.examples("train"), run.examples("dev")
        cut = fit(
            model, codec, examples, dev, settings, run.path, run.recipe.seed, run.recipe.decoding
        )
        if machine.is_first():
            models.save(model, codec, run.model)
        counts |= {
            "examples": len(examples),
            "truncated": cut,
            "parameters": model.num_parameters(),
        }
    if machine.is_first():
        shutil.rmtree(run.path / names.CHECKPOINTS, ignore_errors=True)


def generate(run: Job, say: Say) -> None:
    """Write the outputs of the test split, or the recipe's, and what they covered."""
    if run.done("generate"):
        return
    if run.recipe.training and not run.done("train"):
        raise ValueError(f"{run} is not trained: type dwindle train {run}")
    say(f"{run}: generating")
    with run.stage("generate") as counts:
        examples = run.examples(run.recipe.split)
        if run.recipe.model.kind == "lead-3":
            _lead(run, examples)
        else:
            model, codec = models.load(run.model) if run.recipe.training else _built(run)
            model.to(_device())
            with _bar(len(examples) // machine.processes()) as advance:
                decode(
                    model,
                    codec,
                    examples,
                    run.recipe.decoding,
                    run.path,
                    advance,
                    layers=run.recipe.model.layers,
                )
            job.wait()
            if machine.is_first():
                found = tracing.traces(model, codec, examples, run.recipe.decoding)
                arrays.write_traces(run.path / names.TRACES, found)
            counts |= whole.read_json(run.path / names.DECODING, "delete it and decode again")


def score_outputs(run: Job, say: Say) -> None:
    """Measure the outputs by the recipe's metrics."""
    if run.done("score"):
        return
    if not run.file(names.OUTPUTS):
        raise ValueError(f"{run} has no outputs yet: type dwindle generate {run}")
    say(f"{run}: scoring")
    for sentence in catalogue.waiting(run.recipe.metrics):
        say(f"{run}: {sentence}")
    if machine.is_first():
        found = statistics(run)
        measured = significance.intervals(found, metrics(run.recipe))
        scores.write(run.path, len(found.system), (score.record for score in measured))
    job.wait()


def statistics(run: Job) -> Statistics:
    """The rows of a run's outputs for the recipe's metrics."""
    return reduce(run.outputs, metrics(run.recipe), machine.cores())


def metrics(wanted: Recipe) -> list[Metric]:
    """The metrics of a recipe, without those that still ask for an option."""
    return catalogue.find(catalogue.ready(wanted.metrics))


def borrow(run: Job, other: Job) -> None:
    """Take the trained model of ``other``, if nothing but its decoding differs."""
    if run.done("train") or not run.recipe.training or not other.done("train"):
        return
    changed = recipe.changes(run.recipe, other.recipe)
    if any(not change.key.startswith(("decoding.", "metrics", "split")) for change in changed):
        return
    with run.stage("train") as counts:
        if machine.is_first():
            part = run.path / ".model.part"
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(other.model, part, copy_function=_link)
            part.replace(run.model)
        counts |= {"same_as": os.path.relpath(other.path, run.path)}


def _link(source: str, target: str) -> None:
    """Link a file under a second name, or copy it where the disk cannot link."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def _built(run: Job) -> tuple[Any, Any]:
    """The model before training, or as it is used: its rule is that of this run."""
    examples = run.examples("train")
    settings = replace(run.recipe.model, start=_weights(run))
    corpus = fingerprint(examples) if settings.start is None else None
    return models.build(
        settings, lambda: ((e.input, e.references[0]) for e in examples), run.recipe.seed, corpus
    )


def _weights(run: Job) -> str | None:
    """The folder with the weights that a run starts from: those of its start, or of the start of a
    start that trained nothing."""
    if run.start is None:
        return run.recipe.model.start
    begun = job.find(run.start)
    return str(begun.model) if begun.recipe.training else _weights(begun)


def _lead(run: Job, examples: Iterable[Any]) -> None:
    if machine.is_first():
        read = outputs.outputs(
            run.recipe.data.corpus, (output(example, "") for example in examples)
        )
        outputs.write(run.path / names.OUTPUTS, layout.lead3(read).items)


@contextlib.contextmanager
def _bar(items: int) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, nothing in a pipe."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("generating", total=items)
        yield lambda done: progress.advance(task, done)


@contextlib.contextmanager
def _full_disk(folder: Path) -> Iterator[None]:
    """Libraries report a full disk in their own ways; here it is one sentence."""
    try:
        yield
    except Exception as error:
        if getattr(error, "errno", None) != errno.ENOSPC and "No space left on device" not in str(
            error
        ):
            raise
        raise OSError(
            f"the disk is full while writing {folder}: free some space and continue with the same "
            "command"
        ) from error


def _device() -> torch.device:
    """The accelerator of this process, or the CPU."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return torch.device("cpu") if found is None else torch.device(found.type, machine.local_rank())
