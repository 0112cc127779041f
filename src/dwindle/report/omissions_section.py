"""Sections on what was left out: marked words of a text, or unused stretches of a sound.

Texts are escaped. A sound is drawn as a waveform, with its unused stretches shaded; where scripts
run, a click plays it from there.
"""

import base64
from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from dwindle import __version__
from dwindle.analysis.measure import Measured
from dwindle.analysis.views import audited
from dwindle.auditing.listeners import Finding, Listeners
from dwindle.auditing.sound import WINDOW
from dwindle.report import page
from dwindle.report.sections import Section
from dwindle.runfiles.outputs import Item

_WIDTH, _HEIGHT, _BARS = 960, 120, 480
MOST_ALARMS = 10
"""Number of items that a report shows for each system."""


def rate(listeners: Listeners) -> str:
    """The error rate in words, and what it was calibrated on."""
    parts = "words" if listeners.unit == "characters" else f"stretches of {WINDOW} seconds"
    count, made = (
        str(listeners.origin.get(key, "?")) for key in ("calibrated_on", "calibrated_with")
    )
    share = f"{listeners.false_alarms:.0%}"
    return (
        f"Of outputs as complete as those used for calibration "
        f"({count} of the {made.removeprefix('the ')}), {share} would be flagged, and {share} of "
        f"their {parts} marked. A mark shows what was hardly used; it cannot show what is wrong."
    )


def text_section(found: Finding, text: str, listeners: Listeners) -> Section:
    """The source with what was left out marked."""
    section = Section(
        "left-out", "What was left out", f"{verdict(found, listeners)} {rate(listeners)}"
    )
    spans = [(int(span.start), int(span.end), span.score) for span in found.spans]
    marked = _marked(text, spans, int(found.read))
    section.charts.append(Markup('<div class="text whole">{}</div>').format(marked))
    return section


def audited_section(measured: Measured) -> Section:
    """The findings of ``dwindle omissions`` for each system: alarms, and the worst items."""
    file = measured.test.arms[0].runs[0].outputs_file.name
    section = Section("marked", "Left out", wants=f"dwindle omissions {file} --model MODEL")
    for arm in measured.test.arms:
        told = audited(arm.runs[0])
        if told is None:
            continue
        share = f"{len(told.alarmed):,} of {len(told.records):,} outputs are flagged."
        items = {item.id: item for item in arm.runs[0].outputs.items}
        shown = [_alarm(record, items[record["id"]]) for record in told.alarmed[:MOST_ALARMS]]
        section.charts.append(
            Markup('<div class="audited"><h3>{}</h3><p>{} {}</p>{}</div>').format(
                arm.name, share, rate(told.listeners), Markup("").join(shown)
            )
        )
    return section


def _alarm(record: dict[str, Any], item: Item) -> Markup:
    """The source of an alarmed item with its marks, and the output beside it."""
    source = item.source or ""
    spans = [(int(span["start"]), int(span["end"]), span["score"]) for span in record["spans"]]
    read = record.get("unread", {}).get("start", len(source))
    return Markup(
        '<div class="texts wide"><article class="text"><h3>{}<span>score '
        "{:.2f}</span></h3>{}</article>"
        '<article class="text"><h3>output</h3><p class="words">{}</p></article></div>'
    ).format(
        item.id, record["score"], _marked(source, spans, int(read)), item.hypothesis or "(empty)"
    )


def _marked(text: str, spans: Sequence[tuple[int, int, float]], read: int) -> Markup:
    """A source with marked spans (start, end, score), and what comes after ``read`` faded."""
    pieces, end = [], 0
    for start, stop, score in spans:
        mark = Markup('<mark class="met" title="score {:.1f}">{}</mark>').format(
            score, text[start:stop]
        )
        pieces += [escape(text[end:start]), mark]
        end = stop
    pieces.append(escape(text[end:read]))
    if unread := text[max(end, read) :]:
        pieces.append(
            Markup('<span class="unread" title="not read by the model">{}</span>').format(unread)
        )
    return Markup('<p class="words">{}</p>').format(Markup("").join(pieces))


def sound_page(
    name: str,
    samples: Sequence[float],
    wave: bytes,
    transcript: str,
    found: Finding,
    listeners: Listeners,
) -> str:
    """The waveform of ``samples`` with its unused stretches shaded, and the transcript. ``wave`` is
    the file itself."""
    section = Section(
        "sound",
        "What was left out",
        f"{verdict(found, listeners)} {rate(listeners)}",
        charts=[waveform(samples, found), Markup('<p class="words">{}</p>').format(transcript)],
        view="sound",
        data={"wave": base64.b64encode(wave).decode(), "seconds": found.length},
    )
    return page.render(
        "coverage.html", title=name, parts=[section], version=__version__, allowed="media-src data:"
    )


def waveform(samples: Sequence[float], found: Finding) -> Markup:
    """Loudness over time as inline SVG; what was left out and what was not read are shaded."""
    size = max(1, len(samples) // _BARS)
    peaks = [
        max(map(abs, samples[n : n + size]), default=0.0) for n in range(0, len(samples), size)
    ]
    most = max(peaks, default=0.0) or 1.0
    middle = _HEIGHT / 2
    step = _WIDTH / max(len(peaks), 1)
    path = " ".join(
        f"M{n * step:.1f} {middle - p / most * middle:.1f}V{middle + p / most * middle:.1f}"
        for n, p in enumerate(peaks)
    )
    shades = [
        ("gone", span.start, span.end, f"left out, score {span.score:.1f}") for span in found.spans
    ]
    if found.read < found.length:
        shades.append(("unread", found.read, found.length, "not read by the model"))
    scale = _WIDTH / (found.length or 1.0)
    boxes = [
        _shade(kind, start * scale, (min(end, found.length) - start) * scale, say)
        for kind, start, end, say in shades
    ]
    return Markup(
        '<svg class="wave" viewBox="0 0 {w} {h}" role="img" aria-label="waveform"><path '
        'd="{d}"/>{boxes}'
        '<line class="now" x1="0" x2="0" y1="0" y2="{h}"/></svg>'
    ).format(w=_WIDTH, h=_HEIGHT, d=path, boxes=Markup("").join(boxes))


def _shade(kind: str, x: float, width: float, say: str) -> Markup:
    return Markup(
        '<rect class="{}" x="{:.1f}" y="0" width="{:.1f}" height="{}"><title>{}</title></rect>'
    ).format(kind, x, width, _HEIGHT, say)


def verdict(found: Finding, listeners: Listeners) -> str:
    """A sentence that says whether something is likely left out."""
    if found.score is None:
        return "There is nothing here that could be left out."
    said = "Alarm: something is likely left out" if found.alarm else "No alarm"
    return f"{said} (score {found.score:.2f}, threshold {listeners.threshold:.2f})."
