"""README and tutorials: every block of code on them works."""

import pytest
import transformers as hf

from dwindle.models.subword import trained
from tests.docs import pages
from tests.runs import corpora

# What a reader is told in one sentence when a rule is put into a model that is then fine-tuned.
pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained with")

TEXTS = ["the ferry is late .", "the mayor closed the bridge .", "die brücke ist gesperrt ."]
SHORT = {"max_steps=1000": "max_steps=2, report_to='none', use_cpu=True", "max_new_tokens=40": "max_new_tokens=4"}
TINY = [
    *("data.size={train: 8, dev: 2, test: 2}", "model.size=tiny", "model.vocabulary=300", "model.source_length=24"),
    *("training.steps=2", "training.batch_size=2", "decoding.min_length=1", "decoding.max_length=5"),
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A tiny Marian and a tiny BART in place of the hub's, by their names."""
    shape = {"vocab_size": 320, "d_model": 16, "max_position_embeddings": 64, "encoder_layers": 1, "decoder_layers": 7}
    shape |= {f"{side}_{what}": 2 for side in ("encoder", "decoder") for what in ("attention_heads", "ffn_dim")}
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    found = {}
    for name, config, make in (
        ("Helsinki-NLP/opus-mt-en-de", hf.MarianConfig, hf.MarianMTModel),
        ("facebook/bart-large-cnn", hf.BartConfig, hf.BartForConditionalGeneration),
    ):
        folder = tmp_path_factory.mktemp("hub") / name.split("/")[1]
        make(config(**shape, **ends, forced_eos_token_id=2)).save_pretrained(folder)
        trained(TEXTS, 320, "bart").save_pretrained(folder)
        found[name] = str(folder)
    return found


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The reader's folder: empty but for what a clone has."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "docs").symlink_to(pages.HOME / "docs")
    return tmp_path


def test_attach_and_fine_tune(run, hub, here):
    assert "dim:boxcox(0.65)" in pages.perform("docs/tutorials/attach.md", run, hub | SHORT)


def test_read_me(run, hub, here):
    printed = pages.perform("README.md", run, hub | SHORT)
    (shown,) = [block.code for block in pages.blocks("README.md") if block.language == "text"]
    assert all(line in printed for line in shown.splitlines() if line != "...")
    assert "repeat" in (here / "report.html").read_text().lower()


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


@pytest.mark.parametrize("page", ["docs/tutorials/attach.md", "docs/tutorials/audit.md", "docs/tutorials/paper_row.md"])
def test_a_page_has_blocks_that_are_run(page):
    assert any(block.language in ("python", "bash") for block in pages.blocks(page))
