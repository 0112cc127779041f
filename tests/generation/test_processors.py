"""Blocking by hand: what each kind sees."""

import math

import torch
from transformers.generation.logits_process import MinNewTokensLengthLogitsProcessor

from dwindle.generation.processors import BlockTokens, BlockWords, LeastLength
from tests.generation.slow import Codec

BREAK = Codec.sentence_break


def banned(*rows, size=3, separator=BREAK):
    found = BlockTokens(size, separator)(torch.tensor(rows), torch.zeros(len(rows), 20))
    return [[id for id, x in enumerate(row) if x == -math.inf] for row in found.tolist()]


def test_tokens_that_would_complete_an_ngram_again():
    assert banned([2, 7, 8, 9, 7, 8], [2, 7, 8, 9, 8, 7]) == [[9], []]
    assert banned([2, 7, 8, 9, 7, 8, 10, 7, 8]) == [[9, 10]]
    assert banned([2, 7], size=3) == [[]]
    assert banned([2, 7, 8], size=1) == [[2, 7, 8]]


def test_the_separator_is_not_seen():
    """(full stop, separator, word) is no trigram; one that goes on across the separator is."""
    dot = 4
    begins_alike = [2, 7, dot, BREAK, 8, 9, dot, BREAK]
    assert banned(begins_alike) == [[]]
    assert banned(begins_alike, separator=None) == [[8]]
    assert banned([2, 7, dot, BREAK, 8, 9, 7, dot]) == [[8]]
    assert banned([2, 7, dot, BREAK, 8, 9, 7, dot], separator=None) == [[BREAK]]
    assert banned([2, BREAK, BREAK, BREAK]) == [[]]


def test_rows_have_separators_in_other_places():
    one, other = [2, 7, BREAK, 8, 9, 7, BREAK, 8], [2, BREAK, 7, 8, 9, BREAK, 7, 8]
    assert banned(one, other) == [[9], [9]]


def test_a_hypothesis_that_repeated_words_is_not_continued():
    block = BlockWords(3, Codec().words)
    rows = [
        [2, 7, 8, 9, 7, 8, 9],
        [2, 7, 8, 15, 9, 7, 8, 9],  # 8+15 is another word than 8
        [2, 7, 8, BREAK, 7, 8],
        [2, 7, 8, BREAK, 7, 8, BREAK],  # the separator is a word
    ]
    dead = [block(torch.tensor([row]), torch.zeros(1, 20)).max().item() < -1e8 for row in rows]
    assert dead == [True, False, False, True]


def test_no_end_before_the_least_length():
    """As the library has it, but for copies."""
    scores = torch.randn(2, 5, generator=torch.Generator().manual_seed(0))
    for ends in (1, [1, 3]):
        library = MinNewTokensLengthLogitsProcessor(1, 2, ends)
        for length in (1, 2, 3, 4):
            written = torch.zeros(2, length, dtype=torch.long)
            assert LeastLength(2, ends)(written, scores).equal(library(written, scores))
