"""Tables of other tools give the same items as an ``outputs.jsonl``."""

import csv
import gzip
import json

import datasets
import pytest

from dwindle.runfiles import outputs

ROWS = [
    {
        "id": "a",
        "source": 'he said "no",\nthen left',
        "hypothesis": "il a dit non",
        "reference": "il dit non",
    },
    {"id": "b", "source": "x", "hypothesis": "", "reference": "y"},
]


def write(path, rows):
    if path.suffix in (".csv", ".tsv"):
        with path.open("w", newline="", encoding="utf-8-sig") as file:
            writer = csv.DictWriter(
                file, list(rows[0]), delimiter="," if path.suffix == ".csv" else "\t"
            )
            writer.writeheader()
            writer.writerows(rows)
    elif path.suffix == ".parquet":
        datasets.Dataset.from_list(rows).to_parquet(path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        datasets.Dataset.from_list(rows).save_to_disk(path)
    return path


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.parquet", "folder"])
def test_every_kind_of_table_gives_the_same_items(tmp_path, name):
    expected = outputs.read(write(tmp_path / "a.jsonl", ROWS))
    assert outputs.read(write(tmp_path / name, ROWS)).items == expected.items


def test_rows_without_ids_are_numbered(tmp_path):
    file = write(tmp_path / "a.csv", [{"hypothesis": "x"}, {"hypothesis": "y"}])
    assert [(item.id, item.hypothesis) for item in outputs.read(file).items] == [
        ("1", "x"),
        ("2", "y"),
    ]


def test_several_references_in_a_column_of_lists(tmp_path):
    file = write(tmp_path / "a.parquet", [{"hypothesis": "x", "references": ["y", "z"]}])
    assert outputs.read(file).items[0].references == ("y", "z")


def test_damage_is_one_sentence(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"no parquet")
    (tmp_path / "b.csv").write_text("id,hypothesis\n1\n")
    (tmp_path / "c.csv").write_text("id,output\n1,x\n")
    (tmp_path / "d.csv").write_text("id,id\n1,x\n")
    for name, said in (
        ("a.parquet", "is not Parquet"),
        ("b.csv", "row 1 has 1 fields"),
        ("c.csv", "hypothesis"),
    ):
        with pytest.raises(ValueError, match=said) as error:
            outputs.read(tmp_path / name)
        assert "\n" not in str(error.value)
    with pytest.raises(ValueError, match="two columns of one name"):
        outputs.read(tmp_path / "d.csv")


def test_splits_are_not_mixed(tmp_path):
    one = datasets.Dataset.from_list(ROWS)
    datasets.DatasetDict({"test": one, "dev": one}).save_to_disk(tmp_path / "both")
    with pytest.raises(ValueError, match="has the splits test, dev"):
        outputs.read(tmp_path / "both")
    assert len(outputs.read(tmp_path / "both" / "test")) == 2


def test_a_bitext_has_no_heading_and_no_quotes(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('He said "no\tIl a dit non\n"Yes" she said\tOui\n')
    found = [(item.id, item.source, item.hypothesis) for item in outputs.each(path)]
    assert found == [("1", 'He said "no', "Il a dit non"), ("2", '"Yes" she said', "Oui")]
    path.write_text("a\tb\nc\n")
    with pytest.raises(ValueError, match="row 2 has 1 fields for 2 columns"):
        list(outputs.each(path))
    path.write_text("source\ttarget\na\tb\n")  # a heading, and not the one that is needed
    with pytest.raises(ValueError, match="hypothesis"):
        list(outputs.each(path))


def test_only_newlines_part_rows(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("source,hypothesis\na\u2028b,c\x0bd\n", encoding="utf-8")
    assert [(item.source, item.hypothesis) for item in outputs.each(path)] == [
        ("a\u2028b", "c\x0bd")
    ]


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl"])
def test_packed_files_give_the_same_items(tmp_path, name):
    plain = write(tmp_path / name, ROWS)
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    assert outputs.read(packed).items == outputs.read(plain).items
    packed.write_bytes(packed.read_bytes()[:-9])
    with pytest.raises(ValueError, match=r"is a broken gz file .*: get it again"):
        outputs.read(packed)
