"""A file of outputs in two parts: each item is in one of them, as it stood in the file."""

import gzip
import json

import datasets
import pytest
from pyarrow import parquet

from dwindle.runfiles.parted import Parted
from dwindle.runfiles.run import AlignedRun, Run

JSONL = (
    b'{"id": 1, "source": "a", "hypothesis": "b",  "more": [1,2]}\r\n'
    b'{"id":"x","source":"c","hypothesis":""}\n'
)
JSONL += b'{"id": 3, "source": "\xc3\xa9\xe2\x80\xa8", "hypothesis": "d"}'
CSV = b'\xef\xbb\xbfsource,hypothesis\n"a ""b"",\r\nc",d\n\ne,f\ng,"h"'
BITEXT = b'He said "no\tIl a dit non\n"Yes" she said\tOui\nx\ty\n'
DROPPED = [False, True, False]


@pytest.mark.parametrize(
    ("name", "content", "kept", "gone"),
    [
        ("a.jsonl", JSONL, JSONL.split(b"\n")[0::2], JSONL.split(b"\n")[1:2]),
        (
            "a.csv",
            CSV,
            [b'\xef\xbb\xbfsource,hypothesis\n"a ""b"",\r\nc",d', b'g,"h"'],
            [CSV[:20], b"e,f"],
        ),
        ("a.tsv", BITEXT, BITEXT.split(b"\n")[0:3:2], BITEXT.split(b"\n")[1:2]),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_lines_stay_as_they_are(tmp_path, name, content, kept, gone, packed):
    """Byte by byte, also of rows that go over several lines."""
    ending = ".gz" if packed else ""
    path, keep, drop = (tmp_path / f"{stem}{name[1:]}{ending}" for stem in "akd")
    path.write_bytes(gzip.compress(content) if packed else content)
    run, parts = Run(path), Parted(keep, drop)
    parts.check(run)
    parts.write(run, DROPPED)
    read = (
        (lambda file: gzip.decompress(file.read_bytes()))
        if packed
        else (lambda file: file.read_bytes())
    )
    assert read(keep) == b"\n".join(kept) + b"\n"
    assert read(drop) == b"\n".join(gone) + b"\n"
    every = [item.hypothesis for item in run.each()]
    assert [item.hypothesis for item in Run(keep).each()] == every[0::2]
    assert [item.hypothesis for item in Run(drop).each()] == every[1:2]
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize(
    ("sources", "hypotheses", "names"),
    [
        ("c.en", "c.fr", ["clean.en", "clean.fr"]),
        ("c.en.gz", "c.fr.gz", ["clean.en.gz", "clean.fr.gz"]),
        ("src.txt", "hyp.txt", ["clean.src.txt", "clean.hyp.txt"]),
        ("source", "output", ["clean.source", "clean.output"]),
    ],
)
def test_line_aligned_files_stay_aligned(tmp_path, sources, hypotheses, names):
    for name, text in ((sources, b"one\ntwo\r\nthree"), (hypotheses, b"un\n\ntrois\n")):
        (tmp_path / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    run = AlignedRun(tmp_path / hypotheses, (), tmp_path / sources)
    parts = Parted(tmp_path / "clean")
    parts.check(run)
    assert [file.name for file in parts.files(run)] == names
    parts.write(run, DROPPED)
    kept = AlignedRun(tmp_path / names[1], (), tmp_path / names[0])
    assert [(item.source, item.hypothesis) for item in kept.each()] == [
        ("one", "un"),
        ("three", "trois"),
    ]


@pytest.mark.parametrize("name", ["a.parquet", "folder"])
def test_tables_keep_their_columns_and_types(tmp_path, name):
    rows = [{"source": "a", "hypothesis": "b", "more": n} for n in range(3)]
    made = datasets.Dataset.from_list(rows)
    path, keep, drop = tmp_path / name, tmp_path / f"k{name}", tmp_path / f"d{name}"
    made.to_parquet(path) if name.endswith("parquet") else made.save_to_disk(path)
    run, parts = Run(path), Parted(keep, drop)
    parts.check(run)
    parts.write(run, DROPPED)

    def opened(file):
        return (
            parquet.read_table(file)
            if file.is_file()
            else datasets.load_from_disk(str(file)).data.table
        )

    assert opened(keep).schema.equals(opened(path).schema)
    assert opened(keep)["more"].to_pylist() == [0, 2]
    assert opened(drop).to_pylist() == rows[1:2]


def test_a_part_may_be_empty_and_one_may_be_nowhere(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(JSONL)
    Parted(tmp_path / "k.jsonl", tmp_path / "d.jsonl").write(Run(path), [True] * 3)
    assert (tmp_path / "k.jsonl").read_bytes() == b""
    Parted(drop=tmp_path / "e.jsonl").write(Run(path), DROPPED)
    assert len((tmp_path / "e.jsonl").read_bytes().splitlines()) == 1


def test_nothing_is_left_of_a_write_that_failed(tmp_path):
    path, keep = tmp_path / "a.jsonl", tmp_path / "k.jsonl"
    path.write_bytes(JSONL)
    with pytest.raises(ValueError, match="shorter"):
        Parted(keep).write(Run(path), DROPPED[:2])
    assert [file.name for file in tmp_path.iterdir()] == ["a.jsonl"]


def test_names_that_cannot_be_are_refused(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"id": 1, "source": "a", "hypothesis": "b"}) + "\n")
    for parts, said in (
        (
            Parted(tmp_path / "k.tsv"),
            r"k\.tsv gets the format of a\.jsonl: end its name in \.jsonl",
        ),
        (Parted(path), "named twice"),
        (Parted(tmp_path / "k.jsonl", tmp_path / "k.jsonl"), "named twice"),
        (Parted(tmp_path / "found.jsonl"), "named twice"),
        (Parted(tmp_path / "nowhere" / "k.jsonl"), "there is no folder"),
    ):
        with pytest.raises(ValueError, match=said):
            parts.check(Run(path), [tmp_path / "found.jsonl"])
