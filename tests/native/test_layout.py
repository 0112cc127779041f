"""The layout of C++, as far as it can be told without clang-format."""

from tests.native.test_vocabulary import SOURCES


def test_lines_are_at_most_100_characters():
    long = {
        f"{name}:{number}"
        for name, text in SOURCES.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if len(line) > 100 or line != line.rstrip()
    }
    assert not long
    assert len(SOURCES) > 10
