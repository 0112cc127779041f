"""The command as a user types it: what it prints, and with which code it ends."""

import json

import pytest


def test_help_names_every_verb(run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(
        verb in out
        for verb in (
            "recipes",
            "run",
            "train",
            "generate",
            "arena",
            "rules",
            "certify",
            "demo",
            "families",
            "inspect",
            "score",
            "compare",
            "paper",
            "bench",
            "study",
        )
    )


def test_an_old_verb_works_and_names_the_new_one(run):
    code, out, err = run("audit", "--json")
    assert (code, out) == (0, run("paper", "--json")[1])
    assert err == "dwindle: 'audit' is now 'dwindle paper'; the next version drops the old name\n"
    assert "audit" not in run("--help")[1]


def test_version(run):
    assert run("--version")[:2] == (0, "dwindle 0.2.0\n")


def test_rules_lists_functions_and_presets(run):
    code, out, _ = run("rules")
    assert code == 0
    assert "ln(1 + x)" in out
    assert "paper:bart-dydim" in out
    assert "18 15 13 12 11 10  9  8" in out  # log on 0.2, eight times


def test_rules_say_what_training_free_does(run):
    _, out, _ = run("rules", "--json")
    (entry,) = [entry for entry in json.loads(out) if entry["name"] == "training-free"]
    assert entry["rule"] == "dim:boxcox(0.5)+renormalise+protect(special)"
    assert entry["weights"] == sorted(entry["weights"], reverse=True)
    assert entry["weights"][-1] < 0.17
    assert "never trained with a rule" in run("rules")[1]


def test_rules_as_json(run):
    code, out, _ = run("rules", "--json")
    entries = {entry["name"]: entry for entry in json.loads(out)}
    assert code == 0
    assert entries["power(0.5)"]["slope_at_0"] == [0.5]
    assert entries["plain"]["weights"] == [0.2] * 8
    assert entries["paper:pg-dydim"]["rule"] == "dydim:log,power(0.5)"


def test_certify_proves(run):
    code, out, _ = run("certify", "dydim:boxcox(0),boxcox(0.5)")
    assert code == 0
    assert "equal at zero" in out.replace("\n", " ")


def test_certify_refutes(run):
    code, out, _ = run("certify", "paper:bert-dydim")
    assert code == 1
    assert "after nothing returns 0.4142, but after 0.9 it returns 0.5151" in " ".join(out.split())


def test_certify_as_json(run):
    code, out, _ = run("certify", "paper:pg-dydim", "--json")
    found = json.loads(out)
    assert code == 1
    assert found["holds"] is False
    assert found["counterexample"]["later"] > found["counterexample"]["first"]
    assert found["concave"]["proved"] is True


def test_demo_prints_and_draws(run, tmp_path):
    code, out, _ = run("demo", "--illustration", "--out", str(tmp_path / "new"))
    assert code == 0
    assert "0.191" in out  # ln(2.3 / 1.9): 0.4 at a coverage of 0.9
    assert (tmp_path / "new" / "figure1.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["certify", "dmi:log"], "did you mean 'dim:log'"),
        (["certify"], "see 'dwindle certify --help'"),
        (["certify", "dim:log", "--jsn"], "see 'dwindle certify --help'"),
        (["crtify"], "see 'dwindle --help'"),
        (["demo", "--illustration", "--out", "/dev/null/no"], "/dev/null"),
    ],
)
def test_errors_are_one_sentence_and_exit_2(run, arguments, said):
    code, out, err = run(*arguments)
    assert code == 2
    assert out == "" or arguments[0] == "demo"
    assert err.startswith("dwindle: ")
    assert err.count("\n") == 1
    assert said in err
