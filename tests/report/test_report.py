"""The report as a file: whole, escaped, small, and the same numbers in HTML, Markdown and LaTeX."""

import base64
import hashlib
import html
import json
import re

import pytest

from dwindle.analysis.examples import examples
from dwindle.data.load import load
from dwindle.data.settings import DataSettings, Size
from dwindle.metrics.difference import Difference
from dwindle.report import page, report
from tests import folders


@pytest.fixture
def two(tmp_path):
    return [folders.plain(tmp_path / "a.jsonl", 1), folders.plain(tmp_path / "b.jsonl", 2)]


def ids(text):
    return re.findall(r'<section id="(?:t\d-)?([a-z-]+)"', text)


def test_sections_of_two_plain_files(two):
    """Those that have nothing to show are absent, and one line says what they would need."""
    text = report.html(report.make(two))
    assert ids(text) == [
        "results",
        "tradeoff",
        "repetition",
        "novelty",
        "layout",
        "entropy",
        "examples",
        "settings",
    ]
    assert text.count("With more data this page would also have:") == 1
    assert "Like for like (recipes of the runs)" in text
    assert "not run" not in text


def test_one_system_has_its_worst_items_third_at_the_latest(two):
    text = report.html(report.make(two[:1]))
    assert ids(text)[:3] == ["results", "examples", "repetition"]
    assert "Differences (a second system on the same items)" in text


def test_navigation_and_headings_say_the_same(tmp_path):
    text = report.html(report.make([folders.run(tmp_path / "run")]))
    menu = text.partition("<nav")[2].partition("</nav>")[0]
    assert re.findall(r'<a href="#[^"]*">([^<]*)</a>', menu) == re.findall(
        r"<h2>([^<]*)</h2>", text
    )


def test_a_translation_has_the_numbers_of_translations(tmp_path):
    file = tmp_path / "fr.jsonl"
    lines = [
        {
            "id": n,
            "source": "the ferry was late again today because of fog",
            "reference": "le bac était encore en retard aujourd'hui à cause du brouillard",
            "hypothesis": "le bac était en retard aujourd'hui à cause du brouillard"[: 20 + 5 * n],
        }
        for n in range(6)
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = report.make([file])
    assert made.tests[0].task == "translation"
    assert made.tests[0].main[:3] == ["bleu", "chrf", "length:ratio"]
    assert not {"novelty", "layout"} & set(ids(report.html(made)))
    assert {"novelty", "layout"} <= set(ids(report.html(report.make([file], task="text"))))


def test_a_translation_without_references_begins_with_its_length(tmp_path):
    file = tmp_path / "fr.jsonl"
    source = "the ferry was late again today because of fog"
    output = "le bac était en retard aujourd'hui à cause du brouillard"
    lines = [{"id": n, "source": source, "hypothesis": output[: 20 + 5 * n]} for n in range(6)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = report.make([file])
    assert made.tests[0].main == ["length:source", "repetition3"]
    text = report.html(made)
    # a table of repetition by the length of sources would say nothing
    assert "entropy" not in ids(text)
    assert "Coverage and length (references, or a run&#39;s coverage.npz)" in text
    titles = [title for _, title, _ in examples(made.tests[0]).metrics]
    assert titles.count("length to source") == 1


def test_tables_of_the_paper_are_there_for_runs_of_the_paper(tmp_path):
    run = folders.run(tmp_path / "run", given=folders.recipe() | {"name": "cnndm/pg-dim"})
    text = report.html(report.make([run]))
    assert ids(text)[-1] == "paper"
    assert "not run" in text


def test_nothing_in_the_file_points_outside(two):
    text = report.html(report.make(two))
    assert not re.findall(r"""(?:src|href|action|url)\s*[=(]\s*["']?(?!#)[a-z]*:?//""", text)
    assert " style=" not in text  # the policy would refuse it
    assert "default-src &#39;none&#39;" in text


def test_text_from_outputs_is_escaped_everywhere(tmp_path):
    file = tmp_path / "a.jsonl"
    record = {
        "id": folders.NASTY,
        "source": folders.NASTY,
        "reference": folders.NASTY,
        "hypothesis": folders.NASTY,
    }
    file.write_text(json.dumps(record) + "\n")
    nasty = tmp_path / "<b>x&{{ 7*7 }}.jsonl"
    nasty.write_text(json.dumps({**record, "hypothesis": "other"}) + "\n")
    text = report.html(report.make([nasty, file]))
    assert "<img" not in text
    assert "<b>x" not in text
    assert text.count("<script>") == 1
    assert html.escape("<b>x&{{ 7*7 }}") in text
    data = re.search(
        r'<script type="application/json" id="t0-examples-data">(.*?)</script>', text, re.S
    )[1]
    assert json.loads(data)["items"][0]["id"] == folders.NASTY


def test_the_digests_of_the_policy_are_those_of_the_page(two):
    text = report.html(report.make(two))
    for tag in ("style", "script"):
        inside = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.S)[1]
        digest = base64.b64encode(hashlib.sha256(inside.encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{html.escape(digest)}&#39;" in text


def test_an_arena_with_an_unfinished_run(tmp_path):
    folder = folders.arena(tmp_path / "arena")
    (folder / "dim" / "seed-1" / "outputs.jsonl").unlink()
    text = report.html(report.make([folder]))
    assert "the run is not finished" in text
    assert "not tested" in text


def test_the_heading_names_the_systems_once(tmp_path):
    one, two = folders.plain(tmp_path / "a.jsonl"), folders.plain(tmp_path / "b.jsonl")
    alone, both = (report.html(report.make(paths)) for paths in ([one], [one, two]))
    for heading, text in (("a", alone), ("a against b", both)):
        assert re.search(rf'<h1>{heading}</h1>\s*<p class="about">\d+ items', text)


def test_two_test_sets_have_two_blocks(tmp_path):
    one, two = folders.plain(tmp_path / "a.jsonl"), folders.plain(tmp_path / "b.jsonl", count=5)
    text = report.html(report.make([one, two]))
    assert text.count("<h1>") == 2
    assert len(set(re.findall(r'id="([^"]+)"', text))) == len(re.findall(r'id="([^"]+)"', text))


def test_markdown_and_latex_have_the_same_numbers(two):
    made = report.make(two)
    md, tex = report.markdown(made), report.latex(made)
    value = f"{made.tests[0].value('b', 'rouge1').value:.2f}"
    assert value in md
    assert value in tex
    rows = [line for line in md.splitlines() if line.startswith("|")]
    assert all(row.endswith("|") for row in rows)
    assert tex.count(r"\begin{table}") == tex.count(r"\end{table}") > 5


def test_captions_are_true_wherever_they_stand(two):
    made = report.make(two)
    made.tests[0]._differences["b", "rouge1"] = Difference("rouge1", 1.0, 0.5, 2.0, None, 0.01)
    made.tests[0]._differences["b", "rouge2"] = Difference("rouge2", -1.0, -2.0, -0.5, None, 0.01)
    md, tex, page_ = report.markdown(made), report.latex(made), report.html(made)
    assert "olour" not in md + tex
    assert "Coloured where it is clearly better or worse" in page_
    assert "**+1.00** (0.50 to 2.00, p = 0.010) | *−1.00*" in md
    assert r"\textbf{+1.00} (0.50 to 2.00, p = 0.010) & \emph{$-$1.00}" in tex
    assert "in bold" in md
    assert "in bold" in tex
    assert "below it" not in md + tex


def test_every_table_of_synthetic_data_says_so(tmp_path, two):
    file = tmp_path / "world.jsonl"
    examples = load(DataSettings("newsroom", size=Size(test=4)), "test")
    lines = [
        {
            "id": e.id,
            "source": e.source,
            "reference": e.references[0],
            "hypothesis": "x",
            "gold": e.gold,
        }
        for e in examples
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    made = report.make([file])
    md = report.markdown(made)
    ours = md.partition("## Beside the paper")[0]
    captions = re.findall(r"^\*\*(.*)\*\*$", ours, re.M)
    assert captions
    assert all(caption.endswith("(synthetic data)") for caption in captions)
    assert "4 items of synthetic data" in report.html(made)
    assert (
        "synthetic data"
        not in report.markdown(report.make(two)).partition("## Beside the paper")[0]
    )


def test_markdown_and_latex_escape(tmp_path):
    file = folders.plain(tmp_path / "a_b|c$%.jsonl")
    made = report.make([file])
    assert r"a\_b\|c$%" in report.markdown(made)
    assert r"a\_b\textbar{}c\$\%" in report.latex(made)


def test_a_file_is_written_whole(tmp_path):
    page.write(tmp_path / "new" / "x.html", "text")
    assert (tmp_path / "new" / "x.html").read_text() == "text"
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["x.html"]


def test_a_table_called_like_its_section_is_named_once_in_latex(two):
    text = report.latex(report.make(two))
    assert r"\caption{a against b: Results. Value, with its 95 \% interval (bootstrap).}" in text
    assert "Results. Results" not in text
    assert r"\caption{a against b: Results. Differences to a. Minus a, " in text
