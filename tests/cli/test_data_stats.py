"""``dwindle data stats`` as a user meets it, and the counts behind it."""

import json
from collections import Counter

import pytest

from dwindle.data.example import Example
from dwindle.data.load import DataSettings, Size, load
from dwindle.metrics.corpus import statistics


def test_a_made_world(run):
    code, out, err = run(
        "data", "stats", "newsroom", "size.train=30", "size.dev=10", "size.test=20"
    )
    assert (code, err) == (0, "")
    rows = [line.rsplit(maxsplit=3) for line in out.splitlines()]
    assert rows[0] == ["newsroom", "train", "dev", "test"]
    assert out.splitlines()[1].split() == ["size", "60"]  # the paper's Table 8 has this row
    assert rows[2] == ["pairs", "30", "10", "20"]
    assert len(rows) == 14
    assert "novel 5-grams, %" in out


def test_json_is_the_counts(run):
    code, out, _ = run(
        "data",
        "stats",
        "phrasebook",
        "data.size.test=25",
        "phrasebook.row=2",
        "--splits",
        "test",
        "--json",
    )
    assert code == 0
    record = json.loads(out)
    knobs = DataSettings("phrasebook").phrasebook.__class__(row=2)
    expected = statistics(
        load(DataSettings("phrasebook", size=Size(test=25), phrasebook=knobs), "test")
    )
    assert (record["corpus"], record["size"]) == ("phrasebook", 25)
    assert record["splits"]["test"]["source_words"] == expected.source_words
    assert record["splits"]["test"]["novelty"] == list(expected.novelty)


def test_a_recipe_s_data(run):
    code, out, _ = run("data", "stats", "newsroom/base", "size.dev=5", "--splits", "dev", "--json")
    assert (code, json.loads(out)["splits"]["dev"]["pairs"]) == (0, 5)


def test_a_folder_with_empty_pairs(run, tmp_path):
    (tmp_path / "train.en").write_text("one two\n\nthree\n")
    (tmp_path / "train.de").write_text("eins zwei\nx\ndrei\n")
    arguments = ("lines", "source=en", "target=de", "--path", str(tmp_path), "--splits", "train")
    code, out, err = run("data", "stats", *arguments)
    assert code == 0
    assert err.startswith(
        "dwindle: 1 of 3 training pairs have an empty source or reference and are left out"
    )
    assert "vocabulary of sources" in out


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["cnn"], "no corpus is called 'cnn': did you mean cnndm?"),
        (["newsroom", "facts=3"], "no key is called facts"),
        (["newsroom", "size"], "'size' is not a change of a recipe: write key=value"),
        (["newsroom", "newsroom.facts=0"], "newsroom.facts is 0: give 1 to 12"),
        (["jsonl"], "jsonl needs a path"),
        (["newsroom", "--splits", "all"], "no split is called 'all'"),
    ],
)
def test_bad_input_is_a_sentence(run, arguments, complaint):
    code, out, err = run("data", "stats", *arguments)
    assert (code, out) == (2, "")
    assert complaint in err
    assert err.count("\n") == 1


def grams(text, n):
    words = text.lower().replace(".", " ").split()
    return [tuple(words[i : i + n]) for i in range(len(words) - n + 1)]


def test_the_counts_against_the_obvious_way():
    made = list(load(DataSettings("newsroom", size=Size(test=40)), "test"))
    found = statistics(made)
    assert found.pairs == 40
    assert found.source_sentences == sum(len(e.source.split("\n")) for e in made) / 40
    # Every token of this world is a word but these.
    words = [[w for w in e.source.split() if w not in (".", "``", "''")] for e in made]
    assert found.source_words == sum(map(len, words)) / 40
    assert found.source_vocabulary == len(Counter(w for text in words for w in text))
    for n in range(1, 6):
        shares = []
        for e in made:
            have = set(grams(e.source.replace("``", " ").replace("''", " "), n))
            all_grams = grams(e.target, n)
            shares.append(100 * sum(g not in have for g in all_grams) / len(all_grams))
        assert found.novelty[n - 1] == pytest.approx(sum(shares) / 40)


def test_several_references_and_no_examples():
    found = statistics([Example("1", "a b c", ("a b", "x"))])
    assert (found.reference_words, found.reference_vocabulary, found.novelty[0]) == (1.5, 3, 50.0)
    with pytest.raises(ValueError, match="no examples"):
        statistics([])
