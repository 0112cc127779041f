"""Tokens are found again where they stand, and what is not of the text is said to be nowhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dwindle.models.token_offsets import places

SOURCE = "The Mayor closed\na bridge."


@pytest.mark.parametrize(
    ("tokens", "found"),
    [
        (["The", "Mayor", "closed", "a", "bridge", "."], [0, 4, 10, 17, 19, 25]),
        (
            ["<s>", "The", " May", "or", " closed", "\n", "a", " bridge", ".", "</s>"],
            [-1, 0, 4, 7, 10, -1, 17, 19, 25, -1],
        ),
        (["[CLS]", "the", "may", "##or", "closed", "[SEP]"], [-1, 0, 4, 7, 10, -1]),
        (["▁the", "▁mayor", "ĠClosed", "a</w>", "br@@", "idge"], [0, 4, 10, 17, 19, 21]),
        (["The", "[UNK]", "closed"], [0, -1, 10]),
        (["region 1"], [-1]),
        ([], []),
    ],
)
def test_by_vocabulary(tokens, found):
    assert places(tokens, SOURCE) == found


@given(st.lists(st.text(st.sampled_from("abçİß.1"), min_size=1, max_size=5), max_size=12))
def test_words_between_spaces_are_all_found_in_order(words):
    source = " \n".join(words)
    at = places(words, source)
    assert [source[i : i + len(word)] for i, word in zip(at, words, strict=True)] == words


@given(st.lists(st.text(max_size=4), max_size=10), st.text(max_size=30))
def test_any_tokens_on_any_text(tokens, source):
    at = places(tokens, source)
    assert len(at) == len(tokens)
    real = [i for i in at if i >= 0]
    assert real == sorted(real)
    assert all(i < len(source) for i in real)
