"""Prepared texts are what the reader gives, and are read once."""

import os
import pickle

import pytest

from dwindle.data import cnndm, finish, load, prepared
from dwindle.data.example import Example
from dwindle.data.settings import DataSettings, Size
from tests.data.corpus_files import write_jsonl

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
