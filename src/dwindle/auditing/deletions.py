"""Outputs of which it is known what they leave out, made from whole ones.

Two or three sources are joined with the outputs of all but one; and a word (of a sound, a stretch
as long as one) is taken out of a source, the model writes the output of the rest, and that is held
against the whole source. Knows nothing of attention.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dwindle.auditing.source import Reader
from dwindle.bulk.batches import T, together

_BATCH = 16

Progress = Callable[[str, int, int], None]
"""Called with the stage of the work, how many of its pairs are done, and how many there are."""


@dataclass(frozen=True)
class Written:
    """A source with an output, and what that leaves out."""

    source: Any
    output: str
    missing: tuple[float, float] | None = None
    """Start and end of the stretch of the source that the output leaves out."""


def written(reader: Reader, sources: Sequence[Any], stage: str, progress: Progress) -> list[str]:
    """The model's outputs; sources of similar length share a batch."""
    tell = counting(stage, len(sources), progress)
    return together(sources, _BATCH, len, lambda some: told(reader.write(some), tell))


def deletions(
    reader: Reader, pairs: Sequence[Written], rng: random.Random, progress: Progress, stage: str
) -> dict[str, list[Written]]:
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


def _joined(reader: Reader, pairs: Sequence[Written], rng: random.Random) -> Iterator[Written]:
    """Two or three sources as one, with the outputs of all but one."""
    for number in range(len(pairs)):
        others = [*pairs[:number], *pairs[number + 1 :]]
        some = [pairs[number], *rng.sample(others, min(rng.choice((1, 2)), len(others)))]
        source, spans = reader.join([pair.source for pair in some])
        if (whole := reader.read(source)).read < whole.length:
            continue
        gone = rng.randrange(len(some))
        yield Written(
            source,
            reader.join_outputs([p.output for n, p in enumerate(some) if n != gone]),
            spans[gone],
        )


def _shortened(
    reader: Reader, pairs: Sequence[Written], rng: random.Random, progress: Progress, stage: str
) -> list[Written]:
    """Sources with what the model writes when one of their words is taken out."""
    cases = [(pair.source, *less) for pair in pairs if (less := reader.shorten(pair.source, rng))]
    outputs = written(reader, [rest for _, rest, _ in cases], stage, progress)
    return [
        Written(source, output, gone)
        for (source, _, gone), output in zip(cases, outputs, strict=True)
    ]


def counting(stage: str, total: int, progress: Progress) -> Callable[[], None]:
    """A function that tells ``progress``, each time it is called, that one more is done."""
    done = 0

    def tell() -> None:
        nonlocal done
        done += 1
        progress(stage, done, total)

    return tell


def told(items: Iterable[T], tell: Callable[[], None]) -> Iterator[T]:
    for item in items:
        tell()
        yield item
