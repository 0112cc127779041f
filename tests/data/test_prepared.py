"""Prepared texts are what the reader gives, and are read once."""

import hashlib
import os
import pickle
from pathlib import Path

import pytest

from dwindle.data import cnndm, finish, hub, load, prepared
from dwindle.data.example import Example
from dwindle.data.settings import DataSettings, Size
from tests.data.corpus_files import write_jsonl

LONG = "One two three four five six seven."
ARTICLE = 'Café-goers met at 5 p.m. on Monday. They didn\'t stay, "he said". It rained.'


@pytest.fixture
def corpus(tmp_path):
    for split in ("train", "test"):
        records = [
            {"id": f"{split}{i}", "article": f"{ARTICLE} {i}.", "highlights": "They met."}
            for i in range(300)
        ]
        write_jsonl(tmp_path / f"{split}.jsonl", records)
    return DataSettings("cnndm", str(tmp_path), Size(train=290), moses=True, lowercase=True)


@pytest.mark.parametrize("cores", [1, 2])
def test_they_are_what_the_reader_gives(corpus, cores, monkeypatch):
    monkeypatch.setattr(prepared.machine, "cores", lambda: cores)
    kept = load.load(corpus, "train")
    assert isinstance(kept, prepared.Prepared)
    assert list(kept) == list(cnndm.read(corpus, "train"))
    assert len(kept) == 290
    assert (kept[-1], kept[2:4]) == (kept[289], [kept[2], kept[3]])
    assert list(pickle.loads(pickle.dumps(kept))) == list(kept)
    with pytest.raises(IndexError):
        kept[290]


def test_moses_runs_once(corpus, monkeypatch):
    first = load.load(corpus, "test")
    monkeypatch.setattr(finish, "_moses", lambda *a: pytest.fail("tokenised again"))
    assert list(load.load(corpus, "test")) == list(first)


def test_another_file_or_other_settings_are_read_anew(corpus, tmp_path):
    before = load.load(corpus, "test")
    write_jsonl(tmp_path / "test.jsonl", [{"id": "x", "article": "New.", "highlights": "Yes."}])
    after = load.load(corpus, "test")
    assert (len(after), after[0].source) == (1, "new .")
    assert before.fingerprint != after.fingerprint != load.load(corpus, "train").fingerprint


def test_faults_are_found_while_they_are_read(corpus, tmp_path):
    write_jsonl(tmp_path / "test.jsonl", [{"id": "x", "article": " ", "highlights": "Yes."}])
    for _ in range(2):  # nothing is kept of them
        with pytest.raises(ValueError, match="line 1 has an empty source"):
            load.load(corpus, "test")


def test_a_fingerprint_is_of_the_texts():
    one = [Example("a", "x", ("y",))]
    assert prepared.fingerprint(one) == prepared.fingerprint(tuple(one))
    assert prepared.fingerprint(one) != prepared.fingerprint([Example("a", "x", ("z",))])


def test_another_text_of_the_same_size_and_date_is_read_anew(corpus, tmp_path):
    file = tmp_path / "test.jsonl"
    before, stat = load.load(corpus, "test"), file.stat()
    file.write_text(
        file.read_text(encoding="utf-8").replace("It rained", "It hailed"), encoding="utf-8"
    )
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert file.stat().st_size == stat.st_size
    after = load.load(corpus, "test")
    assert "rained" in before[0].source
    assert "hailed" in after[0].source


def test_files_in_linked_folders_count(tmp_path):
    there, corpus = tmp_path / "there", tmp_path / "corpus"
    there.mkdir()
    corpus.mkdir()
    (corpus / "linked").symlink_to(there)
    (there / "back").symlink_to(corpus)  # a circle
    (there / "test.story").write_text("one", encoding="utf-8")
    before = prepared._stamp(corpus)
    (there / "test.story").write_text("two", encoding="utf-8")
    assert [name for name, _ in before] == ["linked/test.story"]
    assert prepared._stamp(corpus) != before


def test_the_content_of_texts_does_not_depend_on_where_they_are_kept(corpus):
    kept = load.load(corpus, "test")
    assert prepared.content(kept) == prepared.content(list(kept))
    assert prepared.content(kept) != prepared.content(list(kept)[:-1])


def parquet(folder, split, articles):
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    rows = {"id": list(articles), "article": list(articles.values())}
    table = datasets.Dataset.from_dict(rows | {"highlights": ["They met."] * len(articles)})
    table.to_parquet(folder / f"{split}-00000.parquet")
    return table


def test_every_text_of_the_hub_counts(tmp_path, monkeypatch):
    """Also one among many, and those of the hub's other forms."""
    datasets = pytest.importorskip("datasets")
    articles = {str(i): f"They met {i} times." for i in range(300)}
    tables = [
        parquet(tmp_path, "test", articles | change)
        for change in ({}, {"7": "Nobody came."}, {"299": "Nobody came."})
    ]
    for form in ("hub", "saved"):
        texts = []
        for table in tables:
            if form == "hub":
                monkeypatch.setattr(hub, "absence", lambda name, kind: None)
                monkeypatch.setattr(datasets, "load_dataset", lambda *a, found=table, **k: found)
                path = "hub:some/copy"
            else:
                path = str(tmp_path / "saved")
                datasets.DatasetDict({"test": table}).save_to_disk(path)
            settings = DataSettings("cnndm", path)
            kept = load.load(settings, "test")
            assert load.load(settings, "test").fingerprint == kept.fingerprint
            texts.append((kept[7].source, kept[299].source))
        assert texts == [
            ("They met 7 times.", "They met 299 times."),
            ("Nobody came.", "They met 299 times."),
            ("They met 7 times.", "Nobody came."),
        ]


def test_a_folder_of_parquet_is_digested_once(tmp_path, monkeypatch):
    """And only the files of the split."""
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    article = {str(i): f"{' '.join([LONG] * 2)} They met." for i in range(3)}
    for split in ("train", "test"):
        parquet(corpus, split, article)
    digested = []

    def noted(file, how):
        digested.append(Path(file.name).name)
        return hashlib.file_digest(file, how)

    for module in (hub, prepared):
        monkeypatch.setattr(module, "file_digest", noted)
    settings = DataSettings("cnndm", str(corpus), presumm=True)
    assert len(load.load(settings, "test")) == 3
    assert digested == ["test-00000.parquet"]
