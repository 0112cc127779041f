"""The plan of a recipe before it runs: what is read, fetched, trained and decoded, and what that
takes.

Nothing is fetched or trained. Examples that are on this machine are read as for a run, counted, and
a few hundred are looked at for their length in words. Memory and disk are sums of what is known for
sure; what comes on top is said.
"""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from dwindle.data.example import SPLITS, Example, Split
from dwindle.data.load import load, on_hub
from dwindle.data.settings import DataSettings
from dwindle.models.size import parameters
from dwindle.runfiles import names
from dwindle.runs import job, steps
from dwindle.runs.recipe import ROOT, Recipe
from dwindle.training.checkpoints import KEPT

FLOAT = 4
"""Bytes of a weight, of a gradient and of a moment."""
_MOMENTS = {"adagrad": 1, "adam": 2, "adamw": 2}
_OUTPUT = 3
"""The output distribution is held as logits, as log-probabilities and as their gradient."""
_LOOKED_AT = 300


@dataclass(frozen=True)
class Corpus:
    """The examples of one recipe: how many of each split, and how long. Nothing is known of those
    on the hub."""

    settings: DataSettings
    counts: dict[Split, int]
    source: float = 0.0
    """Words of a training source, or regions of an image, on average."""
    target: float = 0.0
    """Words of a training target, on average."""
    width: int = 0
    """Width of an image's features."""


@dataclass(frozen=True)
class Stage:
    """One training of the chain: a start, or the recipe itself."""

    recipe: Recipe
    folder: Path
    done: bool
    corpus: Corpus
    weights: int | None
    """Number of parameters; None if it is known only once the checkpoint has been fetched."""

    @property
    def updates(self) -> int | None:
        """Number of steps; None if it depends on the size of data that is still on the hub."""
        settings = self.recipe.training
        if settings is None:
            return 0
        if settings.steps is not None:
            return settings.steps
        count = self.corpus.counts.get("train")
        if count is None:
            return None
        kept = count - count % settings.batch_size or count
        return -(-kept // (settings.batch_size * settings.accumulate)) * (settings.epochs or 0)

    @property
    def examples(self) -> int | None:
        """Examples that are read in all updates."""
        settings = self.recipe.training
        if settings is None or self.updates is None:
            return None
        return self.updates * settings.batch_size * settings.accumulate


@dataclass(frozen=True)
class Plan:
    """Steps of a recipe: its starts first, the recipe itself last."""

    stages: tuple[Stage, ...]

    def rows(self) -> Iterator[tuple[str, str]]:
        """Lines to print: a word, and a sentence."""
        yield from self._data()
        for stage in self.stages:
            yield from _training(stage)
        yield "decode", _decoding(self.stages[-1])
        yield "memory", _memory(self.stages)
        yield "disk", _disk(self.stages)

    def _data(self) -> Iterator[tuple[str, str]]:
        last = self.stages[-1]
        if last.corpus.counts:
            counts = ", ".join(f"{split} {count:,}" for split, count in last.corpus.counts.items())
            where = f" in {last.corpus.settings.path}" if last.corpus.settings.path else ""
            yield "read", f"{last.corpus.settings.corpus}{where}: {counts} examples"
        else:
            yield (
                "fetch",
                f"the data set {on_hub(last.corpus.settings)} from the hub, if it is not in its "
                "cache",
            )
        for stage in self.stages:
            start = stage.recipe.model.start
            if start is not None and not Path(start).is_dir():
                yield "fetch", f"the checkpoint {start} from the hub, if it is not in its cache"
            elif start is not None:
                yield "read", f"the checkpoint {start}"


def plan(wanted: Recipe, folder: Path | None = None) -> Plan:
    """The plan of a recipe that would be run in ``folder``, as `steps.run` takes it."""
    place = folder or ROOT / wanted.name
    return Plan(tuple(_stages(wanted, place)))


def _stages(wanted: Recipe, place: Path) -> Iterator[Stage]:
    if wanted.start:
        yield from _stages(wanted.start, steps.beside(place, wanted))
    found = job.find(place) if (place / names.RECORD).is_file() else None
    corpus = _corpus(wanted.data)
    beginning = wanted
    while beginning.start:
        beginning = beginning.start
    weights = None if wanted.model.kind == "lead-3" else parameters(beginning.model, corpus.width)
    yield Stage(wanted, place, found is not None and found.done("train"), corpus, weights)


def _corpus(settings: DataSettings) -> Corpus:
    if on_hub(settings):
        return Corpus(settings, {})
    splits = {split: load(settings, split) for split in SPLITS}
    counts = {split: len(examples) for split, examples in splits.items()}
    some = _some(splits["train"])
    image = some[0].image
    source = _mean([len(e.source.split()) if e.image is None else e.image.shape[0] for e in some])
    return Corpus(
        settings,
        counts,
        source,
        _mean([len(e.target.split()) for e in some]),
        image.shape[1] if image else 0,
    )


def _some(examples: Sequence[Example]) -> list[Example]:
    step = max(len(examples) // _LOOKED_AT, 1)
    return [examples[i] for i in range(0, len(examples), step)]


def _mean(numbers: Sequence[int]) -> float:
    return sum(numbers) / len(numbers)


def _training(stage: Stage) -> Iterator[tuple[str, str]]:
    settings, name = stage.recipe.training, stage.recipe.name or "the recipe"
    if settings is None:
        yield "train", f"{name}: nothing, the model is used as it is"
    elif stage.done:
        yield "train", f"{name}: done already, in {stage.folder}"
    elif stage.updates is None or stage.examples is None:
        yield "train", f"{name}: {settings.epochs} epochs, in {stage.folder}"
    else:
        batch = f"{settings.batch_size}" + (
            f" x {settings.accumulate}" if settings.accumulate > 1 else ""
        )
        yield (
            "train",
            f"{name}: {stage.updates:,} updates of {batch} examples{_lengths(stage)}, in "
            f"{stage.folder}",
        )


def _lengths(stage: Stage) -> str:
    """The amount that is read in all updates, in words: tokens are not known before there is a
    vocabulary."""
    corpus, model = stage.corpus, stage.recipe.model
    if not corpus.counts or stage.examples is None:
        return ""
    source = stage.examples * min(corpus.source, model.source_length)
    target = stage.examples * min(corpus.target, model.target_length)
    what = "regions" if corpus.width else "words"
    epochs = stage.examples / corpus.counts["train"]
    return (
        f" ({epochs:.1f} epochs; about {_count(source)} {what} of sources, {_count(target)} words "
        "of targets)"
    )


def _decoding(last: Stage) -> str:
    settings, count = last.recipe.decoding, last.corpus.counts.get("test")
    items = "all test items" if count is None else f"{count:,} test items"
    if last.recipe.model.kind == "lead-3":
        return f"{items}: their first three sentences"
    return (
        f"{items}, {settings.beams} beams, up to {settings.max_length} tokens each; metrics: "
        + ", ".join(last.recipe.metrics)
    )


def _memory(stages: Sequence[Stage]) -> str:
    """Weights, gradients, moments and the output distribution of the largest training."""
    needs = [need for stage in stages if not stage.done and (need := _needed(stage)) is not None]
    if not needs:
        return "known when the checkpoint was fetched, or nothing is trained"
    return (
        f"at least {_bytes(max(needs))} in training: weights, gradients, the optimiser's moments "
        "and the output "
        "distribution of a batch, in float32; activations come on top (--smoke measures)"
    )


def _needed(stage: Stage) -> int | None:
    settings, model = stage.recipe.training, stage.recipe.model
    if settings is None or stage.weights is None:
        return None
    kept = stage.weights * (2 + _MOMENTS[settings.optimiser]) * FLOAT
    return kept + settings.batch_size * model.target_length * model.vocabulary * _OUTPUT * FLOAT


def _disk(stages: Sequence[Stage]) -> str:
    """Disk space of the checkpoints (a new one is written before an old one is removed), the model,
    and the coverage of the outputs."""
    total, unknown = 0, False
    for stage in stages:
        settings = stage.recipe.training
        if settings is None or stage.done:
            continue
        unknown |= stage.weights is None
        total += (
            (stage.weights or 0) * FLOAT * ((KEPT + 1) * (1 + _MOMENTS[settings.optimiser]) + 1)
        )
    last = stages[-1]
    total += (
        2
        * FLOAT
        * last.corpus.counts.get("test", 0)
        * last.recipe.model.source_length
        * (last.recipe.model.layers or 1)
    )
    place = next(p for p in (last.folder, *last.folder.absolute().parents) if p.exists())
    free = shutil.disk_usage(place).free
    more = " and the weights of the checkpoint, several times" if unknown else ""
    warning = "; that is not enough" if total > free else ""
    return (
        f"up to {_bytes(total)}{more} in {last.folder} and its starts, {_bytes(free)} are "
        f"free{warning}"
    )


def _bytes(count: float) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e8 else f"{count / 1e6:.1f} MB"


def _count(number: float) -> str:
    return f"{number / 1e6:.1f} million" if number >= 1e6 else f"{number:,.0f}"
