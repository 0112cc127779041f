"""What listeners say was left out, drawn."""

import json
import re
from dataclasses import replace

import pytest

from dwindle.auditing.listeners import Finding, Listeners, Span
from dwindle.bulk import files
from dwindle.report import omissions_section, report
from dwindle.runfiles.run import Run, ears_of, findings_of
from tests import folders

EARS = Listeners(
    ((0, 0),),
    {"": 1.0},
    2.0,
    1.5,
    0.05,
    "characters",
    {},
    True,
    (),
    {"calibrated_on": 40},
)


def finding(*spans, length=20.0, read=20.0, score=3.0):
    return Finding(score, score > 2, tuple(spans), (), (), length, read)


def test_marked_words_are_escaped_and_the_rate_is_said():
    text = "a <b> bridge closed "
    section = omissions_section.text_section(finding(Span(2, 5, "<b>", 3.2), read=13.0), text, EARS)
    (made,) = section.charts
    assert '<mark class="met" title="score 3.2">&lt;b&gt;</mark>' in made
    assert (
        '<span class="unread" title="not read by the model">closed </span>'.replace(
            "closed ", text[13:]
        )
        in made
    )
    assert "5%" in section.lead
    assert "Alarm" in section.lead
    shown = re.sub("<[^>]+>", "", made).replace("&lt;", "<").replace("&gt;", ">")
    assert shown == text


def test_unused_stretches_are_shaded():
    found = finding(Span(1.0, 2.0, "", 4.0), length=4.0, read=3.0)
    made = omissions_section.waveform([0.0, 0.5, -1.0, 0.2] * 100, found)
    assert '<rect class="gone" x="240.0" y="0" width="240.0"' in made
    assert '<rect class="unread" x="720.0" y="0" width="240.0"' in made


def test_a_sound_page_may_play_what_is_in_it_and_nothing_else():
    made = omissions_section.sound_page(
        "whisper", [0.1] * 10, b"RIFF", "hello <there>", finding(length=1.0, read=1.0), EARS
    )
    assert "media-src data:" in made
    assert "hello &lt;there&gt;" in made
    assert "UklGRg==" in made


def test_silence_is_said():
    assert (
        "nothing here"
        in omissions_section.text_section(Finding(None, False, (), (), (), 1, 1), ".", EARS).lead
    )


@pytest.fixture
def audited(tmp_path):
    """Outputs with findings beside them, as ``dwindle omissions`` leaves them; the second item is
    alarmed."""
    path = folders.plain(tmp_path / "a.jsonl", 1, count=3)
    sources = [record["source"] for record in folders.records(1, count=3)]
    records = [
        {
            "id": f"item-{n}",
            "score": float(n),
            "alarm": n == 1,
            "spans": [],
            "chars": [0.5] * len(source),
        }
        for n, source in enumerate(sources)
    ]
    records[1]["spans"] = [{"start": 0, "end": 5, "text": sources[1][:5], "score": 3.5}]
    findings_of(path).write_text("".join(json.dumps(record) + "\n" for record in records))
    told = {
        "calibrated_on": 40,
        "calibrated_with": "the model's own outputs",
        "outputs": files.digest_of(Run(path)),
    }
    replace(EARS, origin=told).save(ears_of(findings_of(path)))
    return path, sources[1]


def test_a_report_marks_what_an_audit_found_with_its_error_rate(audited):
    path, source = audited
    text = report.html(report.make([path]))
    assert "1 of 3 outputs are flagged." in text
    said = "Something is likely left out: 1 of 3 outputs (at a false-alarm rate of 5%)."
    assert said in text.partition("<section")[0]
    assert re.findall(r'<section id="t0-([a-z-]+)"', text)[:2] == ["results", "marked"]
    assert "for calibration (40 of the model&#39;s own outputs), 5% would be flagged" in text
    assert f'<mark class="met" title="score 3.5">{source[:5]}</mark>' in text
    assert "<h3>item-1<span>score 1.00</span></h3>" in text


def test_findings_of_other_outputs_are_not_shown(audited):
    path, _ = audited
    folders.plain(path, 2, count=3)
    text = report.html(report.make([path]))
    assert 'id="t0-marked"' not in text
    assert "Left out (dwindle omissions a.jsonl --model MODEL)" in text
