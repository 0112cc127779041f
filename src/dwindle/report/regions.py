"""Images with their regions shaded by coverage: of a whole output, and word by word on a strip.

For each system one row of pictures: what it attended to, then what it used (the same, where its
attention is plain), then a small picture for every word. A region is as bright as its share of the
largest, over all words on the strip; what no bright region shows is dark. Pictures come from a
scene's gold, or from whoever has the image and its boxes. Pillow draws; no model is loaded.
"""

import base64
import io
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup
from PIL import Image, ImageDraw, ImageFont

from dwindle.analysis.measure import Measured
from dwindle.analysis.views import Covered
from dwindle.data.worlds.scenes_picture import draw
from dwindle.report.sections import Section
from dwindle.runfiles.arrays import Trace

MOST = 4
"""Number of pictures on a page."""
_LARGE, _SMALL, _GAP, _TEXT = 224, 84, 8, 14
_COLUMNS = 10
_DARK, _TINT = 0.25, (255, 170, 40)
_PAPER, _INK = (255, 255, 255), (30, 30, 30)

Array = npt.NDArray[np.floating[Any]]


def shaded(
    image: Image.Image,
    boxes: Sequence[Sequence[float]],
    shares: Array,
    side: int,
    most: float | None = None,
) -> Image.Image:
    """The image, square, with each box as bright as its share (S,) of ``most`` (None: of the
    largest here); the brightest one is outlined."""
    picture = image.convert("RGB").resize((side, side))
    most = most or float(shares.max(initial=0.0)) or 1.0
    light = np.zeros((side, side), dtype=np.float32)
    scale = (side / image.width, side / image.height) * 2
    edges = [tuple(round(v * by) for v, by in zip(box, scale, strict=True)) for box in boxes]
    for (left, top, right, bottom), share in zip(edges, shares / most, strict=True):
        place = light[top:bottom, left:right]
        np.maximum(place, share, out=place)
    pixels = np.asarray(picture, dtype=np.float32)
    lit = pixels * (_DARK + (1 - _DARK) * light[..., None]) + np.array(_TINT) * (
        0.1 * light[..., None]
    )
    out = Image.fromarray(np.clip(lit, 0, 255).astype(np.uint8))
    if len(edges):
        ImageDraw.Draw(out).rectangle(
            edges[int(shares.argmax())], outline=_TINT, width=max(1, side // 100)
        )
    return out


def sheet(
    image: Image.Image, boxes: Sequence[Sequence[float]], traces: Mapping[str, Trace]
) -> Image.Image:
    """One picture for an image: a block for each system, from its trace over these boxes."""
    for name, trace in traces.items():
        if trace.weights.shape[1] != len(boxes):
            raise ValueError(
                f"{name} has looked at {trace.weights.shape[1]} regions, but {len(boxes)} boxes "
                "are given"
            )
    blocks = [_block(image, boxes, name, trace) for name, trace in traces.items()]
    whole = Image.new("RGB", (max(b.width for b in blocks), sum(b.height for b in blocks)), _PAPER)
    top = 0
    for block in blocks:
        whole.paste(block, (0, top))
        top += block.height
    return whole


def _block(
    image: Image.Image, boxes: Sequence[Sequence[float]], name: str, trace: Trace
) -> Image.Image:
    """Attention and used weights summed over the words, and the strip of words beside them."""
    plain = np.array_equal(trace.attention, trace.weights)
    sums = {"attention": trace.attention.sum(0), "used": trace.weights.sum(0)}
    shown = {name: image.resize((_LARGE, _LARGE))}
    shown |= {
        label: shaded(image, boxes, x, _LARGE)
        for label, x in sums.items()
        if label != "attention" or not plain
    }
    written = [t for t, word in enumerate(trace.output) if word.strip()]
    rows = -(-len(written) // _COLUMNS)
    height = max(_LARGE + _TEXT, rows * (_SMALL + _TEXT)) + 2 * _GAP
    strip = len(shown) * (_LARGE + _GAP)
    block = Image.new("RGB", (strip + _COLUMNS * (_SMALL + _GAP // 2), height), _PAPER)
    pen = ImageDraw.Draw(block)
    for k, (label, picture) in enumerate(shown.items()):
        _put(block, pen, picture, k * (_LARGE + _GAP), _GAP, label)
    # one scale for all words: what dwindles grows dark
    most = float(trace.weights.max(initial=0.0))
    for n, t in enumerate(written):
        left = strip + n % _COLUMNS * (_SMALL + _GAP // 2)
        top = _GAP + n // _COLUMNS * (_SMALL + _TEXT)
        _put(
            block,
            pen,
            shaded(image, boxes, trace.weights[t], _SMALL, most),
            left,
            top,
            trace.output[t].strip(),
        )
    return block


def _put(
    block: Image.Image,
    pen: ImageDraw.ImageDraw,
    picture: Image.Image,
    left: int,
    top: int,
    label: str,
) -> None:
    """A picture with its label above."""
    font = ImageFont.load_default(_TEXT - 3)
    while pen.textlength(label, font) > picture.width and len(label) > 1:
        label = label[:-1]
    pen.text((left, top), label, _INK, font)
    block.paste(picture, (left, top + _TEXT))


def fragment(
    image: Image.Image, boxes: Sequence[Sequence[float]], traces: Mapping[str, Trace]
) -> Markup:
    """The sheet as HTML that stands on its own."""
    file = io.BytesIO()
    sheet(image, boxes, traces).quantize(128).save(file, "PNG", optimize=True)
    told = ". ".join(
        f"{name}: {' '.join(''.join(trace.output).split())}" for name, trace in traces.items()
    )
    data = base64.b64encode(file.getvalue()).decode()
    return Markup(
        f'<figure class="regions"><img style="max-width:100%" src="data:image/png;base64,{data}" '
        f'alt="{escape(told)}">'
        f"<figcaption>{escape(next(iter(traces.values())).id)}</figcaption></figure>"
    )


def section(measured: Measured, found: Sequence[Covered]) -> Section:
    """The pictures of a test set of scenes, those of its items that were traced."""
    lead = (
        "Synthetic pictures. Left the picture, then its regions by how much the output attended "
        "to them and by how much"
        " it used them, then what each word used. Dark is what nothing was taken from."
    )
    looked = Section("regions", "What was looked at", lead)
    for item in measured.test.items:
        gold, by_arm = item.extra["gold"], zip(measured.arms, found, strict=True)
        traces = {arm: one.traces[item.id] for arm, one in by_arm if item.id in one.traces}
        if traces and len(looked.charts) < MOST:
            looked.charts.append(
                fragment(draw(gold), [region["box"] for region in gold["regions"]], traces)
            )
    if not looked.charts:
        looked.missing.append(
            "No run here has traces of its steps: generate again with 'dwindle generate RUN'."
        )
    return looked
