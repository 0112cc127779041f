"""Copied runs: nothing of a text is lost, and every mark is right."""

import time

from hypothesis import given
from hypothesis import strategies as st

from dwindle.analysis import highlight
from dwindle.analysis.highlight import Piece
from dwindle.data.script import words
from tests.scripts import TEXTS

TEXT = st.text(st.sampled_from("ab .\n!<"), max_size=60)


@given(TEXT, TEXT)
def test_pieces_joined_are_the_text_and_each_stands_in_its_sentence(summary, source):
    parts = highlight.SourceText(source).sentences
    assert "".join(parts) == source
    pieces = highlight.SourceText(source).pieces(summary)
    assert "".join(piece.text for piece in pieces) == summary
    for piece in pieces:
        if piece.sentence is not None:
            rest = " ".join(words("".join(parts[piece.sentence :])))
            assert len(words(piece.text)) >= 3
            assert " ".join(words(piece.text)) in rest


@given(TEXT, TEXT)
def test_every_copied_trigram_is_marked(summary, source):
    """The slow twin: any three words in a row of a part that is not marked do not stand in the
    source."""
    theirs = words(source)
    grams = {tuple(theirs[i : i + 3]) for i in range(len(theirs) - 2)}
    for piece in highlight.SourceText(source).pieces(summary):
        if piece.sentence is None:
            mine = words(piece.text)
            assert not any(tuple(mine[i : i + 3]) in grams for i in range(len(mine) - 2))


def test_an_example():
    source = "The dog ran. A red fox jumped over the fence.\nNothing else."
    pieces = highlight.SourceText(source).pieces("Today, a RED fox jumped high.")
    assert pieces == [Piece("Today, "), Piece("a RED fox jumped", 1), Piece(" high.")]


def test_a_text_of_one_word_takes_no_quadratic_time():
    start = time.process_time()
    highlight.SourceText("a " * 50_000).pieces("a " * 50_000)
    highlight.SourceText("a b c " * 17_000).pieces("a b " * 25_000)
    assert time.process_time() - start < 10


def test_repeats_and_copies_without_spaces():
    text = TEXTS["Han"]
    # all of the second time, but for its end mark
    assert sum(highlight.repeats(2 * text)) >= len(text) - 1
    pieces = highlight.SourceText(text).pieces("听说河水上涨了很多")
    assert pieces == [Piece("听说"), Piece("河水上涨了", 1), Piece("很多")]
