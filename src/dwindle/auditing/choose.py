"""``listeners``: finds the heads of a model that tell what was read, with no labels, by deletions
of its own making.

From ordinary sources the model writes its own outputs. Then something is left out, in two ways: two
or three sources are joined with the outputs of all but one; and a word (of a sound, a stretch as
long as one) is taken out of a source, the model writes the output of the rest, and that is held
against the whole source. A head tells what was read if its peaks are low where something is
missing. Heads are added one by one as long as they help.

Half of the sources serve that. The other half calibrate the thresholds and measure what the choice
is worth, so both are honest for sources like these.
"""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dwindle.auditing.calibration import check_share, conformal, kept_scores
from dwindle.auditing.contrast import contrasted
from dwindle.auditing.heads import Head, all_heads, peaks
from dwindle.auditing.listeners import LEAST, Listeners, evidence, unheard
from dwindle.auditing.odds import fit, item_score, log_odds
from dwindle.auditing.reverse import Reverse
from dwindle.auditing.roc import Array, auroc
from dwindle.auditing.sound import words_per_second
from dwindle.auditing.source import Reader, ReadSource, T, batches, together
from dwindle.auditing.text import TextReader

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LEAST_CHOICE, MOST_CHOICE = 8, 60
"""Largest number of sources that heads are chosen on. More would cost an output each and choose the
same heads."""
MOST_HEADS = 8
GAIN = 0.002
"""Smallest rise of the AUROC for which a head is added."""
TELLS = 0.65
"""The held-out AUROC from which heads are said to tell anything; 0.5 is chance."""
PRIOR = 3.0
"""Number of outputs that the mean of all words counts for in the usual score of one word."""
_BATCH = 16

Progress = Callable[[str, int, int], None]
"""Called with the stage of the work, how many of its pairs are done, and how many there are."""


@dataclass(frozen=True)
class Heard:
    """One source with an output: the peaks of heads (heads, S), which parts are missing (P,), and
    with a second opinion the surprise of each part (P, 2)."""

    source: ReadSource
    peaks: Tensor
    missing: npt.NDArray[np.bool_]
    surprise: Tensor | None = None
    pair: "tuple[Any, str]" = ("", "")
    """The source and the output themselves."""

    def by(self, heads: Sequence[int]) -> "Heard":
        """The same item with some of the heads only."""
        return replace(self, peaks=self.peaks[list(heads)])

    def evidence(self, usual: dict[str, float]) -> Tensor:
        """(P, F)"""
        return evidence(self.source, self.peaks, usual, self.surprise)


@dataclass(frozen=True)
class _Pair:
    source: Any
    output: str
    missing: tuple[float, float] | None = None
    """Start and end of the stretch of the source that the output leaves out."""


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
) -> Listeners:
    """Choose the heads of ``model`` that show what was read, and calibrate the alarm.

    Args:
        model: an encoder-decoder of the library, text to text or speech to text.
        tokenizer: of the same model; for speech its processor.
        sources: a few dozen ordinary ones, and more is better: texts, or sounds at 16 kHz as
            arrays (samples,).
        outputs: one for each source that leaves nothing out, such as human translations, to
            calibrate on; None for the model's own. Take what you will audit: those of another
            system or person differ more from the model's own.
        false_alarms: the share of intact outputs that may be flagged.
        seed: of the deletions.
        progress: is told how far the work is.
        reverse: a translator of the other direction, whose second opinion is then part of the
            evidence.
        contrast: take a closer look at the most suspicious words: each is taken out of the source,
            and the model says whether the output is likelier so. Tells single words; an audit takes
            several times as long.

    Returns:
        The listeners. ``tells`` is False if the heads of this model tell nothing.

    Example:
        >>> ears = dwindle.listeners(translator, tokenizer, sources)
        >>> ears.tells
        True
    """
    from dwindle.auditing.readers import reader_of

    check_share(false_alarms)
    reader = reader_of(model, tokenizer)
    if reverse and reader.unit != "characters":
        raise ValueError("sound has no second opinion: leave out the reverse model")
    if contrast and not isinstance(reader, TextReader):
        raise ValueError(
            "words cannot be taken out of a sound for a closer look: leave out contrast"
        )
    ordinary = [(n, s) for n, s in enumerate(sources) if reader.read(s).parts]
    half = _split(len(ordinary), false_alarms)
    if outputs is not None and len(outputs) != len(sources):
        raise ValueError(f"{len(sources)} sources, but {len(outputs)} outputs: pass one for each")
    rng = random.Random(seed)
    rng.shuffle(ordinary)
    own = _written(reader, [source for _, source in ordinary], "writing outputs", progress)
    pairs = [_Pair(source, output) for (_, source), output in zip(ordinary, own, strict=True)]
    trials = [
        _deletions(
            reader,
            part[:MOST_CHOICE],
            rng,
            progress,
            f"writing outputs of shortened sources, {n} of 2",
        )
        for n, part in enumerate((pairs[:half], pairs[half:]), 1)
    ]
    every = all_heads(model)
    deletions = sum(len(some) for trial in trials for some in trial.values())
    tell = _counting("listening to deletions", deletions, progress)
    practice, test = (
        {
            kind: list(_told(listened(model, reader, every, some, reverse), tell))
            for kind, some in trial.items()
        }
        for trial in trials
    )
    chosen = grown(practice)
    heads = [every[n] for n in chosen]
    whole = pairs if outputs is None else [_Pair(source, outputs[n]) for n, source in ordinary]
    tell = _counting("calibrating", len(whole), progress)
    usual = _usual(_told(listened(model, reader, heads, whole[:half]), tell))
    weights = fit(
        [_evidence([one.by(chosen) for one in items], usual) for items in practice.values()]
    )
    calibrated = _told(listened(model, reader, heads, whole[half:], reverse), tell)

    def score(items: Iterable[Heard]) -> list[Tensor]:
        known = list(items)
        scores = [log_odds(one.evidence(usual), weights) for one in known]
        if not contrast or not isinstance(reader, TextReader):
            return scores
        return contrasted(
            reader, [one.pair for one in known], [one.source.parts for one in known], scores
        )

    # Outputs that were given are whole; of the model's own some are like deletions.
    gaps = [one.by(chosen) for items in test.values() for one in items] if outputs is None else []
    worth = {kind: _auroc_of(items, chosen) for kind, items in test.items()}
    worth_all = {
        f"{kind}, all heads": _auroc_of(items, range(len(every))) for kind, items in test.items()
    }
    return Listeners(
        heads=tuple(heads),
        usual=usual,
        weights=weights,
        calibration=_calibration(score(calibrated), score(gaps)),
        threshold=math.inf,
        part_threshold=math.inf,
        false_alarms=false_alarms,
        unit=reader.unit,
        auroc={
            k: round(v, 4)
            for k, v in (worth | worth_all | _second(test, chosen, usual, weights, reverse)).items()
        },
        tells=sum(worth.values()) / len(worth) >= TELLS,
        probe=tuple(reader.probe()),
        origin=_origin(model, (len(ordinary), half), trials[0], outputs is None, seed),
        words_per_second=_speech(reader, pairs, false_alarms),
        reverse=reverse.probe() if reverse else (),
        contrast=contrast,
    ).at(false_alarms)


def _calibration(outputs: Sequence[Tensor], gaps: Sequence[Tensor]) -> dict[str, list[float]]:
    """The scores that thresholds are read from, as ``Listeners`` keep them, from those of the parts
    of each item."""
    items, deletions = (
        [score for score in map(item_score, some) if score is not None] for some in (outputs, gaps)
    )
    return {
        "items": kept_scores(items),
        "parts": kept_scores(torch.cat(list(outputs)).tolist()),
        "deletions": kept_scores(deletions),
    }


def needed(false_alarms: float) -> int:
    """Smallest number of sources with which heads can be chosen and calibrated for this share."""
    return LEAST_CHOICE + math.ceil(1 / false_alarms) - 1


def _split(sources: int, false_alarms: float) -> int:
    """Number of sources to choose heads on: half, or fewer to leave enough for calibration."""
    least = needed(false_alarms)
    if sources < least:
        raise ValueError(
            f"{sources} of the sources have something to read, and {false_alarms:.0%} false alarms "
            f"take at least {least}: pass a few dozen ordinary ones"
        )
    return min(sources // 2, sources - least + LEAST_CHOICE)


def listened(
    model: "PreTrainedModel",
    reader: Reader,
    heads: Sequence[Head],
    pairs: Sequence[_Pair],
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


def _counting(stage: str, total: int, progress: Progress) -> Callable[[], None]:
    """A function that tells ``progress``, each time it is called, that one more is done."""
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        progress(stage, done, total)

    return tell


def _told(items: Iterable[T], tell: Callable[[], None]) -> Iterator[T]:
    for item in items:
        tell()
        yield item


def _written(reader: Reader, sources: Sequence[Any], stage: str, progress: Progress) -> list[str]:
    """The model's outputs; sources of similar length share a batch."""
    tell = _counting(stage, len(sources), progress)
    return together(sources, _BATCH, len, lambda some: _told(reader.write(some), tell))


def _deletions(
    reader: Reader, pairs: Sequence[_Pair], rng: random.Random, progress: Progress, stage: str
) -> dict[str, list[_Pair]]:
    """Pairs in which it is known what the output leaves out, by the kind of deletion."""
    said = [pair for pair in pairs if pair.output.strip()]
    made = {
        "sentences": list(_joined(reader, said, rng)),
        "words": _shortened(reader, said, rng, progress, stage),
    }
    if not made["sentences"]:
        raise ValueError(
            "no two of these sources fit into the model together, or it writes nothing for them: "
            "pass shorter ones"
        )
    return {kind: some for kind, some in made.items() if some}


def _joined(reader: Reader, pairs: Sequence[_Pair], rng: random.Random) -> Iterator[_Pair]:
    """Two or three sources as one, with the outputs of all but one."""
    for number in range(len(pairs)):
        others = [*pairs[:number], *pairs[number + 1 :]]
        some = [pairs[number], *rng.sample(others, min(rng.choice((1, 2)), len(others)))]
        source, spans = reader.join([pair.source for pair in some])
        if (whole := reader.read(source)).read < whole.length:
            continue
        gone = rng.randrange(len(some))
        yield _Pair(
            source,
            reader.join_outputs([p.output for n, p in enumerate(some) if n != gone]),
            spans[gone],
        )


def _shortened(
    reader: Reader, pairs: Sequence[_Pair], rng: random.Random, progress: Progress, stage: str
) -> list[_Pair]:
    """Sources with what the model writes when one of their words is taken out."""
    cases = [(pair.source, *less) for pair in pairs if (less := reader.shorten(pair.source, rng))]
    outputs = _written(reader, [rest for _, rest, _ in cases], stage, progress)
    return [
        _Pair(source, output, gone)
        for (source, _, gone), output in zip(cases, outputs, strict=True)
    ]


def grown(trials: dict[str, list[Heard]]) -> list[int]:
    """Heads, as numbers, added one by one while the AUROC, mean of kinds, rises."""
    logs = {kind: _logs(items) for kind, items in trials.items()}
    total = {kind: np.zeros(scores.shape[1]) for kind, (scores, _) in logs.items()}
    chosen: list[int] = []
    best = 0.0
    while len(chosen) < MOST_HEADS:
        told = [
            [auroc(missing, total[kind] + one) for one in scores]
            for kind, (scores, missing) in logs.items()
        ]
        values = np.mean(told, axis=0)
        values[chosen] = 0.0
        head = int(values.argmax())
        if values[head] < best + GAIN:
            break
        chosen.append(head)
        best = float(values[head])
        total = {kind: total[kind] + scores[head] for kind, (scores, _) in logs.items()}
    return chosen


def _logs(items: Sequence[Heard]) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Minus the log of the peaks of all parts of all items, (heads, N), and the missing, (N,)."""
    found = torch.cat([item.source.of_parts(item.peaks) for item in items], dim=1)
    return -found.clamp(min=LEAST).log().numpy(), np.concatenate([item.missing for item in items])


def _auroc_of(items: Sequence[Heard], chosen: Sequence[int]) -> float:
    scores, missing = _logs(items)
    return auroc(missing, scores[list(chosen)].mean(0))


def _evidence(
    items: Sequence[Heard], usual: dict[str, float]
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """The evidence on all parts of all items (N, F), and which are missing (N,)."""
    found = torch.cat([item.evidence(usual) for item in items]).double().numpy()
    return found, np.concatenate([item.missing for item in items])


def _second(
    test: dict[str, list[Heard]],
    chosen: Sequence[int],
    usual: dict[str, float],
    weights: Sequence[float],
    reverse: Reverse | None,
) -> dict[str, float]:
    """AUROC of deletions with the second opinion, if there is one."""
    if not reverse:
        return {}
    found = {
        kind: _evidence([one.by(chosen) for one in items], usual) for kind, items in test.items()
    }
    return {
        f"{kind}, with reverse": auroc(missing, log_odds(torch.from_numpy(some), weights).numpy())
        for kind, (some, missing) in found.items()
    }


def _usual(items: Iterator[Heard]) -> dict[str, float]:
    """Usual score of each word, drawn towards the mean of all words, which stands under the empty
    word."""
    met: dict[str, list[float]] = {}
    for item in items:
        for part, score in zip(item.source.parts, unheard(item.source, item.peaks), strict=True):
            met.setdefault(part.name, []).append(float(score))
    every = [score for scores in met.values() for score in scores]
    mean = sum(every) / len(every)
    drawn = {
        word: (sum(scores) + PRIOR * mean) / (len(scores) + PRIOR)
        for word, scores in met.items()
        if word
    }
    return {"": mean, **{word: round(value, 4) for word, value in drawn.items()}}


def _speech(reader: Reader, pairs: Sequence[_Pair], share: float) -> float:
    """Fewest words per second that make a sound speech: half of what all but a ``share`` of
    ordinary sources have, for a stretch begins and ends within words. 0 for texts."""
    if reader.unit != "seconds":
        return 0.0
    rates = [words_per_second(pair.output, reader.read(pair.source).read) for pair in pairs]
    return -conformal([-rate for rate in rates], share) / 2


def _origin(
    model: Any, counts: tuple[int, int], trial: dict[str, list[_Pair]], own: bool, seed: int
) -> dict[str, Any]:
    from dwindle import __version__

    sources, half = counts
    return {
        "dwindle": __version__,
        "model": str(model.config._name_or_path),
        "model_type": str(model.config.model_type),
        "sources": sources,
        "chosen_on": min(half, MOST_CHOICE),
        "calibrated_on": sources - half,
        "deletions": {kind: len(some) for kind, some in trial.items()},
        "calibrated_with": "the model's own outputs" if own else "given outputs",
        "seed": seed,
    }
