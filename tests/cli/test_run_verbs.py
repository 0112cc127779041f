"""``recipes``, ``run``, ``train``, ``generate``, ``score RUN``, ``arena`` and ``demo`` as a user
types them."""

import json
import sys

import pytest

from dwindle.runs import job, recipe, steps

TINY = [
    "data.size={train: 8, dev: 2, test: 4}",
    "model.size=tiny",
    "model.vocabulary=300",
    "model.source_length=24",
    "training.steps=2",
    "training.batch_size=2",
    "decoding.min_length=1",
    "decoding.max_length=5",
]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A finished run."""
    return steps.run(recipe.read("newsroom/base", TINY), tmp_path_factory.mktemp("run") / "it")


def test_recipes_are_listed(run):
    code, out, _ = run("recipes")
    assert code == 0
    line = next(line for line in out.splitlines() if line.startswith("nyt50 "))
    assert line.split() == ["nyt50", "7", "Table", "2:", "BertSum", "on", "NYT50"]
    assert len(out.splitlines()) < 24  # one screen
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80


def test_the_recipes_of_a_task_are_a_table_of_changes(run):
    code, out, _ = run("recipes", "nyt50")
    assert code == 0
    lines = [line.split() for line in out.splitlines()]
    shared = "data corpus=nyt50 ptb=true lowercase=true presumm=true"
    assert lines[2] == shared.split()  # what they share, on top
    row = next(k for k, words in enumerate(lines) if words[:1] == ["nyt50/bertsum-dydim"])
    assert "(Table 2: BertSum + DyDim)" in out.splitlines()[row]
    changes = "of bertsum-dim: model.rule=paper:bert-dydim training.steps=15000"
    assert lines[row + 1] == changes.split()


def test_a_file_with_arms_is_listed_checked_and_run_by_arm(run, tmp_path):
    file = tmp_path / "mine.yaml"
    assert run("recipes", "copy", "newsroom", str(file))[0] == 0
    assert f"{file.stem}/dim " in run("recipes", str(file))[1]
    assert "is a task of 10 recipes: base, plain, cov" in run("recipes", "check", str(file))[1]
    assert "is a recipe: Dim" in run("recipes", "check", f"{file}/dim")[1]
    assert f"name one of them, such as {file}/base" in run("run", str(file))[2]


def test_recipes_are_listed_by_a_word(run):
    code, out, _ = run("recipes", "newsroom", "--json")
    names = [json.loads(line)["name"] for line in out.splitlines()]
    assert code == 0
    assert "newsroom/dim" in names
    assert all("newsroom" in line.lower() for line in out.splitlines())
    assert len(names) < len(run("recipes", "--json")[1].splitlines())
    code, out, complained = run("recipes", "no-such-word")
    assert (code, out) == (2, "")
    assert complained.count("\n") == 1


def test_recipes_are_listed_as_json(run):
    code, out, _ = run("recipes", "--json")
    found = {record["name"]: record for record in map(json.loads, out.splitlines())}
    assert code == 0
    assert found["cnndm/pg"]["published"]["rouge1"] == 36.69


def test_a_recipe_is_shown_as_its_file_or_in_full(run):
    code, out, _ = run("recipes", "show", "cnndm/pg-dim")
    assert code == 0
    assert out.startswith("# dwindle run cnndm/pg-dim\n")
    assert '# Table 1, row "PG + Dim": PG continued for 10,000 iterations' in out
    assert "\nbase: cnndm/pg\n" in out
    assert "\narms:\n" in run("recipes", "show", "cnndm")[1]
    code, out, _ = run("recipes", "show", "cnndm/pg-dim", "--full", "training.steps=7")
    assert code == 0
    assert "  steps: 7\n" in out
    assert "  accumulator: 0.1\n" in out  # a default


def test_a_recipe_is_copied_and_the_copy_is_one(run, tmp_path):
    file = tmp_path / "new" / "mine.yaml"
    assert run("recipes", "copy", "newsroom/dim", str(file))[0] == 0
    code, out, _ = run("recipes", "check", str(file))
    assert code == 0
    assert "is a recipe: Dim" in out
    assert recipe.changes(recipe.read(file), recipe.read("newsroom/dim")) == []
    code, _, err = run("recipes", "copy", "newsroom/dim", str(file))
    assert code == 2
    assert "is there already" in err
    assert (
        "end its name in .yaml"
        in run("recipes", "copy", "newsroom/dim", str(tmp_path / "mine.txt"))[2]
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "newsroom/bas"], "did you mean newsroom/base?"),
        (
            ["run", "newsroom/base", "trainin.steps=2"],
            "no key is called trainin: did you mean training?",
        ),
        (["run", "newsroom/base", "training.steps"], "write key=value"),
        (["recipes", "check", "none.yaml"], "there is no none.yaml"),
        (["train", "nowhere"], "nowhere holds no run"),
        (["generate", "nowhere"], "nowhere holds no run"),
        (["arena", "newsroom/plain"], "two different recipes or more"),
        (["arena", "cnndm/pg-cov", "cnndm/pg-dim"], "make them equal, or pass --unequal"),
    ],
)
def test_errors_are_one_sentence_and_exit_2(run, arguments, said):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("dwindle: ")
    assert err.count("\n") == 1
    assert said in err


def test_run_prints_the_scores_beside_the_published_ones(run, trained):
    changes = [*TINY, "published={rouge1: 12.34}"]
    code, out, err = run("run", "newsroom/base", *changes, "--out", str(trained.path))
    assert code == 0
    assert err == ""  # all was done
    assert "rouge1" in out
    assert "12.34" in out
    code, out, _ = run("run", "newsroom/base", *TINY, "--out", str(trained.path), "--json")
    assert json.loads(out)["items"] == 4


def test_single_steps_of_a_run(run, tmp_path):
    folder = str(tmp_path)
    with job.opened(tmp_path, recipe.read("newsroom/base", TINY), None):
        pass
    assert "is not trained: type dwindle train" in run("generate", folder)[2]
    assert run("train", folder)[0] == 0
    assert run("generate", folder)[0] == 0
    assert "is done already" in run("generate", folder)[2]
    assert (tmp_path / "outputs.jsonl").is_file()
    assert not (tmp_path / "scores.json").exists()
    code, out, _ = run("score", folder)
    assert code == 0
    assert "omission" in out  # a metric of the recipe
    assert json.loads((tmp_path / "scores.json").read_text())["items"] == 4


def test_score_of_a_run_with_other_metrics_adds_them_to_its_scores(run, trained):
    file = trained.path / "scores.json"
    before = file.read_text()
    known = json.loads(before)["scores"]
    code, out, _ = run("score", str(trained.path), "--metrics", "bleu", "--json")
    assert code == 0
    assert [s["metric"] for s in json.loads(out)["scores"]] == ["bleu"]
    added = json.loads(out)["scores"]
    assert json.loads(file.read_text())["scores"] == known + added
    code, out, _ = run("score", str(trained.path), "--json")
    assert json.loads(out)["scores"] == known
    assert json.loads(file.read_text())["scores"] == known + added
    # scores of other outputs
    file.write_text(json.dumps(json.loads(file.read_text()) | {"outputs": "others"}))
    run("score", str(trained.path))
    assert file.read_text() == before


def test_compare_takes_folders_too(run, trained):
    code, out, _ = run("compare", str(trained.path), str(trained.path), "--metrics", "rouge1")
    assert code == 0
    assert "rouge1" in out


def test_ctrl_c_says_how_to_go_on(run, tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, "fit", stopped)
    code, _, err = run("run", "newsroom/base", *TINY, "--out", str(tmp_path))
    assert code == 130
    assert err.endswith("dwindle: stopped, continue with the same command\n")


def test_a_full_disk_is_said_so(run, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(steps, "fit", full)
    code, _, err = run("run", "newsroom/base", *TINY, "--out", str(tmp_path))
    assert code == 2
    assert "the disk is full while writing" in err


def test_what_is_not_installed_is_named(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "accelerate", None)
    monkeypatch.setattr(steps, "fit", lambda *_: __import__("accelerate"))
    code, _, err = run("run", "newsroom/base", *TINY, "--out", str(tmp_path))
    assert code == 2
    assert "recipes need accelerate: type pip install 'dwindle[report,runs]'" in err


def test_arena_prints_a_table(run, tmp_path):
    started = [f"start.{change}" for change in TINY]
    arguments = [
        "newsroom/plain",
        "newsroom/dim",
        *TINY,
        *started,
        "metrics=[rouge1]",
        "--seeds",
        "1",
    ]
    code, out, _ = run("arena", *arguments, "--out", str(tmp_path))
    assert code == 0
    assert "difference to plain" in out
    assert "1 seed, 4 test items" in out
    assert (tmp_path / "arena.md").is_file()
    code, out, _ = run("arena", *arguments, "--out", str(tmp_path), "--json")
    assert json.loads(out)["arms"] == ["plain", "dim"]


@pytest.mark.slow
def test_the_demo_ends_with_a_table_and_a_report(run, tmp_path, monkeypatch):
    read = recipe.read
    small = [*TINY, *(f"start.{change}" for change in TINY)]
    monkeypatch.setattr(
        recipe,
        "read",
        lambda name, changes=(): read(name, small if str(name).startswith("demo/") else changes),
    )
    code, out, err = run("demo", "--out", str(tmp_path))
    assert code == 0, err
    assert out.count("difference to plain") == 1
    assert "report.html and look at Examples" in " ".join(out.split())
    assert "<html" in (tmp_path / "report.html").read_text()


def test_a_plan_is_printed_and_nothing_is_made(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("run", "newsroom/dim", *TINY, "--plan")
    assert (code, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == [
        "read",
        "train",
        "train",
        "decode",
        "memory",
        "disk",
    ]
    assert not list(tmp_path.iterdir())
