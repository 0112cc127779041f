"""The Triton kernels. What each of them owns and walks over is told in docs/KERNEL.md;
triton_launch.py starts them.

A tile is (positions, rows) of one head: source positions down, target rows across. On tensor cores
a thread then holds many rows of few positions, and ``_held`` deals the rows out so that each of
four threads has a quarter of them in order. Sums down the rows are made in registers: pairs are
added, the sums of pairs are summed the same way, and each row gets what came before its pair. Only
the sums of quarters are passed on between threads. Products are in the dtype of the inputs, all
else is float32; scores are in units of ln 2.

With u = 1 + c before a row of attention a, m = u + a / 2 and z = a / m, a weight is the gain s m^p
z Q(z^2), as in diminish.py. These functions know pointers and numbers only: options that a call
does not use are None.
"""

# Triton reads these functions as text: they carry no types, and their constants are arguments.
# It also reads on after a branch that returns, so that one needs its else.
# mypy: ignore-errors
# ruff: noqa: RET505

from typing import Any, NamedTuple

import triton
import triton.language as tl

LOG2E = tl.constexpr(1.4426950408889634)


class View(NamedTuple):
    """A tensor (B, H, rows, columns) and its strides, 0 along dimensions in which it is
    repeated."""

    at: Any
    b: int
    h: int
    t: int | None
    """None: it is the same for all rows."""
    d: int


class Curve(NamedTuple):
    """g with the slope s (1 + x)^(p - 1)."""

    p: float | None
    """None: p is 0."""
    slope: tuple[float, float] | float
    """p - 1 and log2 s, or s where p is 0."""
    terms: tuple[float, ...]
    """s Q: coefficients of 1, z^2, z^4 ..."""


class Problem(NamedTuple):
    """All that every kernel is told about a call."""

    q: View
    k: View
    v: View
    bias: View | None
    mask: View | None
    protected: View | None
    source: View | None
    rows: View | None
    H: int
    Hk: int
    T: int
    S: int
    P: int
    """Positions that may have coverage: the first P of S."""
    scale: float
    """Times log2 e, or divided by the softcap where there is one."""
    softcap: float | None
    """Times log2 e."""
    dropout: tuple[float, int] | None
    """Probability and seed."""
    g1: Curve | None
    g2: Curve | None
    ptx: int | None
    """None: there is no PTX here to write log2 in."""


class TilePlace(NamedTuple):
    """A tile of one head: source positions down and target rows across, each in a shape of its own
    that the other is broadcast to."""

    unit: Any
    """b H + h."""
    b: Any
    h: Any
    rows: Any
    """(1, ROWS)"""
    positions: Any
    """(BLOCK, 1)"""


class Norms(NamedTuple):
    """Of softmax rows (B, H, T): attention is 2^(score - highest) times inverse."""

    highest: Any
    """Infinite for a row that may attend to nothing."""
    inverse: Any
    """None: ``highest`` includes the sum. (With a bias of -1e9 everywhere that would lose it.)"""


class Slots(NamedTuple):
    """Coverage (units, blocks + 1, P) before each block of BETWEEN rows, and after the last one."""

    total: Any
    peak: Any


class SharedTiles(NamedTuple):
    """Tiles (B, T, P) that were made for all heads, where they share their coverage."""

    covered: Any
    peak: Any
    worth: Any
    """Worth of a head's attention to later rows of all heads (backward only)."""


class RowScales(NamedTuple):
    """Renormalised rows (B, H, T): their factor, and the drift that the gradient of a weight
    loses."""

    scale: Any
    drift: Any


class Gradients(NamedTuple):
    """Tensors that the backward pass starts from."""

    context: View
    finish: RowScales | None
    total: Any
    """(units, P): of the coverage after."""
    peak: Any
    gate: int | None
    """None: no gradient flows through the peak."""
    mixing: int | None
    """None: none comes to it from how weights are mixed (``detach_gate``)."""


@triton.jit
def _held(ROWS: tl.constexpr):
    """Row of a block that each column of a product holds: a thread of a tensor core has columns 8
    j + 2 l + (0, 1)."""
    i = tl.arange(0, ROWS)
    return i // 2 % 4 * (ROWS // 4) + i // 8 * 2 + i % 2


@triton.jit
def _in_order(x):
    """A product whose columns are ``_held``, with its rows in order. Moves nothing."""
    B: tl.constexpr = x.shape[0]
    T: tl.constexpr = x.shape[1]
    return tl.reshape(tl.permute(tl.reshape(x, (B, T // 8, 4, 2)), (0, 2, 1, 3)), (B, T))


@triton.jit
def _as_held(x):
    """The way back."""
    B: tl.constexpr = x.shape[0]
    T: tl.constexpr = x.shape[1]
    return tl.reshape(tl.permute(tl.reshape(x, (B, 4, T // 8, 2)), (0, 2, 1, 3)), (B, T))


@triton.jit
def _pairs(x):
    return tl.split(tl.reshape(x, (x.shape[0], x.shape[1] // 2, 2)))


@triton.jit
def _joined(first, second):
    return tl.reshape(tl.join(first, second), (first.shape[0], first.shape[1] * 2))


@triton.jit
def _dealt(BLOCK: tl.constexpr):
    """Positions of a block in the order in which sums of quarters are scanned: such that Triton's
    scan finds each sum in the thread that made it, and none goes through shared memory."""
    i = tl.arange(0, BLOCK)
    return i // 64 * 64 + i // 8 % 4 * 16 + i // 32 % 2 * 8 + i % 8


@triton.jit
def _deal(x):
    """(positions, n) with its positions as ``_dealt``. Moves nothing."""
    B: tl.constexpr = x.shape[0] // 64
    N: tl.constexpr = x.shape[1]
    return tl.reshape(tl.permute(tl.reshape(x, (B, 4, 2, 8, N)), (0, 2, 1, 3, 4)), (x.shape[0], N))


@triton.jit
def _undeal(x):
    """The way back."""
    B: tl.constexpr = x.shape[0] // 64
    N: tl.constexpr = x.shape[1]
    return tl.reshape(tl.permute(tl.reshape(x, (B, 2, 4, 8, N)), (0, 2, 1, 3, 4)), (x.shape[0], N))


# A scan joins two neighbouring runs of rows. Of each it knows what all its rows make, and what all
# but the last one make: at the end, what is before each row. Nothing is found by subtraction.
@triton.jit
def _plus(before1, all1, before2, all2):
    return all1 + before2, all1 + all2


@triton.jit
def _larger(before1, all1, before2, all2):
    return tl.maximum(all1, before2), tl.maximum(all1, all2)


# Here a run turns what comes from later rows, y, into all y + most, or before y + more.
@triton.jit
def _through(before1, more1, all1, most1, before2, more2, all2, most2):
    return all1 * before2, before2 * most1 + more2, all1 * all2, all2 * most1 + most2


@triton.jit
def _sum_before(x, start):
    """(positions, rows) of x summed over earlier rows, from ``start`` on; and the sums after each
    quarter of the rows. These and ``start`` are dealt."""
    if x.shape[1] == 4:
        x = _deal(x)
        before, ends = tl.associative_scan((tl.zeros_like(x), x), 1, _plus)
        return _undeal(before + start[:, None]), ends
    else:
        first, second = _pairs(x)
        before, ends = _sum_before(first + second, start)
        return _joined(before, before + first), ends


@triton.jit
def _sum_after(x, start):
    """Summed over later rows; and before the first row."""
    if x.shape[1] == 4:
        x = _deal(x)
        after, _ = tl.associative_scan((tl.zeros_like(x), x), 1, _plus, reverse=True)
        return _undeal(after + start[:, None]), start + tl.sum(x, 1)
    else:
        first, second = _pairs(x)
        after, end = _sum_after(first + second, start)
        return _joined(after + second, after), end


@triton.jit
def _max_before(x, start):
    """The largest of earlier rows and ``start``; and after each quarter of the rows."""
    if x.shape[1] == 4:
        x = _deal(x)
        before, ends = tl.associative_scan((tl.zeros_like(x), x), 1, _larger)
        return _undeal(tl.maximum(before, start[:, None])), tl.maximum(ends, start[:, None])
    else:
        first, second = _pairs(x)
        before, ends = _max_before(tl.maximum(first, second), start)
        return _joined(before, tl.maximum(before, first)), ends


@triton.jit
def _passed_back(keep, more, start):
    """Sum that runs upwards through the rows, each of which passes on ``keep`` of it and adds
    ``more``: as it comes to each row, and beyond the first."""
    if keep.shape[1] == 4:
        keep, more = _deal(keep), _deal(more)
        none = tl.zeros_like(keep)
        before, added, keep, more = tl.associative_scan(
            (none + 1, none, keep, more), 1, _through, reverse=True
        )
        first = tl.arange(0, 4)[None, :] == 0
        end = tl.sum(tl.where(first, keep * start[:, None] + more, 0.0), 1)
        return _undeal(before * start[:, None] + added), end
    else:
        first, second = _pairs(keep)
        more1, more2 = _pairs(more)
        after, end = _passed_back(first * second, first * more2 + more1, start)
        return _joined(second * after + more2, after), end


@triton.jit
def _place(unit, rows, positions, x):
    """A tile of the head ``unit``."""
    return TilePlace(unit, (unit // x.H).to(tl.int64), (unit % x.H).to(tl.int64), rows, positions)


@triton.jit
def _load(view, b, h, rows, n, D: tl.constexpr, WIDE: tl.constexpr):
    """Rows (rows, 1) of a (B, H, n, D) tensor as they are; zeros outside."""
    d = tl.arange(0, WIDE)[None, :]
    inside = rows < n
    if D < WIDE:
        inside = inside & (d < D)
    return tl.load(
        view.at + b * view.b + h * view.h + rows * view.t + d * view.d, mask=inside, other=0.0
    )


@triton.jit
def _load_across(view, b, h, rows, n, D: tl.constexpr, WIDE: tl.constexpr):
    """The same of rows (1, rows), as (D, rows)."""
    d = tl.arange(0, WIDE)[:, None]
    inside = rows < n
    if D < WIDE:
        inside = inside & (d < D)
    return tl.load(
        view.at + b * view.b + h * view.h + rows * view.t + d * view.d, mask=inside, other=0.0
    )


@triton.jit
def _keys(here, x, D: tl.constexpr, WIDE: tl.constexpr):
    return _load(x.k, here.b, here.h // (x.H // x.Hk), here.positions, x.S, D, WIDE)


@triton.jit
def _values(here, x, DV: tl.constexpr, WIDE_V: tl.constexpr):
    return _load(x.v, here.b, here.h // (x.H // x.Hk), here.positions, x.S, DV, WIDE_V)


@triton.jit
def _operand_values(here, x, DV: tl.constexpr, WIDE_V: tl.constexpr):
    """Values for a second product. Triton lays two products out alike where it finds that they have
    ancestors in common. With few rows this would part the rows of the first among warps; it does
    not look behind a transposition."""
    if here.rows.shape[1] < 64:
        positions = tl.trans(here.positions)
        across = _load_across(x.v, here.b, here.h // (x.H // x.Hk), positions, x.S, DV, WIDE_V)
        return tl.trans(across)
    else:
        return _values(here, x, DV, WIDE_V)


@triton.jit
def _at(view, here):
    """Pointers to a view at a place."""
    at = view.at + here.b * view.b + here.h * view.h + here.positions * view.d
    if view.t is not None:
        at += here.rows.to(tl.int64) * view.t
    return at


@triton.jit
def _taken(view, here, x):
    """Numbers of a view by row and position, in float32 or as flags; 0 outside."""
    inside = here.positions < x.S
    if view.t is not None:
        inside = inside & (here.rows < x.T)
    return tl.load(_at(view, here), mask=inside, other=0)


@triton.jit
def _factor(x):
    """By which ``_scores`` are to be multiplied yet: the compiler makes one instruction of it and
    of what follows."""
    if x.bias is None and x.softcap is None:
        return x.scale
    else:
        return 1.0


@triton.jit
def _scores(products, here, x):
    """Scores of products of queries and keys; and the derivative of the softcap."""
    scores = products
    capped = 1.0
    if x.softcap is not None:
        y = 1 - 2 / (1 + tl.exp2(scores * (2 * x.scale * LOG2E)))
        scores = x.softcap * y
        capped = 1 - y * y
    elif x.bias is not None:
        scores = scores * x.scale
    if x.bias is not None:
        scores += LOG2E * _taken(x.bias, here, x)
    if x.mask is not None:
        scores = tl.where(_taken(x.mask, here, x) != 0, scores, float("-inf"))
    return scores, capped


@triton.jit
def _norms_of(norms, unit, rows, x):
    """Norms of rows (1, ROWS); rows beyond the last get such that their attention is zero."""
    at = unit * x.T + rows
    highest = tl.load(norms.highest + at, mask=rows < x.T, other=float("inf"))
    if norms.inverse is None:
        return Norms(highest, None)
    else:
        return Norms(highest, tl.load(norms.inverse + at, mask=rows < x.T, other=0.0))


@triton.jit
def _attention(scores, norms, x):
    """Softmax columns of a tile. Positions beyond the last are not zero, but finite."""
    exponent = scores * _factor(x) - norms.highest
    if x.mask is None:  # else they are masked; their score is 0, which may be far above the highest
        exponent = tl.minimum(exponent, 0.0, tl.PropagateNan.ALL)
    a = tl.exp2(exponent)
    if norms.inverse is not None:
        a *= norms.inverse
    return a


@triton.jit
def _sources(here, x):
    """Places of a tile where the rule acts, as bool; None: everywhere."""
    felt = None
    if x.source is not None:
        felt = tl.load(_at(x.source, here), mask=here.positions < x.P, other=0) != 0
    if x.rows is not None:
        at = x.rows.at + here.b * x.rows.b + here.rows * x.rows.d
        moved = tl.load(at, mask=here.rows < x.T, other=0) != 0
        others = here.positions < x.P
        if felt is not None:
            others = felt
        felt = others & moved
    return felt


@triton.jit
def _free(felt, here, x):
    """Places where weights are diminished: where the rule acts, but for protected positions. None:
    everywhere."""
    if x.protected is not None:
        others = tl.load(_at(x.protected, here), mask=here.positions < x.P, other=0) == 0
        if felt is None:
            return others
        else:
            return felt & others
    else:
        return felt


@triton.jit
def _where(felt, tile, other):
    """``tile`` where ``felt`` (None: everywhere), else ``other``."""
    if felt is None:
        return tile
    else:
        return tl.where(felt, tile, other)


@triton.jit
def _log2(u, ptx):
    if ptx is not None:  # tl.log2 is exact to the last bit and costs 24 instructions
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [u], tl.float32, True, 1
        )
    else:
        return tl.log2(u)


@triton.jit
def _inverse(u, ptx):
    """1 / u; a division takes eight instructions."""
    if ptx is not None:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [u], tl.float32, True, 1
        )
    else:
        root = tl.rsqrt(u)
        return root * root


@triton.jit
def _rate(m, y, g, x):
    """The gain of g, divided by z."""
    rate = g.terms[len(g.terms) - 1]
    for i in tl.static_range(1, len(g.terms)):
        rate = rate * y + g.terms[len(g.terms) - 1 - i]
    if g.p is not None:
        rate = rate * tl.exp2(g.p * _log2(m, x.ptx))
    return rate


@triton.jit
def _weights(a, u, gate, x):
    """Diminished weights, and by how much those of g1 are above those of g2 (0 if there is
    none)."""
    m = u + 0.5 * a
    z = a * _inverse(m, x.ptx)
    rate = _rate(m, z * z, x.g1, x)
    above = tl.zeros(a.shape, tl.float32)
    if x.g2 is not None:
        other = _rate(m, z * z, x.g2, x)
        above = (rate - other) * z
        rate = other + gate * (rate - other)
    return rate * z, above


@triton.jit
def _slope(u, g, x):
    """g' where the coverage is u - 1."""
    if g.p is None:
        return g.slope * _inverse(u, x.ptx)
    else:
        return tl.exp2(g.slope[0] * _log2(u, x.ptx) + g.slope[1])


@triton.jit
def _slopes(u, a, before, g, x):
    """g' before and after each row. ``before`` is None where heads share their coverage: then a
    row's own attention does not lead to the coverage of the next row."""
    now = _slope(u, g, x)
    if before is None:
        return now, _slope(u + a, g, x)
    else:
        return now, _slopes_after(now, u + a, g, x)


@triton.jit
def _slopes_after(slopes, ends, g, x):
    """``slopes`` of the next row; behind the last row of a thread, computed from ``ends``."""
    if slopes.shape[1] == 4:
        return _slope(ends, g, x)
    else:
        first, second = _pairs(slopes)
        _, last = _pairs(ends)
        return _joined(second, _slopes_after(first, last, g, x))


@triton.jit
def _thin(here, x):
    """Factors that dropout multiplies weights with."""
    number = (here.unit.to(tl.int32) * x.T + here.rows) * x.S + here.positions
    return tl.where(tl.rand(x.dropout[1], number) < x.dropout[0], 0.0, 1 / (1 - x.dropout[0]))


@triton.jit
def _slot(unit, slot, positions, x, BETWEEN: tl.constexpr):
    """Place where the coverage before block ``slot`` of rows is kept."""
    return (unit.to(tl.int64) * ((x.T + BETWEEN - 1) // BETWEEN + 1) + slot) * x.P + positions


@triton.jit
def _kept(state, unit, slot, dealt, x, BETWEEN: tl.constexpr):
    """Coverage before block ``slot`` of rows, of positions in the order ``dealt``."""
    if state is None:
        return None
    else:
        at = _slot(unit, slot, dealt, x, BETWEEN)
        total = tl.load(state.total + at, mask=dealt < x.P, other=0.0)
        return Slots(total, tl.load(state.peak + at, mask=dealt < x.P, other=0.0))


@triton.jit
def _keep(state, after, unit, slot, dealt, x, ROWS: tl.constexpr, BETWEEN: tl.constexpr):
    """Write down the coverage after every BETWEEN rows of a tile that begins at block ``slot``."""
    ends = (1 + tl.arange(0, 4)[None, :]) * (ROWS // 4)
    slots = slot + ends // BETWEEN
    inside = (dealt < x.P)[:, None] & (ends % BETWEEN == 0) & ((slots - 1) * BETWEEN < x.T)
    at = _slot(unit, slots, dealt[:, None], x, BETWEEN)
    tl.store(state.total + at, after.total, mask=inside)
    tl.store(state.peak + at, after.peak, mask=inside)


@triton.jit
def _shared_tile(X, here, x):
    """A tile of a (B, T, P) tensor."""
    at = X + (here.b * x.T + here.rows.to(tl.int64)) * x.P + here.positions
    return tl.load(at, mask=(here.rows < x.T) & (here.positions < x.P), other=0.0)


@triton.jit
def _covered(seen, here, before, shared, x):
    """1 + coverage, and peak, before each row of a tile; and the coverage after each quarter of its
    rows (None where heads share it). ``before``: that before the first row."""
    if before is not None:
        u, totals = _sum_before(seen, before.total + 1)
        gate, peaks = _max_before(seen, before.peak)
        return u, gate, Slots(before.total[:, None] + totals, peaks)
    else:
        u = 1 + _shared_tile(shared.covered, here, x)
        gate = u
        if x.g2 is not None:
            gate = _shared_tile(shared.peak, here, x)
        return u, gate, None


@triton.jit
def _normed(
    highest, total, q, here, x,
    LAST: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """The highest score of each row, and its sum of exponentials, with some more positions; LAST:
    not all are there. Here rows (ROWS, 1) are down and positions (1, BLOCK) across."""
    k = _load(x.k, here.b, here.h // (x.H // x.Hk), tl.trans(here.positions), x.S, D, WIDE)
    scores, _ = _scores(tl.dot(q, tl.trans(k), input_precision=PRODUCTS), here, x)
    if LAST:
        scores = tl.where(here.positions < x.S, scores, float("-inf"))
    now = tl.maximum(highest, tl.max(scores, 1) * _factor(x))
    reference = tl.where(now == float("-inf"), 0.0, now)
    more = tl.sum(tl.exp2(scores * _factor(x) - reference[:, None]), 1)
    return now, total * tl.exp2(highest - reference) + more


@triton.jit
def norms(
    x, norms,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr,
    PRODUCTS: tl.constexpr,
    CLASS: tl.constexpr,
):  # fmt: skip
    """Norms of softmax rows. A program owns ROWS of a head and walks the source; its tiles are
    (rows, positions)."""
    unit = tl.program_id(0)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    positions = tl.arange(0, BLOCK)[None, :]
    head = _place(unit, rows[:, None], positions, x)
    q = _load(x.q, head.b, head.h, head.rows, x.T, D, WIDE)
    highest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    whole = x.S // BLOCK * BLOCK
    for start in range(0, whole, BLOCK):
        here = _place(unit, rows[:, None], start + positions, x)
        highest, total = _normed(highest, total, q, here, x, False, D, WIDE, PRODUCTS)
    if whole < x.S:
        here = _place(unit, rows[:, None], whole + positions, x)
        highest, total = _normed(highest, total, q, here, x, True, D, WIDE, PRODUCTS)
    at = unit * x.T + rows
    nothing = total == 0
    if norms.inverse is not None:
        inverse = tl.where(nothing, 0.0, 1 / tl.where(nothing, 1.0, total))
        tl.store(norms.inverse + at, inverse, mask=rows < x.T)
    else:
        highest += tl.log2(tl.where(nothing, 1.0, total))
    tl.store(norms.highest + at, tl.where(nothing, float("inf"), highest), mask=rows < x.T)


@triton.jit
def forward(
    x, norms, state, shared, Context, Kept, Sums, span,
    BETWEEN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr,
    WIDE: tl.constexpr,
    DV: tl.constexpr, WIDE_V: tl.constexpr, PRODUCTS: tl.constexpr, CLASS: tl.constexpr,
):  # fmt: skip
    """The context, and the coverage after each block of rows. A program owns ``span`` source
    positions of a head and walks the rows; parts of several programs are summed later.

    Context (parts, B, H, T, Dv). Kept, likewise, is that of weights which renormalising leaves
    alone. Sums (2, parts, B, H, T): the attention and the weights that it compares.
    """
    unit = tl.program_id(0)
    part = tl.program_id(1)
    first = part * span
    for block in range((x.T + ROWS - 1) // ROWS):
        rows = block * ROWS + tl.arange(0, ROWS)
        held = block * ROWS + _held(ROWS)
        slot = block * (ROWS // BETWEEN)
        softmax = _norms_of(norms, unit, rows[None, :], x)
        head = _place(unit, rows[None, :], first, x)
        q = _load(x.q, head.b, head.h, held[:, None], x.T, D, WIDE)
        context = tl.zeros((ROWS, WIDE_V), tl.float32)
        kept = context
        mass = tl.zeros((ROWS,), tl.float32)
        have = mass
        for start in range(first, min(first + span, x.S), BLOCK):
            dealt = start + _dealt(BLOCK)
            here = _place(unit, rows[None, :], start + tl.arange(0, BLOCK)[:, None], x)
            k = _keys(here, x, D, WIDE)
            v = _operand_values(here, x, DV, WIDE_V)
            products = _in_order(tl.dot(k, tl.trans(q), input_precision=PRODUCTS))
            scores, _ = _scores(products, here, x)
            a = _attention(scores, softmax, x)
            felt = _sources(here, x)
            before = _kept(state, unit, slot, dealt, x, BETWEEN)
            u, gate, after = _covered(_where(felt, a, 0.0), here, before, shared, x)
            w = a
            if x.g1 is not None:
                w, _ = _weights(a, u, gate, x)
                free = _free(felt, here, x)
                if Sums is not None:
                    inside = here.positions < x.S
                    if free is not None:
                        inside = inside & free
                    mass += tl.sum(tl.where(inside, a, 0.0), 0)
                    have += tl.sum(tl.where(inside, w, 0.0), 0)
                if Kept is not None:
                    plain = tl.where(free, 0.0, a)
                    w = tl.where(free, w, 0.0)
                    if x.dropout is not None:
                        plain *= _thin(here, x)
                    kept = tl.dot(_operand(plain, v, x), v, kept, input_precision=PRODUCTS)
                else:
                    w = _where(free, w, a)
            if x.dropout is not None:
                w *= _thin(here, x)
            context = tl.dot(_operand(w, v, x), v, context, input_precision=PRODUCTS)
            if state is not None:
                _keep(state, after, unit, slot, dealt, x, ROWS, BETWEEN)
        at = (part * tl.num_programs(0) + unit).to(tl.int64) * x.T
        d = tl.arange(0, WIDE_V)[None, :]
        inside = (held < x.T)[:, None] & (d < DV)
        places = (at + held)[:, None] * DV + d
        tl.store(Context + places, context.to(Context.dtype.element_ty), mask=inside)
        if Kept is not None:
            tl.store(Kept + places, kept, mask=inside)
        if Sums is not None:
            all_sums = tl.num_programs(1) * tl.num_programs(0) * x.T
            tl.store(Sums + at + rows, mass, mask=rows < x.T)
            tl.store(Sums + all_sums + at + rows, have, mask=rows < x.T)
        tl.debug_barrier()  # the next block of rows reads what other threads have written


@triton.jit
def _operand(w, v, x):
    """Weights (positions, rows) as the first operand of a product with values."""
    if x.ptx is not None:
        # An assembly that may do anything: Triton does not look behind it, else it computes the
        # rule once for each warp, in the layout of the product.
        w = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=f,f", [w], tl.float32, False, 1)
    return tl.trans(_as_held(w).to(v.dtype))


@triton.jit
def _gradient(products, shares, here, later, opened, before, norms, shared, given, x):
    """Of a tile: attention, the weights that values were summed with, the gradient of the
    attention, the derivative of the softcap; and the gradients ``later`` and ``opened`` of the
    coverage and the peak, now before these rows.

    ``shares``: <gradient of the context, value>. ``later`` is negative: what the coverage costs
    later rows.
    """
    scores, capped = _scores(products, here, x)
    a = _attention(scores, norms, x)
    felt = _sources(here, x)
    seen = _where(felt, a, 0.0)
    u, gate, _ = _covered(seen, here, before, shared, x)
    d = shares
    if x.dropout is not None:
        thin = _thin(here, x)
        d *= thin
    w = a
    gradient = d
    flow = tl.zeros(a.shape, tl.float32)
    if x.g1 is not None:
        free = _free(felt, here, x)
        w, gradient, lost, flow = _diminished(a, u, gate, d, free, before, here, given, x)
    if before is None:
        gradient += _where(felt, _shared_tile(shared.worth, here, x), 0.0)
    else:
        cost = tl.zeros(a.shape, tl.float32)
        if x.g1 is not None:
            cost, later = _sum_after(lost, later)
        else:
            cost += _undeal(later[:, None])
        if given.gate is not None:
            keep = tl.where(seen < gate, 1.0, 0.0)
            comes, opened = _passed_back(keep, flow, opened)
            cost = tl.where(seen < gate, cost, cost - comes)
        gradient -= _where(felt, cost, 0.0)
    if x.dropout is not None:
        w *= thin
    return a, w, gradient, capped, later, opened


@triton.jit
def _diminished(a, u, gate, d, free, before, here, given, x):
    """Weights as they were used, the gradient of the attention by its own row, what the coverage
    before the row costs, and the gradient of the gate. ``d``: that of the weights."""
    w, above = _weights(a, u, gate, x)
    now, after = _slopes(u, a, before, x.g1, x)
    if x.g2 is not None:
        now2, after2 = _slopes(u, a, before, x.g2, x)
        now = now2 + gate * (now - now2)
        after = after2 + gate * (after - after2)
    mine = d
    direct = d * after
    if given.finish is not None:
        at = here.unit * x.T + here.rows
        scale = tl.load(given.finish.scale + at, mask=here.rows < x.T, other=0.0)
        gained = tl.load(given.finish.drift + at, mask=here.rows < x.T, other=0.0)
        gained = tl.where(here.positions < x.S, gained, 0.0)
        mine = scale * (d - gained)
        direct = mine * after + gained
        w *= scale
    lost = mine * (now - after)
    flow = tl.zeros(a.shape, tl.float32)
    if given.mixing is not None:
        flow = _where(free, mine * above, 0.0)
    return _where(free, w, a), _where(free, direct, d), _where(free, lost, 0.0), flow


@triton.jit
def _backward_tile(
    x, norms, state, shared, given, k, v, block, positions, later, opened,
    BETWEEN: tl.constexpr, ROWS: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr,
    DV: tl.constexpr, WIDE_V: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """The queries and gradients of a block of rows, and what ``_gradient`` finds for them."""
    unit = tl.program_id(0)
    rows = (block * ROWS + tl.arange(0, ROWS))[None, :]
    held = (block * ROWS + _held(ROWS))[:, None]
    here = _place(unit, rows, positions[:, None], x)
    q = _load(x.q, here.b, here.h, held, x.T, D, WIDE)
    grad = _load(given.context, here.b, here.h, held, x.T, DV, WIDE_V)
    products = _in_order(tl.dot(k, tl.trans(q), input_precision=PRODUCTS))
    shares = _in_order(tl.dot(v, tl.trans(grad), input_precision=PRODUCTS))
    dealt = tl.program_id(1) * positions.shape[0] + _dealt(positions.shape[0])
    before = _kept(state, unit, block * (ROWS // BETWEEN), dealt, x, BETWEEN)
    softmax = _norms_of(norms, unit, rows, x)
    found = _gradient(products, shares, here, later, opened, before, softmax, shared, given, x)
    return here, q, grad, found


@triton.jit
def backward_values(
    x, norms, state, shared, given, DValues, Dots, parts,
    BETWEEN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr,
    WIDE: tl.constexpr, DV: tl.constexpr, WIDE_V: tl.constexpr, PRODUCTS: tl.constexpr,
    CLASS: tl.constexpr,
):  # fmt: skip
    """The gradient of the values, and for each row the sum of attention times its gradient. A
    program owns BLOCK positions of a head and walks the rows backwards. DValues (B, H, S, Dv), Dots
    (B, H, parts, T)."""
    unit = tl.program_id(0)
    positions = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    own = _place(unit, tl.zeros((1, 1), tl.int32), positions[:, None], x)
    k = _keys(own, x, D, WIDE)
    v = _values(own, x, DV, WIDE_V)
    later, opened = _from_later(unit, tl.program_id(1) * BLOCK + _dealt(BLOCK), given, x)
    dv = tl.zeros((BLOCK, WIDE_V), tl.float32)
    blocks = (x.T + ROWS - 1) // ROWS
    for back in range(blocks):
        here, _, grad, found = _backward_tile(
            x, norms, state, shared, given, k, v, blocks - 1 - back, positions, later, opened,
            BETWEEN, ROWS, D, WIDE, DV, WIDE_V, PRODUCTS,
        )  # fmt: skip
        a, w, da, _, later, opened = found
        dv = tl.dot(_as_held(w).to(grad.dtype), grad, dv, input_precision=PRODUCTS)
        at = (unit * parts + tl.program_id(1)).to(tl.int64) * x.T + here.rows
        tl.store(Dots + at, tl.sum(a * da, 0)[None, :], mask=here.rows < x.T)
    d = tl.arange(0, WIDE_V)[None, :]
    at = DValues + (unit.to(tl.int64) * x.S + positions)[:, None] * DV + d
    inside = (positions < x.S)[:, None] & (d < DV)
    tl.store(at, dv.to(DValues.dtype.element_ty), mask=inside)


@triton.jit
def backward_scores(
    x, norms, state, shared, given, Dots, DBias, strides, DQ, DK, DTotal, DPeak, scale, padded,
    BETWEEN: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr,
    WIDE: tl.constexpr, DV: tl.constexpr, WIDE_V: tl.constexpr, PRODUCTS: tl.constexpr,
    CLASS: tl.constexpr,
):  # fmt: skip
    """Gradients of queries, keys, bias and the coverage before. Owns and walks as
    ``backward_values`` does, whose Dots are summed by now: (B, H, T). DQ (B, H, padded, WIDE) is
    added to by all programs of a head; it has room for whole tiles, so that no addition needs a
    branch."""
    unit = tl.program_id(0)
    positions = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    dealt = tl.program_id(1) * BLOCK + _dealt(BLOCK)
    own = _place(unit, tl.zeros((1, 1), tl.int32), positions[:, None], x)
    k = _keys(own, x, D, WIDE)
    v = _values(own, x, DV, WIDE_V)
    later, opened = _from_later(unit, dealt, given, x)
    dk = tl.zeros((BLOCK, WIDE), tl.float32)
    blocks = (x.T + ROWS - 1) // ROWS
    for back in range(blocks):
        block = blocks - 1 - back
        here, q, _, found = _backward_tile(
            x, norms, state, shared, given, k, v, block, positions, later, opened,
            BETWEEN, ROWS, D, WIDE, DV, WIDE_V, PRODUCTS,
        )  # fmt: skip
        a, _, da, capped, later, opened = found
        dots = tl.load(Dots + unit * x.T + here.rows, mask=here.rows < x.T, other=0.0)
        ds = a * (da - dots)
        if DBias is not None:
            inside = (here.rows < x.T) & (here.positions < x.S)
            at = here.rows.to(tl.int64) * strides[2] + here.positions * strides[3]
            at += here.b * strides[0] + here.h * strides[1]
            tl.atomic_add(DBias + at, ds, mask=inside, sem="relaxed")
        ds = (ds * capped).to(q.dtype)
        dk = tl.dot(_as_held(ds), q, dk, input_precision=PRODUCTS)
        dq = tl.dot(tl.trans(k), ds, input_precision=PRODUCTS) * scale
        at = DQ + (unit.to(tl.int64) * padded + block * ROWS) * WIDE
        at += tl.arange(0, ROWS)[None, :] * WIDE + tl.arange(0, WIDE)[:, None]
        tl.atomic_add(at, dq, sem="relaxed")
    d = tl.arange(0, WIDE)[None, :]
    at = DK + (unit.to(tl.int64) * x.S + positions)[:, None] * D + d
    inside = (positions < x.S)[:, None] & (d < D)
    tl.store(at, (dk * scale).to(DK.dtype.element_ty), mask=inside)
    if state is not None:
        at = unit * x.P + dealt
        tl.store(DTotal + at, -later, mask=dealt < x.P)
        tl.store(DPeak + at, opened, mask=dealt < x.P)


@triton.jit
def _from_later(unit, dealt, given, x):
    """Gradients of coverage (negative) and peak after the last row, in the order ``dealt``."""
    at = unit * x.P + dealt
    later = tl.zeros(dealt.shape, tl.float32)
    opened = later
    if given.total is not None:
        later -= tl.load(given.total + at, mask=dealt < x.P, other=0.0)
    if given.peak is not None:
        opened += tl.load(given.peak + at, mask=dealt < x.P, other=0.0)
    return later, opened


@triton.jit
def shared_mean(
    x, norms, Mean,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr,
    PRODUCTS: tl.constexpr, CLASS: tl.constexpr,
):  # fmt: skip
    """Mean (B, T, P): the attention that a coverage shared by heads counts. A program owns a
    tile."""
    b = tl.program_id(0)
    rows = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[None, :]
    held = (tl.program_id(1) * ROWS + _held(ROWS))[:, None]
    positions = (tl.program_id(2) * BLOCK + tl.arange(0, BLOCK))[:, None]
    group = _place(b * x.H, rows, positions, x)
    mean = tl.zeros((BLOCK, ROWS), tl.float32)
    for h in range(x.H):
        here = _place(b * x.H + h, rows, positions, x)
        q = _load(x.q, here.b, here.h, held, x.T, D, WIDE)
        k = _keys(here, x, D, WIDE)
        products = _in_order(tl.dot(k, tl.trans(q), input_precision=PRODUCTS))
        scores, _ = _scores(products, here, x)
        mean += _attention(scores, _norms_of(norms, here.unit, rows, x), x)
    mean = _where(_sources(group, x), mean, 0.0)
    at = Mean + (group.b * x.T + rows) * x.P + positions
    tl.store(at, mean / x.H, mask=(rows < x.T) & (positions < x.P))


@triton.jit
def shared_losses(
    x, norms, shared, given, Lost, Flow,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    WIDE_V: tl.constexpr, PRODUCTS: tl.constexpr, CLASS: tl.constexpr,
):  # fmt: skip
    """Gradients (B, T, P) of the coverage and the peak before each row, summed over heads. A
    program owns a tile."""
    b = tl.program_id(0)
    rows = (tl.program_id(1) * ROWS + tl.arange(0, ROWS))[None, :]
    held = (tl.program_id(1) * ROWS + _held(ROWS))[:, None]
    positions = (tl.program_id(2) * BLOCK + tl.arange(0, BLOCK))[:, None]
    group = _place(b * x.H, rows, positions, x)
    losses = tl.zeros((BLOCK, ROWS), tl.float32)
    flows = losses
    felt = _sources(group, x)
    u, gate, _after = _covered(losses, group, None, shared, x)
    for h in range(x.H):
        here = _place(b * x.H + h, rows, positions, x)
        q = _load(x.q, here.b, here.h, held, x.T, D, WIDE)
        grad = _load(given.context, here.b, here.h, held, x.T, DV, WIDE_V)
        k = _keys(here, x, D, WIDE)
        v = _values(here, x, DV, WIDE_V)
        products = _in_order(tl.dot(k, tl.trans(q), input_precision=PRODUCTS))
        d = _in_order(tl.dot(v, tl.trans(grad), input_precision=PRODUCTS))
        scores, _ = _scores(products, here, x)
        a = _attention(scores, _norms_of(norms, here.unit, rows, x), x)
        if x.dropout is not None:
            d *= _thin(here, x)
        free = _free(felt, here, x)
        _, _, lost, flow = _diminished(a, u, gate, d, free, None, here, given, x)
        losses -= lost
        flows += flow
    at = (group.b * x.T + rows) * x.P + positions
    inside = (rows < x.T) & (positions < x.P)
    tl.store(Lost + at, losses, mask=inside)
    if x.g2 is not None:
        tl.store(Flow + at, flows, mask=inside)


@triton.jit
def step_scores(x, Scores, Norms, BLOCK: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr):
    """One row: its scores (B, H, S), and of each block of positions the highest one and the sum of
    exponentials, Norms (2, B, H, blocks). A program owns a block of positions of a head. There is
    nothing here for tensor cores."""
    unit = tl.program_id(0)
    positions = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.zeros((1, 1), tl.int32)
    here = _place(unit, row, positions[:, None], x)
    q = _load(x.q, here.b, here.h, row, x.T, D, WIDE).to(tl.float32)
    k = _keys(here, x, D, WIDE).to(tl.float32)
    scores, _ = _scores(tl.sum(k * q, 1)[:, None], here, x)
    scores = tl.sum(tl.where(here.positions < x.S, scores * _factor(x), float("-inf")), 1)
    tl.store(Scores + unit * x.S + positions, scores, mask=positions < x.S)
    highest = tl.max(scores, 0)
    reference = tl.where(highest == float("-inf"), 0.0, highest)
    at = Norms + unit * tl.num_programs(1) + tl.program_id(1)
    tl.store(at, highest)
    tl.store(at + tl.num_programs(0) * tl.num_programs(1), tl.sum(tl.exp2(scores - reference), 0))


@triton.jit
def _step_attention(
    Scores, Norms, unit, units, positions, x, BLOCKS: tl.constexpr, PADDED: tl.constexpr
):
    """Attention (positions, 1) of the one row."""
    i = tl.arange(0, PADDED)
    at = Norms + unit * BLOCKS + i
    highest = tl.load(at, mask=i < BLOCKS, other=float("-inf"))
    sums = tl.load(at + units * BLOCKS, mask=i < BLOCKS, other=0.0)
    reference = tl.max(highest, 0)
    reference = tl.where(reference == float("-inf"), 0.0, reference)
    total = tl.sum(sums * tl.exp2(highest - reference), 0)
    scores = tl.load(Scores + unit * x.S + positions, mask=positions < x.S, other=float("-inf"))
    return (tl.exp2(scores - reference) / tl.where(total == 0, 1.0, total))[:, None]


@triton.jit
def step_weigh(
    x, Scores, Norms, Total, Peak, Context, Kept, Sums, HEADS,
    BLOCK: tl.constexpr, BLOCKS: tl.constexpr, PADDED: tl.constexpr, DV: tl.constexpr,
    WIDE_V: tl.constexpr,
):  # fmt: skip
    """The rest of one row: the context in parts, as ``forward`` leaves it, and the coverage (B, H,
    P) moved on in place. A program owns a block of positions of one head, or of all HEADS that
    share a coverage."""
    group = tl.program_id(0)
    part = tl.program_id(1)
    units = tl.num_programs(0) * HEADS
    positions = part * BLOCK + tl.arange(0, BLOCK)
    row = tl.zeros((1, 1), tl.int32)
    item = _place(group * HEADS, row, positions[:, None], x)
    d = tl.arange(0, WIDE_V)
    at = group * x.P + positions
    total = tl.load(Total + at, mask=positions < x.P, other=0.0)
    peak = tl.load(Peak + at, mask=positions < x.P, other=0.0)
    seen = tl.zeros((BLOCK, 1), tl.float32)
    for head in range(HEADS):
        seen += _step_attention(
            Scores, Norms, group * HEADS + head, units, positions, x, BLOCKS, PADDED
        )
    seen = seen / HEADS
    felt = _sources(item, x)
    if felt is not None:
        seen = tl.where(felt, seen, 0.0)
    for head in range(HEADS):
        unit = group * HEADS + head
        here = _place(unit, row, positions[:, None], x)
        a = _step_attention(Scores, Norms, unit, units, positions, x, BLOCKS, PADDED)
        v = _values(here, x, DV, WIDE_V).to(tl.float32)
        w = a
        place = part * units + unit
        if x.g1 is not None:
            w, _ = _weights(a, (1 + total)[:, None], peak[:, None], x)
            free = _free(felt, here, x)
            if Sums is not None:
                inside = here.positions < x.S
                if free is not None:
                    inside = inside & free
                tl.store(Sums + place, tl.sum(tl.sum(tl.where(inside, a, 0.0), 1), 0))
                tl.store(
                    Sums + BLOCKS * units + place, tl.sum(tl.sum(tl.where(inside, w, 0.0), 1), 0)
                )
            if Kept is not None:
                plain = tl.where(free, 0.0, a)
                w = tl.where(free, w, 0.0)
                if x.dropout is not None:
                    plain *= _thin(here, x)
                tl.store(Kept + place.to(tl.int64) * DV + d, tl.sum(plain * v, 0), mask=d < DV)
            elif free is not None:
                w = tl.where(free, w, a)
        if x.dropout is not None:
            w *= _thin(here, x)
        tl.store(Context + place.to(tl.int64) * DV + d, tl.sum(w * v, 0), mask=d < DV)
    tl.debug_barrier()  # every thread has read the old coverage
    tl.store(Total + at, total + tl.sum(seen, 1), mask=positions < x.P)
    tl.store(Peak + at, tl.maximum(peak, tl.sum(seen, 1)), mask=positions < x.P)
