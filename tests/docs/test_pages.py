"""README and tutorials: every block of code on them works."""

import json
import re
import runpy
import shutil
from itertools import pairwise

import pytest
import transformers as hf
from tokenizers import pre_tokenizers

from dwindle.auditing import choose
from dwindle.models.subword import trained
from tests.docs import pages
from tests.runs import corpora

# What a reader is told in one sentence when a rule is put into a model that is then fine-tuned.
pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained with")

TEXTS = ["the ferry is late .", "the mayor closed the bridge .", "die brücke ist gesperrt ."]
SHORT = {
    "max_steps=1000": "max_steps=2, report_to='none', use_cpu=True",
    "max_new_tokens=40": "max_new_tokens=4",
}
TINY = [
    "data.size={train: 8, dev: 2, test: 2}",
    "model.size=tiny",
    "model.vocabulary=300",
    "model.source_length=24",
    "training.steps=2",
    "training.batch_size=2",
    "decoding.min_length=1",
    "decoding.max_length=5",
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A tiny Marian and a tiny BART in place of the hub's, by their names."""
    shape = {
        "vocab_size": 320,
        "d_model": 16,
        "max_position_embeddings": 512,
        "encoder_layers": 1,
        "decoder_layers": 7,
    }
    shape |= {
        f"{side}_{what}": 2
        for side in ("encoder", "decoder")
        for what in ("attention_heads", "ffn_dim")
    }
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    found = {}
    for name, config, make in (
        ("Helsinki-NLP/opus-mt-en-de", hf.MarianConfig, hf.MarianMTModel),
        ("Helsinki-NLP/opus-mt-en-fr", hf.MarianConfig, hf.MarianMTModel),
        ("Helsinki-NLP/opus-mt-fr-en", hf.MarianConfig, hf.MarianMTModel),
        ("facebook/bart-large-cnn", hf.BartConfig, hf.BartForConditionalGeneration),
    ):
        folder = tmp_path_factory.mktemp("hub") / name.split("/")[1]
        model = make(config(**shape, **ends, forced_eos_token_id=2))
        model.generation_config.max_length = 40  # untrained, it would go on for long
        model.save_pretrained(folder)
        trained(TEXTS, 320, "bart").save_pretrained(folder)
        found[name] = str(folder)
    return found | {"openai/whisper-tiny": str(whisper(tmp_path_factory.mktemp("hub")))}


def whisper(folder):
    """A tiny Whisper with its processor, whose tokenizer knows the bytes only."""
    shape = {
        "vocab_size": 320,
        "d_model": 16,
        "num_mel_bins": 8,
        "encoder_layers": 1,
        "decoder_layers": 2,
    }
    shape |= {
        f"{side}_{what}": 2
        for side in ("encoder", "decoder")
        for what in ("attention_heads", "ffn_dim")
    }
    ends = {"pad_token_id": 0, "bos_token_id": 0, "eos_token_id": 0, "decoder_start_token_id": 1}
    hf.WhisperForConditionalGeneration(hf.WhisperConfig(**shape, **ends)).save_pretrained(folder)
    hf.WhisperFeatureExtractor(feature_size=8).save_pretrained(folder)
    names = ["<|endoftext|>", "<|startoftranscript|>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    (folder / "vocab.json").write_text(
        json.dumps({name: number for number, name in enumerate(names)})
    )
    (folder / "merges.txt").write_text("#version: 0.2\n")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "WhisperTokenizer"}')
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The reader's folder: empty but for the demo's files, which a clone has. Commands write beside
    them."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs/demo").mkdir(parents=True)
    for file in (pages.HOME / "docs/demo").glob("*.jsonl"):
        shutil.copy(file, tmp_path / "docs/demo")
    return tmp_path


def test_attach_and_fine_tune(run, hub, here):
    assert "dim:boxcox(0.65)" in pages.perform("docs/tutorials/attach.md", run, hub | SHORT)


def test_read_me(run, hub, here, monkeypatch):
    # a model that was never trained tells nothing, and would be refused
    monkeypatch.setattr(choose, "TELLS", 0.0)
    (here / "docs/demo/letters.omissions.jsonl").unlink()
    printed = pages.perform("README.md", run, hub | SHORT)
    assert "does NOT have diminishing returns" in run("certify", "paper:pg-dydim")[1]
    assert "repeat" in (here / "report.html").read_text().lower()
    assert "of 3 outputs are flagged" in " ".join(printed.split())
    assert {
        json.loads(line)["id"]
        for line in (here / "docs/demo/letters.omissions.jsonl").read_text().splitlines()
    } == {*("tenancy", "leaflet", "patient")}


def test_read_me_is_short_and_its_first_screen_says_what_it_is_for():
    lines = (pages.HOME / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 120
    first = "\n".join(lines[:20])
    assert first.index("git clone") < first.index("pip install") < first.index("dwindle omissions")
    assert "docs/demo/omission.svg" in first


def test_how_often_sentences_are_dropped_is_what_was_measured():
    """README and the benchmark's page state the committed counts."""
    result = json.loads((pages.HOME / "benchmarks/dropped_sentences.json").read_text())
    script = runpy.run_path(str(pages.HOME / "benchmarks/dropped_sentences.py"))
    assert script["table"](result) in (pages.HOME / "benchmarks/dropped_sentences.md").read_text()
    two, three, five = (row["a_sentence_gone"] for row in result["rows"])
    told = " ".join((pages.HOME / "README.md").read_text().split())
    assert all(row["paragraphs"] == 40 for row in result["rows"])
    assert (
        f"in **{five} of 40** paragraphs of five short news sentences, in {three} of 40 with three"
        in told
    )
    assert f"and in {two} of 40 with two" in told


def test_what_the_rule_is_worth_is_what_was_measured():
    """The table of README has the means of the committed results."""
    told = " ".join((pages.HOME / "README.md").read_text(encoding="utf-8").split())

    rows = json.loads((pages.HOME / "docs/results/news-bounded.json").read_text())["means"]
    table = {(row["arm"], row["metric"]): row["value"] for row in rows}
    for arm in ("plain", "cov", "switch-0.5", "bounded-4", "blocking", "bounded-4-blocking"):
        row = f"| {table[arm, 'rouge1']:.1f} | {table[arm, 'repetition3']:.1f} % |"
        assert row in told
        told = told.partition(row)[2]  # in this order


def test_english_to_french_is_what_was_measured():
    """The page of results states the committed means, differences and the paper's confidence."""
    page = (pages.HOME / "docs/RESULTS.md").read_text(encoding="utf-8")
    told = page.partition("## Translation: English to French")[2].partition("\n## ")[0]
    result = json.loads((pages.HOME / "docs/results/en-fr.json").read_text())
    mean = {(row["arm"], row["metric"]): row for row in result["means"]}
    gain = {(row["arm"], row["metric"]): row for row in result["differences"]}
    names = {"plain": "plain", "dim": "Dim", "dydim": "DyDim"}
    lines = [line for line in told.splitlines() if line.startswith("| ")]
    for arm, name in names.items():
        scores, entropies = (line for line in lines if line.split()[1] == name)
        for metric in ("bleu:moses-fr", "bleu"):
            row = mean[arm, metric]
            said = f"{row['value']:.2f} ({row['lowest']:.2f} to {row['highest']:.2f})"
            assert said in scores
        for metric in ("repetition1", "repetition2"):
            assert f"| {mean[arm, metric]['value']:.2f} |" in scores
        for metric in ("entropy-raw", "entropy-effective"):
            assert f"{mean[arm, metric]['value']:.3f}" in entropies
        if arm == "plain":
            continue
        for metric in ("bleu:moses-fr", "bleu", "repetition1", "repetition2"):
            row = gain[arm, metric]
            said = f"{row['difference']:+.2f} [{row['low']:+.2f}, {row['high']:+.2f}]"
            assert said in scores
    dim, dydim = (gain[arm, "bleu:moses-fr"]["wins"] for arm in ("dim", "dydim"))
    said = f"Dim has the higher BLEU in {100 * dim:.0f} % of resamples of items, "
    said += f"DyDim in {100 * dydim:.0f} %"
    assert said in told


def test_audit(run, hub, here):
    assert "repetition3" in pages.perform("docs/tutorials/audit.md", run, hub)
    assert (here / "both.html").is_file()


def test_a_row_of_the_paper(run, hub, here):
    data = corpora.make("cnndm", here)

    def tiny(arguments):
        if arguments[0] not in ("run", "arena"):
            return arguments
        return [*arguments, *TINY, *(f"start.{change}" for change in TINY)]

    printed = pages.perform("docs/tutorials/paper_row.md", run, {"FOLDER": data}, tiny)
    assert "difference to plain" in printed


def test_the_idea_in_code(run, here):
    pages.perform("docs/api/rules.md", run, {})


@pytest.mark.parametrize(
    "page", ["docs/tutorials/attach.md", "docs/tutorials/audit.md", "docs/tutorials/paper_row.md"]
)
def test_a_page_has_blocks_that_are_run(page):
    assert any(block.language in ("python", "bash") for block in pages.blocks(page))


def test_every_column_of_a_table_has_a_name():
    """An empty heading is one that a screen reader cannot read."""
    for page in [
        *pages.HOME.glob("docs/**/*.md"),
        *pages.HOME.glob("benchmarks/*.md"),
        *pages.HOME.glob("*.md"),
    ]:
        lines = page.read_text(encoding="utf-8").splitlines()
        heads = [
            line for line, under in pairwise(lines) if re.fullmatch(r"\|[-:| ]*-[-:| ]*\|", under)
        ]
        assert not [head for head in heads if re.search(r"\| *\|", head)], page
