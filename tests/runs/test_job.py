"""The folder of a run: what it tells, whom it lets in, and that nothing is half-written."""

import subprocess
import sys

import pytest

from dwindle.cli.main import main
from dwindle.runs import job, recipe


@pytest.fixture
def wanted(small):
    return small("newsroom/base")


def test_a_new_folder_has_the_recipe_with_every_setting(tmp_path, wanted):
    with job.opened(tmp_path / "a" / "b", wanted, None) as run:
        assert recipe.read(run.path / "recipe.yaml") == wanted
    record = run.record
    assert (record["recipe"], record["seed"], record["stages"]) == ("newsroom/base", 1, {})
    assert job.find(run.path).recipe == wanted


def test_a_stage_is_done_only_when_it_has_come_to_its_end(tmp_path, wanted):
    with job.opened(tmp_path, wanted, None) as run:
        with pytest.raises(KeyboardInterrupt), run.stage("train"):
            raise KeyboardInterrupt
        assert not run.done("train")
        with run.stage("train") as counts:
            counts |= {"truncated": 3}
    stage = job.find(tmp_path).record["stages"]["train"]
    assert stage["truncated"] == 3
    assert stage["seconds"] >= 0
    assert stage["began"] <= stage["ended"]
    assert {"python", "torch", "transformers", "dwindle"} <= set(stage["with"]["versions"])
    assert {"system", "cores"} <= set(stage["with"]["machine"])


def test_another_recipe_is_refused_by_the_keys_that_differ(tmp_path, wanted, small):
    with job.opened(tmp_path, wanted, None):
        pass
    other = small("newsroom/base", "training.steps=3", "model.rule=dim:log")
    with (
        pytest.raises(
            ValueError,
            match=r"another recipe.*model.rule is 'plain' there and 'dim:log' here.*training.steps",
        ),
        job.opened(tmp_path, other, None),
    ):
        pass


def test_labels_do_not_make_another_recipe(tmp_path, wanted, small):
    with job.opened(tmp_path, wanted, None):
        pass
    with job.opened(tmp_path, small("newsroom/base", "about=other", "published={rouge1: 3}"), None):
        pass


def test_a_folder_with_other_things_is_left_alone(tmp_path, wanted):
    (tmp_path / "thesis.txt").write_text("mine")
    with (
        pytest.raises(ValueError, match="holds files but no run"),
        job.opened(tmp_path, wanted, None),
    ):
        pass
    assert sorted(p.name for p in tmp_path.iterdir() if p.name != ".lock") == ["thesis.txt"]


def test_two_commands_do_not_work_in_one_folder(tmp_path, wanted):
    code = (
        "import sys, filelock\n"
        f"lock = filelock.FileLock({str(tmp_path / '.lock')!r})\n"
        "lock.acquire()\nprint('held', flush=True)\nsys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "held\n"
    try:
        with (
            pytest.raises(ValueError, match="another process is working in"),
            job.opened(tmp_path, wanted, None),
        ):
            pass
    finally:
        other.communicate("")
    with job.opened(tmp_path, wanted, None):
        pass  # a process that is gone holds nothing


HOLDER = """
import sys
from pathlib import Path
from dwindle.runs import job, recipe
with job.opened(Path(sys.argv[2]), recipe.read(Path(sys.argv[1])), None):
    print("works", flush=True)
    sys.stdin.read()
"""


def test_the_second_process_in_a_folder_gets_a_sentence(tmp_path, wanted, capsys):
    """The first one's files stay as they are; when it is killed, nothing blocks the next one."""
    file, folder = tmp_path / "recipe.yaml", tmp_path / "run"
    file.write_text(recipe.text(wanted), encoding="utf-8")
    command = [sys.executable, "-c", HOLDER, str(file), str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        try:
            assert first.stdout.readline() == "works\n"
            before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
            for other in (wanted.name, str(file)):  # another recipe, and the same
                with pytest.raises(SystemExit) as stopped:
                    main(["run", other, "--out", str(folder)])
                assert stopped.value.code == 2
                said = (
                    f"dwindle: another process is working in {folder}: wait for it, or choose "
                    "another folder\n"
                )
                assert capsys.readouterr().err.endswith(said)
            assert {
                path: path.read_bytes() for path in folder.rglob("*") if path.is_file()
            } == before
        finally:
            first.kill()
    with job.opened(folder, wanted, None) as run:
        assert run.recipe == wanted


def test_no_run_is_said_so(tmp_path):
    with pytest.raises(ValueError, match="holds no run: make one with 'dwindle run RECIPE"):
        job.find(tmp_path)


def test_a_broken_record_is_said_so(tmp_path, wanted):
    with job.opened(tmp_path, wanted, None) as run:
        (tmp_path / "run.json").write_text("{")
        with pytest.raises(ValueError, match="is not JSON"):
            run.done("train")
