"""``dwindle import`` as a user types it, and a recipe of the paper that starts from what it
wrote."""

import pytest

from dwindle.checkpoints.opening import bring
from dwindle.runs import recipe, steps
from tests.checkpoints import test_fairseq_transformer, test_see
from tests.runs.tiny_recipes import TINY


def test_import(run, tmp_path):
    test_fairseq_transformer.write(tmp_path / "in")
    code, out, _ = run("import", str(tmp_path / "in"), "--out", str(tmp_path / "out"))
    assert code == 0
    assert (
        "found a fairseq Transformer, en-de, joined vocabularies: 2,840 parameters"
        in out.replace("\n", " ")
    )
    assert "model.start=" in out
    code, out, _ = run("inspect", str(tmp_path / "out"))
    assert (code, "FairseqTransformer" in out) == (0, True)


def test_a_sentence_and_nothing_written(run, tmp_path):
    test_fairseq_transformer.write(tmp_path / "in", drop=["dict.de.txt"])
    code, out, err = run("import", str(tmp_path / "in"), "--out", str(tmp_path / "out"))
    assert (code, out) == (2, "")
    assert "has no dict.de.txt, the dictionary: put it beside model.pt" in err
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_languages_are_named(run, tmp_path):
    test_fairseq_transformer.write(tmp_path / "in", "separate", **test_fairseq_transformer.UNSAID)
    words = ["import", str(tmp_path / "in"), "--out", str(tmp_path / "out")]
    code, _, err = run(*words)
    assert code == 2
    assert "name them with --source-lang and --target-lang" in " ".join(err.split())
    code, out, _ = run(*words, "--source-lang", "en", "--target-lang", "de")
    assert code == 0
    assert "en-de, separate" in out


def test_languages_of_a_model_without(run, tmp_path):
    (tmp_path / "in").mkdir()
    test_see.write(tmp_path / "in", "tensorflow", coverage=False)
    code, _, err = run(
        "import", str(tmp_path / "in"), "--out", str(tmp_path / "out"), "--source-lang", "en"
    )
    assert code == 2
    assert "is no model of fairseq: leave --source-lang" in " ".join(err.split())


@pytest.mark.parametrize("name", ["phrasebook/dim", "newsroom/dim"])
def test_a_recipe_does_only_its_own_training(name, tmp_path):
    """The start of the recipe is not trained: the checkpoint takes its place."""
    folder = tmp_path / "in"
    folder.mkdir()
    if name == "phrasebook/dim":
        test_fairseq_transformer.write(folder)
    else:
        test_see.write(folder, "tensorflow", coverage=False)
    bring(folder, tmp_path / "out")
    changes = [
        *TINY,
        f"model.start={tmp_path / 'out'}",
        "decoding.min_length=0",
        "metrics=[length]",
    ]
    made = steps.run(recipe.read(name, changes), tmp_path / "run")
    assert made.done("train")
    assert made.done("generate")
    assert not (tmp_path / "run" / "start").exists()
