"""The tables of ``dwindle bench attention`` in plain text: no line is longer than 80 columns, no
name is cut."""

from collections.abc import Iterator, Sequence

from dwindle.bench.attention import Shape, Timing

_COLUMNS = {
    "forward ms": 11,
    "/ SDPA": 7,
    "/ eager": 8,
    "both ms": 9,
    "/SDPA": 7,
    "/eager": 8,
    "extra MB": 9,
}
_NAME = 21


def table(name: str, sizes: Shape, rows: Sequence[Timing]) -> str:
    """One shape: a rule in a line of its own, below it the ways it was computed in."""
    b, h, t, s, d = sizes
    lines = [f"{name}: B{b} H{h} T{t} S{s} D{d}, float32; both: forward + backward"]
    lines.append(" " * _NAME + "".join(f"{title:>{width}}" for title, width in _COLUMNS.items()))
    rule = None
    for row in rows:
        of, way = row.rule_and_backend
        if of and of != rule:
            rule = of
            lines.append(rule)
        lines.append(f"{'  ' * bool(of) + way:{_NAME}}" + _numbers(row))
    return "\n".join([*lines, *_slowest(rows)])


def _numbers(row: Timing) -> str:
    figures = (
        row.forward,
        row.forward_to_sdpa,
        row.forward_to_eager,
        row.both,
        row.both_to_sdpa,
        row.both_to_eager,
    )
    written = [*("-" if x is None else f"{x:.2f}" for x in figures)]
    written.append("-" if row.megabytes is None else f"{row.megabytes:.0f}")
    return "".join(f"{x:>{width}}" for x, width in zip(written, _COLUMNS.values(), strict=True))


def _slowest(rows: Sequence[Timing]) -> Iterator[str]:
    """The slowest pick of ``auto``, as a share of eager's time."""
    ratios = [
        (ratio, rule)
        for row in rows
        for rule, way in [row.rule_and_backend]
        for ratio in (row.forward_to_eager, row.both_to_eager)
        if way == "auto" and ratio is not None
    ]
    if ratios:
        ratio, rule = max(ratios)
        yield f"auto takes at most {ratio:.2f} of eager's time, with"
        yield rule
