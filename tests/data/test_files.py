"""Lines without holding them, against the obvious way; and what bad files say."""

import gzip
import pickle

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dwindle.data.example import Lazy
from dwindle.data.files import Lines, kept

TEXTS = st.lists(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n"), max_size=8),
    max_size=80,
)


@example(["\ufeff", ""], True, False)
@given(TEXTS, st.booleans(), st.booleans())
def test_lines_are_those_of_a_plain_reader(tmp_path_factory, lines, ended, zipped):
    folder = tmp_path_factory.mktemp("lines")
    data = "\n".join(lines).encode() + (b"\n" if ended and lines else b"")
    path = folder / ("x.txt.gz" if zipped else "x.txt")
    path.write_bytes(gzip.compress(data) if zipped else data)
    expected = [line.decode() for line in data.removesuffix(b"\n").split(b"\n")] if data else []
    if data:
        expected[0] = expected[0].removeprefix("\ufeff")
    expected = [line.removesuffix("\r") for line in expected]
    found = Lines(path)
    assert list(found) == expected
    assert [found[-i - 1] for i in range(len(expected))] == expected[::-1]
    assert list(found.blank) == [i for i, line in enumerate(expected) if not line.strip()]


def test_lines_are_reached_in_any_order_and_beyond_the_stride(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("".join(f"line {i}\n" for i in range(1000)))
    lines = Lines(path)
    assert len(lines) == 1000
    assert [lines[i] for i in (999, 0, 17, 16, 15, 500)] == [
        f"line {i}" for i in (999, 0, 17, 16, 15, 500)
    ]
    assert lines[3:6] == ["line 3", "line 4", "line 5"]
    assert list(pickle.loads(pickle.dumps(lines))) == list(lines)
    with pytest.raises(IndexError):
        lines[1000]


def test_a_line_separator_of_unicode_parts_nothing(tmp_path):
    path = tmp_path / "x.txt"
    path.write_text("one\u2028still one\x0cand\x85still\ntwo\n", encoding="utf-8")
    assert len(Lines(path)) == 2


def test_bad_bytes_are_named_by_line(tmp_path):
    path = tmp_path / "x.txt"
    path.write_bytes(b"good\n" * 20 + b"caf\xe9\n")
    with pytest.raises(ValueError, match=r"x\.txt, line 21 is not UTF-8 .*: save it as UTF-8"):
        Lines(path)


@pytest.mark.parametrize(
    "broken", [b"no gzip at all", gzip.compress(b"text " * 1000)[:-20]], ids=["none", "cut"]
)
def test_a_broken_gz_is_a_sentence(tmp_path, broken):
    path = tmp_path / "x.gz"
    path.write_bytes(broken)
    with pytest.raises(ValueError, match=r"x\.gz is a broken gz file .*: get it again"):
        Lines(path)


def test_lazy_makes_what_is_asked_for_and_no_more():
    made = []
    lazy = Lazy(lambda place: made.append(place) or place * 10, [3, 1, 2])
    assert (len(lazy), lazy[-1], list(lazy[:2]), made) == (3, 20, [30, 10], [2, 3, 1])


def test_an_empty_pair_is_left_out_of_training_and_refused_elsewhere():
    with pytest.warns(UserWarning, match=r"1 of 4 training pairs .* left out, the first is line 2"):
        assert list(kept(4, [2], "train", lambda i: f"line {i}")) == [0, 1, 3]
    with pytest.raises(
        ValueError, match="line 2 has an empty source or reference: a test item needs both"
    ):
        kept(4, [2], "test", lambda i: f"line {i}")
    with pytest.raises(ValueError, match="every pair has an empty"):
        kept(1, [0], "train", lambda i: f"line {i}")
