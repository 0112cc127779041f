"""Attached models and the hub: pushed with a card that names the rule, loaded by revision, type and
device. No network: the hub's client is a folder, and what it has fetched a cache that is there."""

import shutil
from types import SimpleNamespace

import huggingface_hub
import pytest
import torch
from huggingface_hub import ModelCard
from huggingface_hub.errors import EntryNotFoundError

import dwindle
from tests.attaching.small import RULE, bart, source, target
from tests.attaching.test_pipeline import recogniser, words
from tests.docs import pages


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """The hub's client, with the repositories in a folder: every branch of one in a folder of its
    own."""
    home, told = tmp_path / "hub", []

    def folder(name, revision=None):
        return home / name / (revision or "main")

    def create_repo(self, name, private=None, exist_ok=False):
        folder(name).mkdir(parents=True, exist_ok=True)
        told.append(("repository", name, private))
        return SimpleNamespace(repo_id=name)

    def upload_folder(self, repo_id, folder_path, revision=None, **more):
        shutil.copytree(folder_path, folder(repo_id, revision), dirs_exist_ok=True)
        told.append(("commit", more["commit_message"], self.token))
        return "a commit"

    def load(name, token=None):
        file = folder(name) / "README.md"
        if not file.is_file():
            raise EntryNotFoundError("there is none")
        return ModelCard(file.read_text())

    monkeypatch.setattr(huggingface_hub.HfApi, "create_repo", create_repo)
    monkeypatch.setattr(huggingface_hub.HfApi, "upload_folder", upload_folder)
    monkeypatch.setattr(
        huggingface_hub.HfApi, "create_branch", lambda self, name, branch, exist_ok: None
    )
    monkeypatch.setattr(ModelCard, "load", staticmethod(load))
    return SimpleNamespace(folder=folder, told=told)


def logits(model):
    with torch.no_grad():
        return model.eval()(**source(), decoder_input_ids=target(), use_cache=False).logits


def test_a_pushed_model_names_its_rule_and_comes_back_with_it(hub):
    model = bart()
    dwindle.attach(model, RULE, layers=[0, 2])
    assert model.push_to_hub("me/mine", token="secret", private=True, tags=["news"]) == "a commit"
    assert hub.told == [("repository", "me/mine", True), ("commit", "Upload model", "secret")]
    card = ModelCard((hub.folder("me/mine") / "README.md").read_text())
    assert card.data.tags == ["dwindle", "diminishing-attention", "news"]
    assert card.data.library_name == "transformers"
    assert f"the rule `{RULE}`" in card.text
    assert "cross-attention layers 0, 2." in card.text
    assert 'dwindle.from_pretrained("me/mine")' in card.text
    assert "secret" not in str(card)
    loaded = dwindle.from_pretrained(hub.folder("me/mine"))
    assert dwindle.handle_of(loaded).settings.as_dict() == {"rule": RULE, "layers": [0, 2]}
    assert torch.equal(logits(loaded), logits(model))


def test_a_card_that_somebody_wrote_stays_but_for_the_rule(hub):
    model = bart()
    hub.folder("me/mine").mkdir(parents=True)
    written = "---\nlicense: mit\ntags:\n- news\n---\n\n# My model\n\nIt reads news.\n"
    (hub.folder("me/mine") / "README.md").write_text(written)
    for rule in (RULE, "dim:boxcox(0.65)"):
        dwindle.attach(model, rule)
        model.push_to_hub("me/mine")
    card = ModelCard((hub.folder("me/mine") / "README.md").read_text())
    assert (card.data.license, card.data.tags) == (
        "mit",
        ["news", "dwindle", "diminishing-attention"],
    )
    assert card.text.lstrip().startswith("# My model\n\nIt reads news.\n")
    assert "`dim:boxcox(0.65)`" in card.text
    assert f"`{RULE}`" not in card.text
    assert card.text.count("## Rule") == 1


def test_a_branch_and_the_library_s_own_push_after_detaching(hub):
    model = bart()
    dwindle.attach(model, RULE)
    model.push_to_hub("me/mine", revision="later", commit_message="again")
    assert (hub.folder("me/mine", "later") / "config.json").is_file()
    assert not (hub.folder("me/mine") / "config.json").exists()
    assert hub.told[-1][1] == "again"
    dwindle.detach(model)
    assert "push_to_hub" not in vars(model)


def test_a_saved_folder_has_a_card_and_keeps_one(tmp_path):
    model = bart()
    dwindle.attach(model, RULE)
    model.save_pretrained(tmp_path / "mine")
    card = (tmp_path / "mine" / "README.md").read_text()
    assert f"`{RULE}`" in card
    (tmp_path / "mine" / "README.md").write_text(f"{card}\nMy own words.\n")
    model.save_pretrained(tmp_path / "mine")
    assert (tmp_path / "mine" / "README.md").read_text() == f"{card}\nMy own words.\n"
    model.save_pretrained(tmp_path / "other", is_main_process=False)
    assert not (tmp_path / "other" / "README.md").exists()


def test_a_revision_is_loaded_from_what_was_fetched(tmp_path):
    """A cache as the hub's library leaves it behind, with two commits of one repository."""
    home = tmp_path / "models--me--mine"
    for branch, rule in (("main", RULE), ("before", "dim:boxcox(0.65)")):
        model = bart()
        dwindle.attach(model, rule)
        model.save_pretrained(home / "snapshots" / f"{branch:0<40}")
        (home / "refs").mkdir(exist_ok=True)
        (home / "refs" / branch).write_text(f"{branch:0<40}")
    for revision, rule in ((None, RULE), ("main", RULE), ("before", "dim:boxcox(0.65)")):
        asked = {} if revision is None else {"revision": revision}
        loaded = dwindle.from_pretrained(
            "me/mine", cache_dir=tmp_path, local_files_only=True, **asked
        )
        assert str(dwindle.handle_of(loaded).rule) == rule


@pytest.mark.parametrize("place", ["cpu", {"": "cpu"}, "auto"])
def test_a_type_and_a_device_map(place, tmp_path):
    model = bart()
    dwindle.attach(model, RULE)
    model.save_pretrained(tmp_path)
    loaded = dwindle.from_pretrained(tmp_path, dtype=torch.bfloat16, device_map=place)
    assert loaded.dtype == torch.bfloat16
    assert loaded.device.type == "cpu"
    assert str(dwindle.handle_of(loaded).rule) == RULE
    twin = dwindle.from_pretrained(tmp_path, dtype=torch.bfloat16)
    assert torch.equal(logits(loaded), logits(twin))
    handle = dwindle.handle_of(loaded)
    given = source()
    with torch.no_grad():
        cache = loaded(**given, decoder_input_ids=target(), use_cache=True).past_key_values
    assert {one.total.dtype for one in handle.coverage(cache)} == {torch.float32}


def test_the_page(hub, tmp_path, monkeypatch, capsys):
    """Every block of it runs, with tiny models in place of the hub's."""
    monkeypatch.chdir(tmp_path)
    bart().save_pretrained("bart")
    (model, extractor), tokenizer = recogniser(), words()
    for part in (model, extractor, tokenizer):
        part.save_pretrained("s2t")
    tokenizer.save_pretrained("bart")
    monkeypatch.setattr(
        type(tokenizer), "push_to_hub", lambda self, name: self.save_pretrained(hub.folder(name))
    )
    stand_ins = {"facebook/bart-large-cnn": "bart", "facebook/s2t-small-librispeech-asr": "s2t"}
    stand_ins |= {
        '"me/summariser", revision="main"': f'"{hub.folder("me/summariser")}"',
        "max_new_tokens=40": "max_new_tokens=4",
    }
    stand_ins |= {
        "max_steps=1000": "max_steps=2, use_cpu=True",
        "eval_steps=100": "eval_steps=1",
        '"tensorboard"': '"none"',
    }
    pages.perform("docs/HUB.md", run=None, stand_ins=stand_ins)
    assert capsys.readouterr().out.count("eval_unused") == 2
