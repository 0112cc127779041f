"""The moving picture of the README: one item, written by two runs step by step, as an animated SVG.

    cd demo/newsroom
    python ../../docs/demo/moving.py plain/seed-1 dim-copy/seed-1 --out moving.svg

Above, the source, shaded by how much of each word was used so far, on one scale for both; below,
the output as it grows, what it says again in red. Of the items that both runs have traces of, it
takes the one where they differ most in that, or ``--item``. Everything is read from the folders;
nothing is drawn by hand.
"""

import argparse
from collections.abc import Iterator
from html import escape
from pathlib import Path

import numpy as np

from dwindle.runfiles import whole
from dwindle.runfiles.arrays import Trace, read_traces

WIDTH, MARGIN, GAP, FONT, LINE = 430, 14, 16, 13, 21
CHARACTER = FONT * 0.602  # of a monospaced font
STEP, PAUSE = 0.3, 4.0
"""Seconds that a step takes, and that the end stands still."""
STYLE = """
text { font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace }
text { fill: #1c2733; white-space: pre }
.page { fill: #fff; stroke: #cfd8e3 } .used { fill: #e08a00 }
.again { fill: #c4162a; font-weight: bold }
.name { font: bold 15px system-ui, sans-serif }
.note { font: 12px system-ui, sans-serif; fill: #5a6878 }
@media (prefers-color-scheme: dark) {
  text { fill: #dce5ee } .page { fill: #10171f; stroke: #2c3947 } .again { fill: #ff7c85 }
  .note { fill: #9fb0c0 }
}
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("runs", nargs=2, type=Path, help="Two folders of runs.")
    parser.add_argument("--names", nargs=2, default=["plain attention", "diminishing attention"])
    parser.add_argument("--item", help="The id of the item.")
    parser.add_argument("--out", type=Path, default=Path("moving.svg"))
    given = parser.parse_args()
    found = [{trace.id: trace for trace in read_traces(run / "traces.npz")} for run in given.runs]
    gains = {
        key: sum(again(left)) - sum(again(found[1][key]))
        for key, left in found[0].items()
        if key in found[1]
    }
    item = given.item or max(gains, key=lambda key: (gains[key], key))
    whole.write_text(given.out, picture([one[item] for one in found], given.names))
    print(f"{given.out}: {item}")


def again(trace: Trace) -> list[bool]:
    """(T,): whether a step wrote a word of a trigram that the output had before."""
    steps = [t for t, piece in enumerate(trace.output) if piece.strip()]
    words = [trace.output[t].strip() for t in steps]
    marked, seen = [False] * len(trace.output), set()
    for i in range(len(words) - 2):
        if (trigram := tuple(words[i : i + 3])) in seen:
            for t in steps[i : i + 3]:
                marked[t] = True
        seen.add(trigram)
    return marked


def picture(traces: list[Trace], names: list[str]) -> str:
    """Both panels, on one clock and one scale."""
    clock = max(len(trace.output) for trace in traces) * STEP + PAUSE
    # A full stop that everything leans on would leave the rest pale.
    most = max(float(np.quantile(trace.weights.sum(axis=0), 0.95)) for trace in traces)
    shown = [_panel(trace, name, clock, most) for trace, name in zip(traces, names, strict=True)]
    panels, heights = zip(*shown, strict=True)
    width, height = 2 * WIDTH + GAP, max(heights)
    drawn = "".join(
        f'<g transform="translate({k * (WIDTH + GAP)} 0)"><rect class="page" x=".5" y=".5" '
        f'width="{WIDTH - 1}" '
        f'height="{height - 1}" rx="8"/>{panel}</g>'
        for k, panel in enumerate(panels)
    )
    told = ". ".join(
        f"{n}: {' '.join(''.join(t.output).split())}" for n, t in zip(names, traces, strict=True)
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" '
        f'role="img"><title>{escape(told)}</title><style>{STYLE}</style>{drawn}</svg>\n'
    )


def _panel(trace: Trace, name: str, clock: float, most: float) -> tuple[str, int]:
    """One run: its name, the source, the output; and how high that is."""
    drawn = [f'<text class="name" x="{MARGIN}" y="26">{escape(name)}</text>']
    used = np.cumsum(trace.weights, axis=0) / most
    top = 50
    for k, (word, x, y) in enumerate(_laid(_read(trace))):
        wide = len(word) * CHARACTER
        drawn.append(_shade(used[:, k], x - 2, top + y - FONT, wide + 4, clock))
        drawn.append(_text(word, x, top + y, ""))
        bottom = top + y
    top = bottom + 46
    drawn.append(f'<text class="note" x="{MARGIN}" y="{top - 22}">writes:</text>')
    for (word, x, y), t, twice in _written(trace):
        start = t * STEP / clock
        drawn.append(_text(word, x, top + y, "again" if twice else "", _appears(start, clock)))
        bottom = top + y
    return "".join(drawn), bottom + 20


def _read(trace: Trace) -> list[str]:
    """The source's tokens, each after what stands before it in the text."""
    ends = [0, *(place + len(word) for place, word in zip(trace.places, trace.source, strict=True))]
    return [
        trace.text[end:place] + word
        for end, place, word in zip(ends, trace.places, trace.source, strict=False)
    ]


def _written(trace: Trace) -> Iterator[tuple[tuple[str, float, float], int, bool]]:
    steps = [t for t, piece in enumerate(trace.output) if piece.strip()]
    marked = again(trace)
    for place, t in zip(_laid([trace.output[t] for t in steps]), steps, strict=True):
        yield place, t, marked[t]


def _laid(pieces: list[str]) -> Iterator[tuple[str, float, float]]:
    """Each piece as a word with its place; a line is broken where it is full, and at a newline."""
    x, y = float(MARGIN), 0.0
    for piece in pieces:
        word = piece.strip()
        wide = len(word) * CHARACTER
        if "\n" in piece or x + wide > WIDTH - MARGIN:
            x, y = float(MARGIN), y + LINE
        yield word, x, y
        x += wide + CHARACTER


def _text(word: str, x: float, y: float, kind: str, inside: str = "") -> str:
    length = f'textLength="{len(word) * CHARACTER:.1f}" lengthAdjust="spacingAndGlyphs"'
    named = f' class="{kind}"' if kind else ""
    return f'<text{named} x="{x:.1f}" y="{y:.1f}" {length}>{escape(word)}{inside}</text>'


def _appears(start: float, clock: float) -> str:
    """From nothing at its step; without animation it is there."""
    return (
        f'<animate attributeName="opacity" values="0;1" keyTimes="0;{start:.4f}" '
        'calcMode="discrete" '
        f'dur="{clock:g}s" repeatCount="indefinite"/>'
        if start
        else ""
    )


def _shade(used: np.ndarray, x: float, y: float, wide: float, clock: float) -> str:
    """A word's background: as strong as it was used by each step; without animation, by the
    last."""
    steps = [0.0, *(min(1.0, float(value)) for value in used)]
    times = [*(t * STEP / clock for t in range(len(steps))), 1.0]
    values = ";".join(f"{value:.2f}".removeprefix("0") or "0" for value in [*steps, steps[-1]])
    keys = ";".join(f"{time:.3f}" for time in times)
    return (
        f'<rect class="used" x="{x:.1f}" y="{y:.1f}" width="{wide:.1f}" height="{FONT + 4}" rx="3" '
        f'fill-opacity="{steps[-1]:.2f}"><animate attributeName="fill-opacity" values="{values}" '
        f'keyTimes="{keys}" '
        f'dur="{clock:g}s" repeatCount="indefinite"/></rect>'
    )


if __name__ == "__main__":
    main()
