"""``listeners``: finds the heads of a model that tell what was read, with no labels, by deletions
of its own making.

From ordinary sources the model writes its own outputs, and something is left out of them
(``deletions``). A head tells what was read if its peaks are low where something is missing
(``weighing``).

Half of the sources serve that, 60 at most. The others calibrate the thresholds and measure what the
choice is worth, so both are honest for sources like these.
"""

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from dwindle.auditing.calibration import check_share, conformal, kept_scores, share_of_gaps
from dwindle.auditing.contrast import contrasted
from dwindle.auditing.deletions import Progress, Written, counting, deletions, told, written
from dwindle.auditing.heads import Head, all_heads, peaks
from dwindle.auditing.listeners import Listeners, unheard
from dwindle.auditing.odds import fit, item_score
from dwindle.auditing.reverse import Reverse
from dwindle.auditing.roc import auroc
from dwindle.auditing.sound import words_per_second
from dwindle.auditing.source import Reader
from dwindle.auditing.text import TextReader
from dwindle.auditing.weighing import Heard, auroc_of, evidence_of, weighed
from dwindle.bulk.batches import batches

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LEAST_CHOICE, MOST_CHOICE = 8, 60
"""Smallest and largest number of sources that heads are chosen on. More would cost an output each
and choose the same heads."""
MOST_OWN = 400
"""Sources that the model writes outputs for where those to audit cannot calibrate the alarm."""
MOST_GAPS = 0.5
"""Share of given outputs that may leave something out. Beyond it they cannot calibrate an alarm."""
TELLS = 0.65
"""The held-out AUROC from which heads are said to tell anything; 0.5 is chance."""
PRIOR = 3.0
"""Number of outputs that the mean of all words counts for in the usual score of one word."""
_BATCH = 16
_OWN, _WHOLE, _ALIKE = "the model's own outputs", "the complete outputs", "the outputs to audit"


def listeners(
    model: "PreTrainedModel",
    tokenizer: Any,
    sources: Sequence[Any],
    outputs: Sequence[str] | None = None,
    false_alarms: float = 0.05,
    seed: int = 1,
    progress: Progress = lambda stage, done, total: None,
    reverse: Reverse | None = None,
    contrast: bool = False,
    intact: bool = False,
) -> Listeners:
    """Choose the heads of ``model`` that show what was read, and calibrate the alarm.

    Args:
        model: an encoder-decoder of the library, text to text or speech to text.
        tokenizer: of the same model; for speech its processor.
        sources: a few dozen ordinary ones, and more is better: texts, or sounds at 16 kHz as
            arrays (samples,).
        outputs: one for each source, to calibrate on: best those that you are going to audit, some
            of which may leave something out. None for the model's own.
        false_alarms: the share of whole outputs that may be flagged.
        seed: of the deletions.
        progress: is told how far the work is.
        reverse: a translator of the other direction, whose second opinion is then part of the
            evidence.
        contrast: take a closer look at the most suspicious words: each is taken out of the source,
            and the model says whether the output is likelier so. Tells single words; an audit takes
            several times as long.
        intact: the given outputs are known to leave nothing out.

    Returns:
        The listeners. ``tells`` is False if the heads of this model tell nothing.

    Example:
        >>> ears = dwindle.listeners(translator, tokenizer, sources)
        >>> ears.tells
        True
    """
    check_share(false_alarms)
    reader = _reader(model, tokenizer, reverse, contrast)
    if intact and outputs is None:
        raise ValueError("no outputs are given that could be intact: pass them, or leave it out")
    if outputs is not None and len(outputs) != len(sources):
        raise ValueError(f"{len(sources)} sources, but {len(outputs)} outputs: pass one for each")
    ordinary = [(n, s) for n, s in enumerate(sources) if reader.read(s).parts]
    count = _split(len(ordinary), false_alarms)
    rng = random.Random(seed)
    rng.shuffle(ordinary)
    parts = ordinary[:count], ordinary[count:]
    needed = [one for some in parts for one in some[: None if outputs is None else MOST_CHOICE]]
    texts = written(reader, [source for _, source in needed], "writing outputs", progress)
    own = {n: Written(source, text) for (n, source), text in zip(needed, texts, strict=True)}
    trials = [
        deletions(
            reader,
            [own[n] for n, _ in some[:MOST_CHOICE]],
            rng,
            progress,
            f"writing outputs of shortened sources, {number} of 2",
        )
        for number, some in enumerate(parts, 1)
    ]
    every = all_heads(model)
    practice, test = _heard(model, reader, every, trials, reverse, progress)
    chosen, head_weights = weighed(practice)
    heads = [every[n] for n in chosen]
    whole = [own[n] if outputs is None else Written(source, outputs[n]) for n, source in ordinary]
    # Of outputs that may leave something out nothing usual can be learnt.
    usual_of = whole[:count] if intact else [own[n] for n, _ in parts[0]]
    tell = counting("calibrating", len(whole), progress)
    usual = _usual(told(listened(model, reader, heads, usual_of), tell), head_weights)
    worth = {kind: auroc_of(items, chosen, head_weights) for kind, items in test.items()}
    worth_all = {
        f"{kind}, all heads": auroc_of(items, range(len(every)), [1.0] * len(every))
        for kind, items in test.items()
    }
    calibrated_with = _OWN if outputs is None else _WHOLE if intact else _ALIKE
    ears = Listeners(
        heads=tuple(heads),
        head_weights=head_weights,
        usual=usual,
        weights=fit(
            [
                evidence_of([one.by(chosen) for one in items], head_weights, usual)
                for items in practice.values()
            ]
        ),
        threshold=math.inf,
        part_threshold=math.inf,
        false_alarms=false_alarms,
        unit=reader.unit,
        auroc=worth | worth_all,
        tells=sum(worth.values()) / len(worth) >= TELLS,
        probe=tuple(reader.probe()),
        origin=_origin(model, (len(ordinary), count), trials[0], calibrated_with, seed),
        words_per_second=_speech(reader, list(own.values()), false_alarms),
        reverse=reverse.probe() if reverse else (),
        contrast=contrast,
    )
    gaps = {kind: [one.by(chosen) for one in items] for kind, items in test.items()}
    calibration = _calibration(
        _scored(reader, ears, told(listened(model, reader, heads, whole[count:], reverse), tell)),
        [] if intact else _scored(reader, ears, chain.from_iterable(gaps.values())),
    )
    if outputs is not None and not intact and _gaps(calibration) > MOST_GAPS:
        some = [sources[n] for n in sorted(n for n, _ in ordinary[:MOST_OWN])]
        return listeners(
            model, tokenizer, some, None, false_alarms, seed, progress, reverse, contrast
        )
    second = _second(gaps, ears) if reverse else {}
    rounded = {kind: round(value, 4) for kind, value in (ears.auroc | second).items()}
    return replace(ears, calibration=calibration, auroc=rounded).at(false_alarms)


def _reader(
    model: "PreTrainedModel", tokenizer: Any, reverse: Reverse | None, contrast: bool
) -> Reader:
    from dwindle.auditing.readers import reader_of

    reader = reader_of(model, tokenizer)
    if reverse and reader.unit != "characters":
        raise ValueError("sound has no second opinion: leave out the reverse model")
    if contrast and not isinstance(reader, TextReader):
        raise ValueError(
            "words cannot be taken out of a sound for a closer look: leave out contrast"
        )
    return reader


def _heard(
    model: "PreTrainedModel",
    reader: Reader,
    every: Sequence[Head],
    trials: Sequence[dict[str, list[Written]]],
    reverse: Reverse | None,
    progress: Progress,
) -> list[dict[str, list[Heard]]]:
    """The deletions of each trial as all heads hear them, by kind."""
    total = sum(len(some) for trial in trials for some in trial.values())
    tell = counting("listening to deletions", total, progress)
    return [
        {
            kind: list(told(listened(model, reader, every, some, reverse), tell))
            for kind, some in trial.items()
        }
        for trial in trials
    ]


def _scored(reader: Reader, ears: Listeners, items: Iterable[Heard]) -> list[Tensor]:
    """(P,) for each item: the scores of its parts, as in an audit."""
    known = list(items)
    scores = [ears.scores(one.source, one.peaks, one.surprise) for one in known]
    if not ears.contrast or not isinstance(reader, TextReader):
        return scores
    return contrasted(
        reader, [one.pair for one in known], [one.source.parts for one in known], scores
    )


def _gaps(calibration: dict[str, list[float]]) -> float:
    """The share of the calibration outputs that seems to leave something out."""
    return share_of_gaps(calibration["items"], calibration["deletions"])


def _calibration(outputs: Sequence[Tensor], gaps: Sequence[Tensor]) -> dict[str, list[float]]:
    """The scores that thresholds are read from, as ``Listeners`` keep them, from those of the parts
    of each item.

    Of the outputs that seem to leave something out, the ones with the highest scores, no parts are
    kept: many of theirs are missing.
    """
    items, deletions = (
        sorted((score, n) for n, one in enumerate(some) if (score := item_score(one)) is not None)
        for some in (outputs, gaps)
    )
    scores = {
        name: kept_scores([score for score, _ in some])
        for name, some in (("items", items), ("deletions", deletions))
    }
    whole = items[: math.ceil(len(items) * (1 - _gaps(scores)))]
    parts = torch.cat([outputs[n] for _, n in whole]) if whole else torch.zeros(0)
    return scores | {"parts": kept_scores(parts.tolist())}


def needed(false_alarms: float) -> int:
    """Smallest number of sources with which heads can be chosen and calibrated for this share."""
    return LEAST_CHOICE + math.ceil(1 / false_alarms) - 1


def _split(sources: int, false_alarms: float) -> int:
    """Number of sources to choose heads on: half, ``MOST_CHOICE`` at most, or fewer to leave enough
    for calibration."""
    least = needed(false_alarms)
    if sources < least:
        raise ValueError(
            f"{sources} of the sources have something to read, and {false_alarms:.0%} false alarms "
            f"take at least {least}: pass a few dozen ordinary ones"
        )
    return min(sources // 2, MOST_CHOICE, sources - least + LEAST_CHOICE)


def listened(
    model: "PreTrainedModel",
    reader: Reader,
    heads: Sequence[Head],
    pairs: Sequence[Written],
    reverse: Reverse | None = None,
) -> Iterator[Heard]:
    """The peaks of ``heads``, and any second opinion, for every pair, batch by batch."""
    for some in batches(pairs, _BATCH):
        sources = [reader.read(pair.source) for pair in some]
        outputs = [pair.output for pair in some]
        inputs, read, rows = reader.batch(sources, outputs)
        found = peaks(model, heads, inputs, read, rows).cpu()
        second = (
            reverse.surprise(sources, [pair.source for pair in some], outputs)
            if reverse
            else [None] * len(some)
        )
        for pair, source, one, surprise in zip(some, sources, found, second, strict=True):
            first, last = pair.missing or (0, 0)
            missing = np.array([first <= part.middle < last for part in source.parts], dtype=bool)
            yield Heard(source, one, missing, surprise, (pair.source, pair.output))


def _second(gaps: dict[str, list[Heard]], ears: Listeners) -> dict[str, float]:
    """AUROC of deletions with the second opinion."""
    return {
        f"{kind}, with reverse": auroc(
            np.concatenate([one.missing for one in items]),
            torch.cat([ears.scores(one.source, one.peaks, one.surprise) for one in items]).numpy(),
        )
        for kind, items in gaps.items()
    }


def _usual(items: Iterator[Heard], head_weights: Sequence[float]) -> dict[str, float]:
    """Usual evidence on each word, drawn towards the mean of all words, which stands under the
    empty word."""
    met: dict[str, list[float]] = {}
    for item in items:
        sums = torch.tensor(head_weights) @ unheard(item.source, item.peaks)
        for part, score in zip(item.source.parts, sums.tolist(), strict=True):
            met.setdefault(part.name, []).append(score)
    every = [score for scores in met.values() for score in scores]
    mean = sum(every) / len(every)
    drawn = {
        word: (sum(scores) + PRIOR * mean) / (len(scores) + PRIOR)
        for word, scores in met.items()
        if word
    }
    return {"": mean, **{word: round(value, 4) for word, value in drawn.items()}}


def _speech(reader: Reader, pairs: Sequence[Written], share: float) -> float:
    """Fewest words per second that make a sound speech: half of what all but a ``share`` of
    ordinary sources have, for a stretch begins and ends within words. 0 for texts."""
    if reader.unit != "seconds":
        return 0.0
    rates = [words_per_second(pair.output, reader.read(pair.source).read) for pair in pairs]
    return -conformal([-rate for rate in rates], share) / 2


def _origin(
    model: Any,
    counts: tuple[int, int],
    trial: dict[str, list[Written]],
    calibrated_with: str,
    seed: int,
) -> dict[str, Any]:
    from dwindle import __version__

    sources, chosen_on = counts
    return {
        "dwindle": __version__,
        "model": str(model.config._name_or_path),
        "model_type": str(model.config.model_type),
        "sources": sources,
        "chosen_on": chosen_on,
        "calibrated_on": sources - chosen_on,
        "deletions": {kind: len(some) for kind, some in trial.items()},
        "calibrated_with": calibrated_with,
        "seed": seed,
    }
