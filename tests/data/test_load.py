"""The registry, settings, and the two readers for anything."""

import pickle

import pytest

from dwindle.data.load import CORPORA, DataSettings, Size, load
from tests.data.corpus_files import write_jsonl, write_lines


def jsonl(path, **more):
    return DataSettings("jsonl", str(path), **more)


def test_an_unknown_corpus_names_the_nearest():
    with pytest.raises(ValueError, match="no corpus is called 'cnn-dm': did you mean 'cnndm'"):
        load(DataSettings("cnn-dm"), "train")
    with pytest.raises(ValueError, match="choose from cnndm"):
        load(DataSettings("zzzzz"), "train")
    with pytest.raises(ValueError, match="no split is called 'valid'"):
        load(DataSettings("newsroom"), "valid")


@pytest.mark.parametrize(
    "corpus", ["cnndm", "nyt50", "wmt14-en-de", "wmt14-en-fr", "jsonl", "lines"]
)
def test_a_path_that_is_not_there_is_a_sentence(corpus, tmp_path):
    assert corpus in CORPORA
    ends = {"source": "en", "target": "de"} if corpus == "lines" else {}
    with pytest.raises(ValueError, match=r"there is no .*nowhere: "):
        load(DataSettings(corpus, str(tmp_path / "nowhere"), **ends), "train")


def test_sizes_are_positive():
    with pytest.raises(ValueError, match=r"size\.dev is 0"):
        Size(dev=0)


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
def test_jsonl_in_its_forms(tmp_path, ending):
    records = [
        {"id": "a", "source": "one two", "references": ["x", ["y1", "y2"]]},
        {"id": 7, "source": ["first .", "second ."], "references": ["z"]},
    ]
    write_jsonl(tmp_path / f"valid.{ending}", records)
    examples = load(jsonl(tmp_path), "dev")
    assert [e.id for e in examples] == ["a", "7"]
    assert examples[0].references == ("x", "y1\ny2")
    assert examples[0].target == "x"
    assert examples[1].source == examples[1].input == "first .\nsecond ."
    assert list(pickle.loads(pickle.dumps(examples))) == list(examples)


def test_jsonl_columns_by_name_and_ids_by_line(tmp_path):
    write_jsonl(
        tmp_path / "test.jsonl", [{"doc": "D", "sum": ["s1", "s2"]}, {"doc": "E", "sum": "t"}]
    )
    examples = load(jsonl(tmp_path, source="doc", target="sum", lowercase=True), "test")
    assert [(e.id, e.source, e.target) for e in examples] == [("1", "d", "s1\ns2"), ("2", "e", "t")]


def test_size_takes_the_first(tmp_path):
    write_jsonl(tmp_path / "train.jsonl", [{"source": str(i), "target": "x"} for i in range(9)])
    assert [e.source for e in load(jsonl(tmp_path, size=Size(train=3)), "train")] == ["0", "1", "2"]


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (
            ['{"source": "a"}'],
            r"line 1 has no 'target' but 'source': name its columns with source and target",
        ),
        (
            ['{"source": "a", "target": "b"}', "{"],
            r"line 2 is not JSON .*: write one JSON object per line",
        ),
        (["[1]"], "line 1 is JSON but not an object"),
        (
            ['{"source": 3, "target": "b"}'],
            "line 1: 'source' is neither a string nor a list of sentences",
        ),
        (['{"id": "", "source": "a", "target": "b"}'], "line 1 has the id ''"),
        (
            ['{"id": 1, "source": "a", "target": "b"}'] * 2,
            "lines 1 and 2 have the same id '1': ids must differ",
        ),
        (
            ['{"source": " ", "target": "b"}'],
            "line 1 has an empty source or reference: a test item needs both",
        ),
        (['{"source": "a", "references": []}'], "line 1 has an empty source or reference"),
        ([], "is empty: write one JSON object per line"),
    ],
)
def test_bad_jsonl_is_a_sentence(tmp_path, lines, complaint):
    write_lines(tmp_path / "test.jsonl", lines)
    with pytest.raises(ValueError, match=complaint):
        load(jsonl(tmp_path), "test")


def test_a_missing_split_is_a_sentence(tmp_path):
    write_lines(tmp_path / "train.jsonl", [])
    with pytest.raises(ValueError, match=r"has no test file \(such as test\.jsonl"):
        load(jsonl(tmp_path), "test")


@pytest.mark.parametrize("gz", ["", ".gz"])
def test_line_aligned_files(tmp_path, gz):
    write_lines(tmp_path / f"val.en{gz}", ["A man .", "Two dogs ."])
    write_lines(tmp_path / f"val.de{gz}", ["Ein Mann .", "Zwei Hunde ."])
    write_lines(tmp_path / f"val.fr{gz}", ["Un homme .", "Deux chiens ."])
    settings = DataSettings("lines", str(tmp_path), source="en", target="de")
    assert [(e.id, e.source, e.target) for e in load(settings, "dev")] == [
        ("1", "A man .", "Ein Mann ."),
        ("2", "Two dogs .", "Zwei Hunde ."),
    ]


def test_moses_tokenises_each_side_by_its_language(tmp_path):
    write_lines(tmp_path / "test.en", ['It\'s a "well-known" man.'])
    write_lines(tmp_path / "test.fr", ["C’est l'homme, n'est-ce pas?"])
    settings = DataSettings("lines", str(tmp_path), source="en", target="fr", moses=True)
    (example,) = load(settings, "test")
    assert example.source == 'It \'s a " well @-@ known " man .'
    assert example.target == "C' est l' homme , n' est @-@ ce pas ?"


def test_lines_must_correspond(tmp_path):
    write_lines(tmp_path / "test.en", ["one", "two"])
    write_lines(tmp_path / "test.de", ["eins"])
    with pytest.raises(
        ValueError, match=r"test\.en has 2 lines, .*test\.de has 1: lines must correspond"
    ):
        load(DataSettings("lines", str(tmp_path), source="en", target="de"), "test")
    with pytest.raises(ValueError, match="lines needs source and target"):
        load(DataSettings("lines", str(tmp_path), source="en"), "test")
    with pytest.raises(ValueError, match=r"has no test file that ends in \.fr"):
        load(DataSettings("lines", str(tmp_path), source="en", target="fr"), "test")


def test_blank_lines_are_skipped_in_training_and_ids_stay(tmp_path):
    write_lines(tmp_path / "train.en", ["one", " ", "three"])
    write_lines(tmp_path / "train.de", ["eins", "zwei", "drei"])
    with pytest.warns(UserWarning, match=r"1 of 3 training pairs .*train\.en, line 2"):
        examples = load(DataSettings("lines", str(tmp_path), source="en", target="de"), "train")
    assert [e.id for e in examples] == ["1", "3"]


def test_half_of_a_surrogate_pair_is_named_by_file_and_line(tmp_path):
    (tmp_path / "test.jsonl").write_text(
        '{"source": "a", "target": "b"}\n{"source": "a \\ud800", "target": "b"}\n'
    )
    with pytest.raises(
        ValueError, match=r"test.jsonl, line 2: 'source' has half of a surrogate pair: write whole"
    ):
        load(jsonl(tmp_path), "test")
    (tmp_path / "dev.json").write_text('{"a": "x \\udfff"}')
    with pytest.raises(ValueError, match=r"dev.json has half of a surrogate pair"):
        load(DataSettings("features", str(tmp_path)), "dev")
