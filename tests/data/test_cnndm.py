"""CNN/DM in each form people have it: all forms of the same pairs read the same."""

import hashlib
import json
import os
import struct

import pytest

from dwindle.data import hub, tf_examples
from dwindle.data.load import DataSettings, Size, load
from tests.data.corpus_files import (
    field,
    tf_example,
    write_bin,
    write_jsonl,
    write_lines,
    write_story,
)

ARTICLE = ["the mayor closed a bridge .", "`` no more ferries , '' she said .", "Crowds left !"]
HIGHLIGHTS = ["mayor closes bridge .", "crowds leave ."]
PAIRS = [(ARTICLE, HIGHLIGHTS), (["a second story .", "it is short ."], ["second ."])]
EXPECTED = [("\n".join(a), "\n".join(h)) for a, h in PAIRS]


def cnndm(path, **more):
    return DataSettings("cnndm", str(path), **more)


def texts(examples):
    return [(e.source, e.target) for e in examples]


@pytest.mark.parametrize("ending", ["jsonl", "jsonl.gz"])
@pytest.mark.parametrize("joined", [" ", "\n"])
def test_jsonl_with_articles_as_one_string_or_as_lines(tmp_path, ending, joined):
    records = [
        {"id": f"{i}", "article": joined.join(a), "highlights": h} for i, (a, h) in enumerate(PAIRS)
    ]
    write_jsonl(tmp_path / f"val.{ending}", records)
    assert texts(load(cnndm(tmp_path), "dev")) == EXPECTED


def test_bin_chunks(tmp_path):
    """In finished_files/chunked as See's script leaves them, with the unchunked file beside."""
    (tmp_path / "chunked").mkdir()
    pairs = [(" ".join(a), h) for a, h in PAIRS]
    write_bin(tmp_path / "train.bin", pairs)
    write_bin(tmp_path / "chunked" / "train_000.bin", pairs[:1])
    write_bin(tmp_path / "chunked" / "train_001.bin", pairs[1:])
    write_bin(tmp_path / "val.bin", pairs[1:])
    assert texts(load(cnndm(tmp_path), "train")) == EXPECTED
    assert [e.id for e in load(cnndm(tmp_path), "train")] == ["1", "2"]
    assert texts(load(cnndm(tmp_path, size=Size(train=1)), "train")) == EXPECTED[:1]
    assert texts(load(cnndm(tmp_path), "dev")) == EXPECTED[1:]


def test_an_empty_article_of_a_bin_is_left_out_of_training(tmp_path):
    write_bin(tmp_path / "train_000.bin", [("", ["nothing ."]), ("a b .", ["b ."])])
    with pytest.warns(UserWarning, match=r"1 of 2 training pairs .*train_000\.bin, byte 8"):
        assert [e.id for e in load(cnndm(tmp_path), "train")] == ["2"]


def test_a_record_longer_than_seven_bits_of_length(tmp_path):
    """Lengths above 127 and above 16383 take two and three bytes."""
    article = "word " * 5000
    write_bin(tmp_path / "test_000.bin", [(article, ["x " * 100])])
    assert load(cnndm(tmp_path), "test")[0].source == article.strip()


@pytest.mark.parametrize("cut", [3, 12, 60])
def test_a_cut_bin_is_a_sentence(tmp_path, cut):
    path = write_bin(tmp_path / "test_000.bin", [("a b c " * 20, ["x"])])
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"test_000\.bin is broken at byte 0: get it again"):
        load(cnndm(tmp_path), "test")


@pytest.mark.parametrize("record", [b"\x08\x01", b"\x0a\x7f", field(1, field(1, b"\x0a"))])
def test_what_is_no_tf_example_is_a_sentence(tmp_path, record):
    path = tmp_path / "test_000.bin"
    path.write_bytes(struct.pack("<q", len(record)) + record)
    with pytest.raises(ValueError, match=r"has no tf\.Example at byte 8: get it again"):
        load(cnndm(tmp_path), "test")


def test_a_bin_with_other_features_is_a_sentence(tmp_path):
    for record, complaint in (
        (
            tf_example({"article": b"a", "summary": b"b"}),
            r"has no 'abstract' at byte 8: these are not See's \.bin files",
        ),
        (
            tf_example({"article": b"caf\xe9", "abstract": b"b"}),
            r"is not UTF-8 at byte 8 .*: make it again",
        ),
    ):
        (tmp_path / "test.bin").write_bytes(struct.pack("<q", len(record)) + record)
        with pytest.raises(ValueError, match=complaint):
            load(cnndm(tmp_path), "test")


def test_features_of_one_record(tmp_path):
    path = write_bin(tmp_path / "x.bin", [("café", ["z"])])
    ((start, length),) = tf_examples.records(path)
    assert tf_examples.features(path, start, length) == {
        "article": "café".encode(),
        "abstract": b"<s> z </s>",
    }


def stories(tmp_path):
    """Both archives unpacked, and See's url lists."""
    urls = [
        "http://web.archive.org/web/1/http://cnn.com/a",
        "http://web.archive.org/web/2/http://dailymail.co.uk/b",
    ]
    for url, where, (article, highlights) in zip(urls, ("cnn", "dailymail"), PAIRS, strict=True):
        # One paragraph and one highlight lack their full stop, as many do.
        cut = [p.removesuffix(" .") for p in article], [h.removesuffix(" .") for h in highlights]
        write_story(tmp_path / where / "stories", url, *cut)
    (tmp_path / "url_lists").mkdir()
    write_lines(tmp_path / "url_lists" / "all_train.txt", urls)
    return urls


def test_story_files_by_the_hash_of_their_url(tmp_path):
    urls = stories(tmp_path)
    examples = load(cnndm(tmp_path), "train")
    assert texts(examples) == EXPECTED
    assert examples[0].id == hashlib.sha1(urls[0].encode()).hexdigest()
    write_lines(tmp_path / "url_lists" / "all_val.txt", [examples[1].id])
    assert texts(load(cnndm(tmp_path), "dev")) == EXPECTED[1:]
    write_lines(tmp_path / "url_lists" / "all_test.txt", [urls[0], "http://gone"])
    with pytest.raises(
        ValueError, match=r"names 1 of 2 stories that are not below .*, such as http://gone: unpack"
    ):
        load(cnndm(tmp_path), "test")
    write_lines(tmp_path / "url_lists" / "all_test.txt", [urls[0], urls[0]])
    with pytest.raises(ValueError, match="twice: ids must differ"):
        load(cnndm(tmp_path), "test")


def test_a_folder_of_something_else_says_what_to_give(tmp_path):
    (tmp_path / "notes.md").write_text("x")
    with pytest.raises(ValueError, match=r"has no train split: give the folder of train\.jsonl"):
        load(cnndm(tmp_path), "train")


@pytest.fixture
def datasets(tmp_path, monkeypatch):
    library = pytest.importorskip("datasets")
    monkeypatch.setattr(library.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(hub, "absence", lambda name, kind: None)  # no network in a test
    library.disable_progress_bars()
    return library


def rows():
    return {
        "article": [" ".join(a) for a, _ in PAIRS],
        "highlights": ["\n".join(h) for _, h in PAIRS],
        "id": ["f001", "f002"],
    }


def test_a_folder_of_the_hubs_parquet_files(tmp_path, datasets):
    table = datasets.Dataset.from_dict(rows())
    place = tmp_path / "copy" / "3.0.0"
    place.mkdir(parents=True)
    for name in ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001"):
        table.select([1] if name.startswith("train-00001") else [0]).to_parquet(
            place / f"{name}.parquet"
        )
    examples = load(cnndm(tmp_path / "copy"), "train")
    assert texts(examples) == EXPECTED
    assert [e.id for e in examples] == ["f001", "f002"]
    assert texts(load(cnndm(tmp_path / "copy"), "dev")) == EXPECTED[:1]
    with pytest.raises(ValueError, match="no parquet file of the test split"):
        load(cnndm(tmp_path / "copy"), "test")
    with pytest.raises(
        ValueError, match="the data set has no column 'text' but 'article', 'highlights', 'id'"
    ):
        load(cnndm(tmp_path / "copy", source="text"), "train")


def test_other_parquet_files_of_the_same_size_and_date(tmp_path, datasets):
    """The library's own cache goes by dates."""
    file = tmp_path / "train-00000.parquet"
    for text in ("Bob", "Tim"):
        columns = {"id": ["a"], "article": [f"{text} rose."], "highlights": [f"{text} rose."]}
        datasets.Dataset.from_dict(columns).to_parquet(file)
        os.utime(file, (1, 1))
        for _ in range(2):
            found = load(DataSettings("cnndm", str(tmp_path)), "train")
            assert (found[0].source, found[0].target) == (f"{text} rose.", f"{text} rose.")


def test_what_save_to_disk_wrote(tmp_path, datasets):
    table = datasets.Dataset.from_dict(rows())
    datasets.DatasetDict({"train": table, "validation": table.select([1])}).save_to_disk(
        tmp_path / "saved"
    )
    assert texts(load(cnndm(tmp_path / "saved"), "train")) == EXPECTED
    assert texts(load(cnndm(tmp_path / "saved"), "dev")) == EXPECTED[1:]


def test_empty_rows_of_the_hub_are_left_out_of_training(tmp_path, datasets):
    columns = rows() | {"article": [" \n", "a second story . it is short ."]}
    datasets.Dataset.from_dict(columns).to_parquet(tmp_path / "train.parquet")
    with pytest.warns(
        UserWarning, match="1 of 2 training pairs .* row 1 of the train split of cnndm"
    ):
        assert texts(load(cnndm(tmp_path), "train")) == EXPECTED[1:]


def test_an_id_that_stands_twice_is_a_sentence(tmp_path, datasets):
    datasets.Dataset.from_dict(rows() | {"id": ["f001", "f001"]}).to_parquet(
        tmp_path / "train.parquet"
    )
    with pytest.raises(
        ValueError, match="the train split of cnndm has the id 'f001' twice: ids must differ"
    ):
        load(cnndm(tmp_path), "train")
    assert len(load(cnndm(tmp_path, size=Size(train=1)), "train")) == 1


def test_broken_parquet_is_a_sentence(tmp_path, datasets):
    (tmp_path / "test-00000.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(
        ValueError, match=r"test-00000\.parquet cannot be read as parquet .*: get it again"
    ):
        load(cnndm(tmp_path), "test")


def test_without_a_network_the_hub_is_a_sentence(datasets, monkeypatch):
    def unreachable(*arguments, **options):
        raise ConnectionError("Couldn't reach it\nmore lines")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    with pytest.raises(
        ValueError,
        match=r"the hub did not give abisee/cnn_dailymail \(Couldn't reach it\): give the",
    ):
        load(DataSettings("cnndm"), "train")
    with pytest.raises(ValueError, match="the hub did not give some/copy"):
        load(DataSettings("cnndm", "hub:some/copy"), "train")


def test_what_the_hub_lacks_comes_from_the_cache_or_is_a_sentence(datasets, monkeypatch):
    """The library would ask six times; looking into its cache it asks nobody."""
    monkeypatch.setattr(hub, "absence", lambda name, kind: f"the hub has no {kind} of that name")
    with pytest.raises(
        ValueError, match=r"did not give some/copy \(the hub has no data set of that name\): give"
    ):
        load(DataSettings("cnndm", "hub:some/copy"), "train")
    offline = []

    def cached(name, config, split):
        offline.append(datasets.config.HF_HUB_OFFLINE)
        return datasets.Dataset.from_dict(rows())

    before = datasets.config.HF_HUB_OFFLINE
    monkeypatch.setattr(datasets, "load_dataset", cached)
    assert texts(load(DataSettings("cnndm", "hub:some/copy"), "train")) == EXPECTED
    assert offline == [True]
    assert before == datasets.config.HF_HUB_OFFLINE


def test_the_hub_is_asked_for_its_name_and_split(datasets, monkeypatch):
    asked = []

    def answer(name, config, split):
        asked.append((name, config, split))
        return datasets.Dataset.from_dict(rows())

    monkeypatch.setattr(datasets, "load_dataset", answer)
    assert texts(load(DataSettings("cnndm"), "dev")) == EXPECTED
    assert asked == [("abisee/cnn_dailymail", "3.0.0", "validation")]


def test_lowercase_and_moses(tmp_path):
    record = {
        "id": "1",
        "article": "Mr. Smith (CNN) left. He's in the U.S. now.",
        "highlights": ["Smith left."],
    }
    (tmp_path / "test.jsonl").write_text(json.dumps(record))
    (example,) = load(cnndm(tmp_path, lowercase=True, moses=True), "test")
    assert example.source == "mr. smith ( cnn ) left .\nhe 's in the u.s. now ."
    assert example.target == "smith left ."
