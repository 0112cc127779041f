"""Mistakes that files and names show are refused before anything heavy is imported."""

import json
import os
import subprocess
import sys

import pytest

from dwindle.models import place

PROGRAM = """
import json, sys
from dwindle.cli.main import main
for arguments in json.loads(sys.argv[1]):
    try:
        main(arguments)
    except SystemExit as stop:
        heavy = sorted({"torch", "transformers"} & set(sys.modules))
        print(json.dumps([stop.code, heavy]), flush=True)
"""


def test_before_torch(tmp_path):
    """One process, so that whichever command imports torch first is told by name."""
    empty, bare, no_json = (tmp_path / name for name in ("empty", "bare", "no_json"))
    for folder, config in ((empty, None), (bare, "{}"), (no_json, "{")):
        folder.mkdir()
        if config:
            (folder / "config.json").write_text(config)
    good = tmp_path / "outputs.jsonl"
    good.write_text('{"id": 1, "source": "a", "hypothesis": "b"}\n')
    missing = str(tmp_path / "missing")
    models = {
        str(empty): "it has no config.json",
        str(bare): "no weights",
        str(no_json): "is not JSON",
        str(good): "is a file",
        missing: f"there is no {missing}",
        "hub/name": "there is no folder hub/name, and the hub could not be asked",
    }
    cases = [
        (["inspect", str(empty)], "it has no config.json"),
        (["inspect", str(no_json)], "is not JSON"),
    ]
    cases += [(["omissions", missing, "--model", "hub/name"], f"there is no {missing}")]
    for model, why in models.items():
        cases += [
            (["coverage", model, "--text", str(good)], why),
            (["studio", model, "--port", "0"], why),
        ]
        cases += [(["omissions", str(good), "--model", model], why)]
    nobody = {
        "HF_ENDPOINT": "http://127.0.0.1:9",
        "HF_HOME": str(tmp_path / "home"),
        "NO_PROXY": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps([arguments for arguments, _ in cases])],
        capture_output=True,
        text=True,
        env={**os.environ, **nobody},
    )
    ends, said = done.stdout.splitlines(), done.stderr.splitlines()
    assert len(ends) == len(said) == len(cases), done.stderr
    for (arguments, why), end, sentence in zip(cases, ends, said, strict=True):
        assert json.loads(end) == [2, []], (arguments, sentence)
        assert sentence.startswith("dwindle: "), sentence
        assert why in sentence, arguments


def test_places(tmp_path):
    run = tmp_path / "run" / "model"
    run.mkdir(parents=True)
    (run / "config.json").write_text("{}")
    with pytest.raises(ValueError, match="no weights"):
        place.place(tmp_path / "run")
    (run / "model.safetensors").touch()
    assert place.place(tmp_path / "run") == place.place(run) == run
    assert place.place("on/hub") == "on/hub"
