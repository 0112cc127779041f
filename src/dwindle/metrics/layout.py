"""Layout: the first three sentences of a source, as a system (LEAD-3) and as a measure of bias.

Layout bias is the ROUGE F1 between an output and the first three sentences of its source. ROUGE-1
and ROUGE-2 F1 are the same both ways; the union LCS of ROUGE-L is not, so both directions are given
(the paper prints 36.28 in Table 1 and 36.19 in Table 6 for the same pairs of texts). Lower is less
biased.
"""

from dataclasses import dataclass, replace

from dwindle.data.script import SETTING, is_latin, sentences
from dwindle.metrics.kind import Kind
from dwindle.metrics.rouge import measures, pair_hits, text
from dwindle.metrics.score import Metric, made, mean
from dwindle.runfiles.outputs import Item, Outputs

LEAD = 3
KINDS = (
    Kind("layout1", "lead R-1", -1),
    Kind("layout2", "lead R-2", -1),
    Kind("layoutL", "lead R-L", -1),
    Kind("layoutL-reverse", "lead R-L, reversed", -1),
)


def lead(source: str) -> str:
    """The first three sentences, one a line."""
    return "\n".join(sentences(source)[:LEAD])


def lead3(system: Outputs) -> Outputs:
    """LEAD-3 as a system: the same items with the lead of their sources as hypotheses."""
    for item in system.items:
        if item.source is None:
            raise ValueError(f"LEAD-3 needs sources, but {system.where(item)} has none: add them")
    items = tuple(replace(item, hypothesis=lead(item.source or "")) for item in system.items)
    return Outputs(f"LEAD-3 of {system.name}", items)


@dataclass(frozen=True)
class Layout:
    """F1 of ROUGE-1, -2, -L of the output with the lead as reference, then ROUGE-L in reverse."""

    needs: frozenset[str] = frozenset({"source", "sentences"})

    def row(self, item: Item) -> list[float]:
        start = lead(item.source or "")
        output, first = (text(one, latin=is_latin(start)) for one in (item.hypothesis, start))
        pairs = [*pair_hits(first, output), pair_hits(output, first)[2]]
        return [100 * measures([pair], True)[2] for pair in pairs]


def metrics(option: str = "") -> list[Metric]:
    """``layout1``, ``layout2``, ``layoutL`` and ``layoutL-reverse``."""
    if option:
        raise ValueError(f"layout has no option {option!r}: write layout")
    settings = made(
        lead=LEAD, measure="f1", tok="rouge-1.5.5", stem="porter+wordnet2.0", scripts=SETTING
    )
    return [Metric(kind, Layout(), (i,), mean, settings) for i, kind in enumerate(KINDS)]
