"""Longest common subsequences for ROUGE-L: the tokens of a reference that a summary hits.

Of all longest common subsequences of a pair, ROUGE-1.5.5 takes the one its table walk meets: from
the end, a match goes diagonally, else up (towards shorter references) when that loses nothing, else
left. `hits` gives exactly those positions, with one machine word a table row instead of a loop over
its cells.
"""

from collections.abc import Sequence


def hits(reference: Sequence[int], sentences: Sequence[Sequence[int]]) -> set[int]:
    """Positions of ``reference`` on the LCS with any of ``sentences`` (union LCS of Lin, 2004).

    All sentences lie side by side in one integer, a bit a token, separated by a bit that stops
    carries.
    """
    columns, separators, spans = _layout(sentences)
    # Bit j of ``row`` is 0 where the LCS length grows from column j-1 to j (Hyyrö, 2004).
    row = full = ((1 << spans[-1][1]) - 1) & ~separators if spans else 0
    rows = []
    for i, token in enumerate(reference):
        matches = columns.get(token, 0)
        if matches:
            common = row & matches
            after = ((row + common) | (row & ~matches)) & full
            rows.append((i, matches, row, after))
            row = after
    found: set[int] = set()
    for start, end in spans:
        _walk(rows, start, end, found)
    return found


def _layout(
    sentences: Sequence[Sequence[int]],
) -> tuple[dict[int, int], int, list[tuple[int, int]]]:
    """Bits of each token, the separating bits, and each sentence's (first bit, end bit)."""
    columns: dict[int, int] = {}
    spans, separators, bit = [], 0, 0
    for sentence in sentences:
        start = bit
        for token in sentence:
            columns[token] = columns.get(token, 0) | 1 << bit
            bit += 1
        spans.append((start, bit))
        separators |= 1 << bit
        bit += 1
    return columns, separators, spans


def _walk(rows: list[tuple[int, int, int, int]], start: int, end: int, found: set[int]) -> None:
    """Walk one sentence's table from its last cell; rows without a match there only lead up."""
    window = (1 << end) - (1 << start)
    for i, matches, before, after in reversed(rows):
        here = matches & window
        if not here:
            continue
        # No match in the last column of the window, and the row above is as long: go up. Otherwise
        # the walk goes left through cells that are all longer than those above them, until the next
        # match: go diagonally.
        if (
            not here >> (window.bit_length() - 1)
            and (before & window).bit_count() == (after & window).bit_count()
        ):
            continue
        found.add(i)
        window &= (1 << (here.bit_length() - 1)) - 1
        if not window:
            return
