"""``listeners``: finds the heads of a model that tell what was read, with no labels, by deletions of its own making.

From ordinary sources the model writes its own outputs. Then something is left out, in two ways: two or three sources
are joined with the outputs of all but one; and a word (of a sound, a stretch as long as one) is taken out of a source,
the model writes the output of the rest, and that is held against the whole source. A head tells what was read if its
peaks are low where something is missing. Heads are added one by one as long as they help.

Half of the sources serve that. The other half calibrate the thresholds and measure what the choice is worth, so both
are honest for sources like these.
"""

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from dwindle.listening.heads import Head, all_heads, peaks
from dwindle.listening.listeners import LEAST, Listeners, conformal, item_score, part_scores
from dwindle.listening.roc import Array, auroc
from dwindle.listening.sound import words_per_second
from dwindle.listening.source import Reader, ReadSource, batches

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LEAST_CHOICE, MOST_CHOICE = 8, 60
"""Sources that heads are chosen on. More would cost an output each and choose the same heads."""
MOST_HEADS = 8
GAIN = 0.002
"""Of AUROC: a head that adds less is not added."""
TELLS = 0.65
"""The held-out AUROC from which heads are said to tell anything; 0.5 is chance."""
PRIOR = 3.0
"""How many outputs the mean of all words counts for, in what is usual for one word."""
_BATCH = 16


@dataclass(frozen=True)
class Heard:
    """One source with an output: the peaks of heads at its parts, (heads, P), and which parts are missing, (P,)."""

    source: ReadSource
    peaks: Tensor
    missing: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class _Pair:
    source: Any
    output: str
    missing: tuple[float, float] | None = None
    """From where to where the output says nothing of the source."""


def listeners(
    model: "PreTrainedModel",
    tokenizer: Any,
    sources: Sequence[Any],
    outputs: Sequence[str] | None = None,
    false_alarms: float = 0.05,
    seed: int = 1,
) -> Listeners:
    """Choose the heads of ``model`` that tell what was read, and calibrate the alarm.

    Args:
        model: an encoder-decoder of the library, text to text or speech to text.
        tokenizer: of the same model; for speech its processor.
        sources: some dozens of ordinary ones, and more is better: texts, or sounds at 16 kHz as arrays (samples,).
        outputs: one for each source that leaves nothing out, such as human translations, to calibrate on; None for the
            model's own. Take what you will audit: those of another system or person differ more from the model's own.
        false_alarms: the share of intact outputs that may be alarmed.
        seed: of the deletions.
    """
    from dwindle.listening.readers import reader_of

    if not 0 < false_alarms < 1:
        raise ValueError(f"false_alarms={false_alarms}: pass a share between 0 and 1, such as 0.05")
    reader = reader_of(model, tokenizer)
    ordinary = [(n, s) for n, s in enumerate(sources) if reader.read(s).parts]
    half = _split(len(ordinary), false_alarms)
    if outputs is not None and len(outputs) != len(sources):
        raise ValueError(f"{len(sources)} sources, but {len(outputs)} outputs: pass one for each")
    rng = random.Random(seed)
    rng.shuffle(ordinary)
    own = _written(reader, [source for _, source in ordinary])
    intact = own if outputs is None else [outputs[n] for n, _ in ordinary]
    pairs = [_Pair(source, output) for (_, source), output in zip(ordinary, own, strict=True)]
    trials = [_deletions(reader, part[:MOST_CHOICE], rng) for part in (pairs[:half], pairs[half:])]
    every = all_heads(model)
    practice, test = ({k: list(listened(model, reader, every, v)) for k, v in t.items()} for t in trials)
    chosen = _grown(practice)
    heads = [every[n] for n in chosen]
    worth = {kind: _auroc_of(items, chosen) for kind, items in test.items()}
    without = {f"{kind}, all heads": _auroc_of(items, range(len(every))) for kind, items in test.items()}
    whole = [_Pair(s, output) for (_, s), output in zip(ordinary, intact, strict=True)]
    usual = _usual(listened(model, reader, heads, whole[:half]))
    scores = [part_scores(h.source, h.peaks, usual) for h in listened(model, reader, heads, whole[half:])]
    return Listeners(
        heads=tuple(heads),
        usual=usual,
        threshold=conformal([s for s in map(item_score, scores) if s is not None], false_alarms),
        part_threshold=conformal(torch.cat(scores).tolist(), false_alarms),
        false_alarms=false_alarms,
        unit=reader.unit,
        auroc={k: round(v, 4) for k, v in (worth | without).items()},
        tells=sum(worth.values()) / len(worth) >= TELLS,
        probe=tuple(reader.probe()),
        origin=_origin(model, len(ordinary), half, {k: len(v) for k, v in trials[0].items()}, outputs is None, seed),
        words_per_second=_speech(reader, pairs, false_alarms),
    )


def _split(sources: int, false_alarms: float) -> int:
    """How many of the sources heads are chosen on: half, or fewer if the rest would not suffice to calibrate."""
    needed = math.ceil(1 / false_alarms) - 1
    if sources < LEAST_CHOICE + needed:
        raise ValueError(
            f"sources with something to read: {sources}; a share of {false_alarms:.0%} false alarms takes at least "
            f"{LEAST_CHOICE + needed}: pass some dozens of ordinary ones"
        )
    return min(sources // 2, sources - needed)


def listened(
    model: "PreTrainedModel", reader: Reader, heads: Sequence[Head], pairs: Sequence[_Pair]
) -> Iterator[Heard]:
    """The peaks of ``heads`` for every pair, batch by batch."""
    for some in batches(pairs, _BATCH):
        sources = [reader.read(pair.source) for pair in some]
        inputs, read, rows = reader.batch(sources, [pair.output for pair in some])
        found = peaks(model, heads, inputs, read, rows).cpu()
        for pair, source, one in zip(some, sources, found, strict=True):
            first, last = pair.missing or (0, 0)
            missing = np.array([first <= part.middle < last for part in source.parts], dtype=bool)
            yield Heard(source, one, missing)


def _written(reader: Reader, sources: Sequence[Any]) -> list[str]:
    """The model's outputs; sources of like length go together."""
    order = sorted(range(len(sources)), key=lambda n: len(sources[n]))
    written: dict[int, str] = {}
    for some in batches(order, _BATCH):
        written.update(zip(some, reader.write([sources[n] for n in some]), strict=True))
    return [written[n] for n in range(len(sources))]


def _deletions(reader: Reader, pairs: Sequence[_Pair], rng: random.Random) -> dict[str, list[_Pair]]:
    """Pairs in which the output leaves something out that is known, by the kind of it."""
    said = [pair for pair in pairs if pair.output.strip()]
    made = {"sentences": list(_joined(reader, said, rng)), "words": _shortened(reader, said, rng)}
    if not made["sentences"]:
        raise ValueError(
            "no two of these sources fit into the model together, or it writes nothing of them: pass shorter ones"
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
        yield _Pair(source, reader.join_outputs([p.output for n, p in enumerate(some) if n != gone]), spans[gone])


def _shortened(reader: Reader, pairs: Sequence[_Pair], rng: random.Random) -> list[_Pair]:
    """Sources with what the model writes when one of their words is taken out."""
    cases = [(pair.source, *less) for pair in pairs if (less := reader.shorten(pair.source, rng))]
    outputs = _written(reader, [rest for _, rest, _ in cases])
    return [_Pair(source, output, gone) for (source, _, gone), output in zip(cases, outputs, strict=True)]


def _grown(trials: dict[str, list[Heard]]) -> list[int]:
    """Heads, as numbers, added one by one while the AUROC, mean of kinds, rises."""
    logs = {kind: _logs(items) for kind, items in trials.items()}
    total = {kind: np.zeros(scores.shape[1]) for kind, (scores, _) in logs.items()}
    chosen: list[int] = []
    best = 0.0
    while len(chosen) < MOST_HEADS:
        told = [[auroc(missing, total[kind] + one) for one in scores] for kind, (scores, missing) in logs.items()]
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
    """Minus the logarithms of the peaks of all parts of all items, (heads, N), and which are missing, (N,)."""
    found = torch.cat([item.source.of_parts(item.peaks) for item in items], dim=1)
    return -found.clamp(min=LEAST).log().numpy(), np.concatenate([item.missing for item in items])


def _auroc_of(items: Sequence[Heard], chosen: Sequence[int]) -> float:
    scores, missing = _logs(items)
    return auroc(missing, scores[list(chosen)].mean(0))


def _usual(items: Iterator[Heard]) -> dict[str, float]:
    """What is usual for each word, drawn towards the mean of all words, which is the empty word's."""
    met: dict[str, list[float]] = {}
    for item in items:
        for part, score in zip(item.source.parts, part_scores(item.source, item.peaks, {"": 0.0}), strict=True):
            met.setdefault(part.name, []).append(float(score))
    every = [score for scores in met.values() for score in scores]
    mean = sum(every) / len(every)
    drawn = {word: (sum(scores) + PRIOR * mean) / (len(scores) + PRIOR) for word, scores in met.items() if word}
    return {"": mean, **{word: round(value, 4) for word, value in drawn.items()}}


def _speech(reader: Reader, pairs: Sequence[_Pair], share: float) -> float:
    """How many words per second make a sound speech: half as many as all but a ``share`` of ordinary sources have, for
    a stretch begins and ends within words. 0 for texts."""
    if reader.unit != "seconds":
        return 0.0
    rates = [words_per_second(pair.output, reader.read(pair.source).read) for pair in pairs]
    return -conformal([-rate for rate in rates], share) / 2


def _origin(model: Any, sources: int, half: int, deletions: dict[str, int], own: bool, seed: int) -> dict[str, Any]:
    from dwindle import __version__

    return {
        "dwindle": __version__,
        "model": str(model.config._name_or_path),
        "model_type": str(model.config.model_type),
        "sources": sources,
        "chosen_on": min(half, MOST_CHOICE),
        "calibrated_on": sources - half,
        "deletions": deletions,
        "calibrated_with": "the model's own outputs" if own else "given outputs",
        "seed": seed,
    }
