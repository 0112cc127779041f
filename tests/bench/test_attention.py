"""The bench: its rows, its shapes, its command."""

import json

import pytest

from dwindle.bench import attention as bench
from dwindle.bench.table import table
from dwindle.cli.main import main
from dwindle.core import functional
from dwindle.core.backends import fastest
from dwindle.system import cache

TINY = (1, 2, 3, 5, 8)


def test_rows_have_a_control_and_ratios_of_the_same_run():
    rows = {
        row.contender: row
        for row in bench.bench(TINY, ["dim:log"], ["chunked"], 0.01, memory=False)
    }
    assert list(rows) == ["SDPA", "SDPA again (control)", "dim:log chunked", "dim:log eager"]
    sdpa, chunked, eager = rows["SDPA"], rows["dim:log chunked"], rows["dim:log eager"]
    assert sdpa.forward_to_sdpa == 1
    assert chunked.both_to_sdpa == pytest.approx(chunked.both / sdpa.both)
    assert chunked.forward_to_eager == pytest.approx(chunked.forward / eager.forward)


def test_the_choice_is_explained(monkeypatch, tmp_path):
    """Each backend with its milliseconds by a clock of the test, the fastest named first."""
    monkeypatch.setattr(cache, "home", lambda: tmp_path)
    monkeypatch.setattr(fastest, "_found", {})
    seconds = {"chunked": 0.002, "eager": 0.001}
    monkeypatch.setattr(
        bench, "candidates", lambda call: {name: functional.BACKENDS[name] for name in seconds}
    )
    names = iter(seconds)
    monkeypatch.setattr(fastest, "_seconds", lambda call, backend: seconds[next(names)])
    assert bench.explain(TINY, ["dim:log"], "cpu") == [
        "dim:log: eager (chunked 2.000, eager 1.000 ms)"
    ]
    assert bench.explain(TINY, ["dim:log"], "cpu") == [
        "dim:log: eager (chunked 2.000, eager 1.000 ms)"
    ], "it was timed again"


def test_a_step_has_no_backward():
    rows = bench.bench((2, 2, 1, 5, 8), ["dim:log"], ["chunked"], 0.01, memory=True)
    assert all(row.both is None and row.megabytes is None for row in rows)


def test_a_prompt_and_every_option():
    rows = bench.bench((1, 2, 3, 9, 8), list(bench.RULES), ["auto"], 0.01, memory=False, document=6)
    assert len(rows) == 2 + 2 * len(bench.RULES)
    assert (
        bench.bench((1, 2, 1, 9, 8), ["training-free"], ["auto"], 0.01, memory=False, document=6)[
            2
        ].both
        is None
    )


@pytest.mark.parametrize(
    ("sizes", "document"), [((2, 2, 3, 9, 8), None), ((2, 2, 1, 9, 8), 6), ((2, 2, 3, 9, 8), 6)]
)
def test_a_table_of_80_columns_has_every_rule_whole(sizes, document):
    rows = bench.bench(sizes, list(bench.RULES), ["auto"], 0.01, memory=False, document=document)
    lines = table("tiny", sizes, rows).splitlines()
    assert max(map(len, lines)) <= 80
    for rule in bench.RULES:
        start = lines.index(rule)
        for line, backend in zip(lines[start + 1 : start + 3], ("auto", "eager"), strict=True):
            way, forward, _, _, both, *_ = line.split()
            assert way == backend
            assert float(forward) >= 0
            assert (both == "-") == (sizes[2] == 1)
    assert lines[-2].startswith("auto takes at most")
    assert lines[-1] in bench.RULES


def test_memory_grows_with_what_is_held():
    # Eager holds several tensors of 4 * 256 * 1024 floats, 4 MB each; SDPA none.
    sizes = (1, 4, 256, 1024, 16)
    assert bench._fresh_peak(sizes, "dim:log eager") > bench._fresh_peak(sizes, "SDPA") + 8


@pytest.mark.parametrize("text", ["barf", "1,2,3", "1,2,3,4,0", "1,2,3,4,x"])
def test_unknown_shapes_name_the_known(text):
    with pytest.raises(ValueError, match="choose one of bart, nmt, long, step"):
        bench.shape(text)


def test_the_command(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [
        "bench",
        "attention",
        "--shape",
        "1,1,2,3,8",
        "--rule",
        "dim:log",
        "--seconds",
        "0.01",
        "--no-memory",
    ]
    with pytest.raises(SystemExit) as stop:
        main([*arguments, "--json"])
    found = json.loads(capsys.readouterr().out)
    assert stop.value.code == 0
    assert found["shapes"]["1,1,2,3,8"]["rows"][1]["contender"] == "SDPA again (control)"
    with pytest.raises(SystemExit):
        main(arguments)
    assert "control" in capsys.readouterr().out
    assert (tmp_path / "bench-attention.png").stat().st_size > 1000
