"""The reader: what it keeps, what it refuses, and that nothing crashes it."""

import gzip
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dwindle.runfiles import outputs
from dwindle.runfiles.outputs import Item


def write(tmp_path, *lines, name="outputs.jsonl"):
    path = tmp_path / name
    path.write_bytes(
        b"\n".join(line if isinstance(line, bytes) else line.encode() for line in lines) + b"\n"
    )
    return path


GOOD = '{"id": "a", "source": "s", "reference": "r", "hypothesis": "h", "beam": [1, {"x": null}]}'


def test_reads_and_writes_every_key(tmp_path):
    lines = [GOOD, '{"id": 9, "references": ["x", "y"], "hypothesis": "\\u00e9\\nb", "n": 1.5}']
    path = write(tmp_path, *lines)
    system = outputs.read(path)
    assert [item.id for item in system.items] == ["9", "a"]
    assert system.items[0].references == ("x", "y")
    assert system.items[1].extra == {"beam": [1, {"x": None}]}
    outputs.write(tmp_path / "again.jsonl", system.items)
    again = [
        json.loads(line) for line in (tmp_path / "again.jsonl").read_text("utf-8").splitlines()
    ]
    original = [json.loads(line) | {"id": str(json.loads(line)["id"])} for line in lines]
    assert sorted(again, key=lambda r: r["id"]) == sorted(original, key=lambda r: r["id"])


def test_ids_sort_as_numbers_do(tmp_path):
    path = write(tmp_path, *(f'{{"id": {i}, "hypothesis": ""}}' for i in (10, 9, 100, 1)))
    assert [item.id for item in outputs.read(path).items] == ["1", "9", "10", "100"]


BAD = {
    '{"id": 1, "hypothesis": "x"': r"line 2 is not JSON \(.* at character",
    "": "line 2 is empty",
    "[1]": "is JSON but not an object",
    '{"hypothesis": "x"}': 'line 2 has no id: give every item its own "id"',
    '{"id": "", "hypothesis": "x"}': "has the id ''",
    '{"id": true, "hypothesis": "x"}': "has the id True",
    '{"id": 1.5, "hypothesis": "x"}': "has the id 1.5",
    '{"id": "a", "hypothesis": "x"}': r"lines 1 and 2 have the same id 'a'",
    '{"id": 1}': 'has no "hypothesis"',
    '{"id": 1, "hypothesis": null}': "the hypothesis is NoneType, not a string",
    '{"id": 1, "hypothesis": "x", "source": 3}': "the source is int",
    '{"id": 1, "hypothesis": "x", "reference": ["r"]}': "the reference is list",
    '{"id": 1, "hypothesis": "x", "references": "r"}': '"references" must be a list',
    '{"id": 1, "hypothesis": "x", "references": [null]}': "the reference is NoneType",
    '{"id": 1, "hypothesis": "x", "reference": "r", "references": ["r"]}': "has both",
    '{"id": 1, "hypothesis": "x", "score": NaN}': "has the value NaN",
    '{"id": 1, "hypothesis": "x", "hypothesis": "y"}': "has the key 'hypothesis' twice",
    '{"id": 1, "hypothesis": "\\ud800"}': "half of a surrogate pair",
    b'{"id": 1, "hypothesis": "\xff"}': "line 2 is not UTF-8",
    '{"id": 1, "hypothesis": ' + "[" * 100_000: "nested too deeply|not JSON",
}


@pytest.mark.parametrize("line", BAD, ids=range(len(BAD)))
def test_refuses_a_bad_line_in_one_sentence_with_its_number(tmp_path, line):
    path = write(tmp_path, GOOD, line)
    with pytest.raises(ValueError, match=BAD[line]) as caught:
        outputs.read(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_an_empty_file_is_refused(tmp_path):
    path = tmp_path / "none.jsonl"
    path.touch()
    with pytest.raises(ValueError, match="has no items"):
        outputs.read(path)


def test_only_newlines_part_lines(tmp_path):
    record = {"id": "1", "hypothesis": "a\u2028b\x0bc\x85d\re"}
    path = write(tmp_path, json.dumps(record, ensure_ascii=False).replace("\\u000b", "\\u000b"))
    assert outputs.read(path).items[0].hypothesis == record["hypothesis"]
    (tmp_path / "h").write_bytes("\ufeffa\u2028b\r\n\nc".encode())
    lines = outputs.read_lines(tmp_path / "h")
    assert [item.hypothesis for item in lines.items] == ["a\u2028b", "", "c"]
    assert [item.id for item in lines.empty] == ["2"]


def test_line_aligned_files(tmp_path):
    for name, text in {
        "h": "a\nb\n",
        "r1": "1\n2\n",
        "r2": "x\ny",
        "s": "S\nT\n",
        "short": "1\n",
    }.items():
        (tmp_path / name).write_text(text)
    system = outputs.read_lines(tmp_path / "h", [tmp_path / "r1", tmp_path / "r2"], tmp_path / "s")
    assert system.items == (Item("1", "a", ("1", "x"), "S", 1), Item("2", "b", ("2", "y"), "T", 2))
    with pytest.raises(ValueError, match=r"has 2 lines, .*short has 1: lines must correspond"):
        outputs.read_lines(tmp_path / "h", [tmp_path / "short"])
    with pytest.raises(ValueError, match=r"short has 1 lines, .*s has 2: lines must correspond"):
        outputs.read_lines(tmp_path / "short", sources=tmp_path / "s")
    (tmp_path / "h.gz").write_bytes(gzip.compress(b"a\nb\n"))
    packed = outputs.read_lines(
        tmp_path / "h.gz", [tmp_path / "r1", tmp_path / "r2"], tmp_path / "s"
    )
    assert packed.items == system.items


def test_only_the_same_items_are_comparable():
    def made(*items, name="x"):
        return outputs.outputs(name, items)

    one = made(Item("1", "a", ("r",)), Item("2", "b", ("r",)))
    outputs.same_items(one, made(Item("2", "z", ("r",)), Item("1", "y", ("r",))))
    with pytest.raises(ValueError, match="y lacks 1 ids that x has, such as '2'"):
        outputs.same_items(one, made(Item("1", "a", ("r",)), name="y"))
    with pytest.raises(ValueError, match="x lacks 1 ids that y has, such as '3'"):
        outputs.same_items(one, made(*one.items, Item("3", "", ("r",)), name="y"))
    with pytest.raises(ValueError, match="different references or sources for id '2'"):
        outputs.same_items(one, made(one.items[0], Item("2", "b", ("other",))))


def read_or_one_sentence(reader, path):
    """The system, or None if it was refused properly."""
    sentence = ""
    try:
        return reader(path)
    except ValueError as error:
        sentence = str(error)
    assert sentence.startswith(str(path))
    assert "\n" not in sentence
    return None


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.binary(max_size=60) | st.just(GOOD.encode()), max_size=4))
def test_any_bytes_are_read_or_refused(tmp_path_factory, lines):
    path = tmp_path_factory.getbasetemp() / "fuzz.jsonl"
    path.write_bytes(b"\n".join(lines))
    for reader in (outputs.read, outputs.read_lines):
        system = read_or_one_sentence(reader, path)
        if system is not None:
            assert len(system) == len(path.read_bytes().removesuffix(b"\n").split(b"\n"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda v: st.lists(v, max_size=2),
)


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.dictionaries(
        st.sampled_from(["id", "source", "reference", "references", "hypothesis", "x"]), json_values
    )
)
def test_any_object_is_read_whole_or_refused(tmp_path_factory, record):
    path = tmp_path_factory.getbasetemp() / "fuzz.jsonl"
    path.write_text(json.dumps(record) + "\n")
    system = read_or_one_sentence(outputs.read, path)
    if system is not None:
        item = system.items[0]
        assert item.hypothesis == record["hypothesis"]
        assert item.extra == {key: value for key, value in record.items() if key == "x"}
