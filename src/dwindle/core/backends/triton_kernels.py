"""The Triton kernels. What each of them owns and walks over is told in docs/KERNEL.md;
triton_launch.py starts them.

A tile is (positions, rows) of one head: source positions down, target rows across. On tensor cores
a thread then holds many rows of few positions, and ``_held`` deals the rows out so that they follow
one another in a thread. Sums down the rows are made in registers: pairs are added, the sums of
pairs are summed the same way, and each row gets what came before its pair. Products are in the
dtype of the inputs, all else is float32; scores are in units of ln 2.

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
def _sum_before(x, start):
    """(positions, rows) of x summed over earlier rows, from ``start`` on."""
    if x.shape[1] == 1:
        return tl.expand_dims(start, 1)
    else:
        first, second = _pairs(x)
        before = _sum_before(first + second, start)
        return _joined(before, before + first)


@triton.jit
def _sum_after(x, start):
    """Summed over later rows; and before the first row."""
    if x.shape[1] == 1:
        return tl.expand_dims(start, 1), start + tl.sum(x, 1)
    else:
        first, second = _pairs(x)
        after, end = _sum_after(first + second, start)
        return _joined(after + second, after), end


@triton.jit
def _max_before(x, start):
    """The largest of earlier rows and ``start``."""
    if x.shape[1] == 1:
        return tl.expand_dims(start, 1)
    else:
        first, second = _pairs(x)
        before = _max_before(tl.maximum(first, second), start)
        return _joined(before, tl.maximum(before, first))


@triton.jit
def _passed_back(keep, more, start):
    """Sum that runs upwards through the rows, each of which passes on ``keep`` of it and adds
    ``more``: as it comes to each row, and beyond the first."""
    if keep.shape[1] == 1:
        return tl.expand_dims(start, 1), tl.sum(keep, 1) * start + tl.sum(more, 1)
    else:
        first, second = _pairs(keep)
        more1, more2 = _pairs(more)
        after, end = _passed_back(first * second, first * more2 + more1, start)
        return _joined(second * after + more2, after), end


@triton.jit
def _load(x, b, h, rows, n, D: tl.constexpr, WIDE: tl.constexpr):
    """Rows of a (B, H, n, D) tensor as they are; zeros outside."""
    d = tl.arange(0, WIDE)
    inside = rows[:, None] < n
    if D < WIDE:
        inside = inside & (d[None, :] < D)
    return tl.load(
        x.at + b * x.b + h * x.h + rows[:, None] * x.t + d[None, :] * x.d, mask=inside, other=0.0
    )


@triton.jit
def _load_across(x, b, h, rows, n, D: tl.constexpr, WIDE: tl.constexpr):
    """The same as (D, rows). Between two products this keeps Triton from laying both out alike:
    what suits the second one would part the rows of the first among warps."""
    d = tl.arange(0, WIDE)
    inside = rows[None, :] < n
    if D < WIDE:
        inside = inside & (d[:, None] < D)
    return tl.load(
        x.at + b * x.b + h * x.h + rows[None, :] * x.t + d[:, None] * x.d, mask=inside, other=0.0
    )


@triton.jit
def _at(view, b, h, rows, positions):
    """Pointers to (b, h, rows, positions) of a view."""
    at = view.at + b * view.b + h * view.h + positions * view.d
    if view.t is not None:
        at += rows.to(tl.int64) * view.t
    return at


@triton.jit
def _taken(view, b, h, rows, positions, x):
    """Numbers of a view by row and position, in float32 or as flags; 0 outside."""
    inside = positions < x.S
    if view.t is not None:
        inside = inside & (rows < x.T)
    return tl.load(_at(view, b, h, rows, positions), mask=inside, other=0)


@triton.jit
def _flags(view, b, h, positions, x):
    """Those of source positions, as bool."""
    return tl.load(_at(view, b, h, positions, positions), mask=positions < x.P, other=0) != 0


@triton.jit
def _factor(x):
    """By which ``_scores`` are to be multiplied yet: the compiler makes one instruction of it and
    of what follows."""
    if x.bias is None and x.softcap is None:
        return x.scale
    else:
        return 1.0


@triton.jit
def _scores(products, rows, positions, b, h, x):
    """Scores of products of queries and keys, of any shape; and the derivative of the softcap."""
    scores = products
    capped = 1.0
    if x.softcap is not None:
        y = 1 - 2 / (1 + tl.exp2(scores * (2 * x.scale * LOG2E)))
        scores = x.softcap * y
        capped = 1 - y * y
    elif x.bias is not None:
        scores = scores * x.scale
    if x.bias is not None:
        scores += LOG2E * _taken(x.bias, b, h, rows, positions, x)
    if x.mask is not None:
        scores = tl.where(_taken(x.mask, b, h, rows, positions, x) != 0, scores, float("-inf"))
    return scores, capped


@triton.jit
def _attention(scores, unit, rows, norms, x):
    """Softmax columns of a tile (positions, rows). Rows beyond the last are zero; positions beyond
    the last are not."""
    at = unit * x.T + rows
    highest = tl.load(norms.highest + at, mask=rows < x.T, other=float("inf"))
    a = tl.exp2(scores * _factor(x) - highest[None, :])
    if norms.inverse is not None:
        a *= tl.load(norms.inverse + at, mask=rows < x.T, other=0.0)[None, :]
    return a


@triton.jit
def _sources(positions, rows, b, x):
    """Places of a tile (positions, rows) where the rule acts, as bool; None: everywhere."""
    felt = None
    if x.source is not None:
        felt = _flags(x.source, b, 0, positions, x)[:, None]
    if x.rows is not None:
        moved = tl.load(x.rows.at + b * x.rows.b + rows * x.rows.d, mask=rows < x.T, other=0) != 0
        others = (positions < x.P)[:, None]
        if felt is not None:
            others = felt
        felt = others & moved[None, :]
    return felt


@triton.jit
def _free(felt, positions, b, h, x):
    """Places where weights are diminished: where the rule acts, but for protected positions. None:
    everywhere."""
    if x.protected is not None:
        others = (_flags(x.protected, b, h, positions, x) == 0)[:, None]
        if felt is None:
            return others
        else:
            return felt & others
    else:
        return felt


@triton.jit
def _log2(u, ptx):
    if ptx is not None:  # tl.log2 is exact to the last bit and costs 24 instructions
        return tl.inline_asm_elementwise(
            "lg2.approx.ftz.f32 $0, $1;", "=f,f", [u], tl.float32, True, 1
        )
    else:
        return tl.log2(u)


@triton.jit
def _inverse(u):
    """1 / u in two instructions; a division takes eight."""
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
def _slope(u, g, x):
    """g' where the coverage is u - 1."""
    if g.p is None:
        return g.slope * _inverse(u)
    else:
        return tl.exp2(g.slope[0] * _log2(u, x.ptx) + g.slope[1])


@triton.jit
def _weights(a, u, gate, x):
    """Diminished weights, and by how much those of g1 are above those of g2 (0 if there is
    none)."""
    m = u + 0.5 * a
    z = a * _inverse(m)
    rate = _rate(m, z * z, x.g1, x)
    above = tl.zeros(a.shape, tl.float32)
    if x.g2 is not None:
        other = _rate(m, z * z, x.g2, x)
        above = (rate - other) * z
        rate = other + gate * (rate - other)
    return rate * z, above


@triton.jit
def _thin(unit, rows, positions, x):
    """Factors that dropout multiplies weights with."""
    place = (unit * x.T + rows[None, :]) * x.S + positions[:, None]
    return tl.where(tl.rand(x.dropout[1], place) < x.dropout[0], 0.0, 1 / (1 - x.dropout[0]))


@triton.jit
def _slot(unit, slot, positions, x, BETWEEN: tl.constexpr):
    """Place where the coverage before block ``slot`` of rows is kept."""
    return (unit.to(tl.int64) * ((x.T + BETWEEN - 1) // BETWEEN + 1) + slot) * x.P + positions


@triton.jit
def _fewer(x, COUNT: tl.constexpr, LARGEST: tl.constexpr):
    """(positions, rows) added up, or the LARGEST, of COUNT groups of rows. Halfway ``_sum_before``
    has them too."""
    if x.shape[1] == COUNT:
        return x
    else:
        first, second = _pairs(x)
        if LARGEST:
            return _fewer(tl.maximum(first, second), COUNT, LARGEST)
        else:
            return _fewer(first + second, COUNT, LARGEST)


@triton.jit
def _shared_tile(X, b, rows, positions, x):
    """(positions, rows) of a (B, T, P) tensor."""
    at = X + (b * x.T + rows.to(tl.int64))[None, :] * x.P + positions[:, None]
    return tl.load(at, mask=(rows < x.T)[None, :] & (positions < x.P)[:, None], other=0.0)


@triton.jit
def _covered(seen, unit, b, slot, rows, positions, state, shared, x, BETWEEN: tl.constexpr):
    """1 + coverage, and peak, before each row of a tile that begins at block ``slot``."""
    if shared is not None:
        u = 1 + _shared_tile(shared.covered, b, rows, positions, x)
        gate = u
        if x.g2 is not None:
            gate = _shared_tile(shared.peak, b, rows, positions, x)
    else:
        at = _slot(unit, slot, positions, x, BETWEEN)
        total = tl.load(state.total + at, mask=positions < x.P, other=0.0)
        peak = tl.load(state.peak + at, mask=positions < x.P, other=0.0)
        u = seen
        gate = seen
        # always: Triton lays products out worse if it finds joins before them, but not inside a
        # branch
        if x.T > 0:
            u = _sum_before(seen, total + 1)
            gate = _max_before(seen, peak)
    return u, gate


@triton.jit
def _keep_covered(seen, unit, slot, positions, state, x, BETWEEN: tl.constexpr):
    """Write down the coverage after every BETWEEN rows of a tile that begins at block ``slot``."""
    COUNT: tl.constexpr = seen.shape[1] // BETWEEN
    at = _slot(unit, slot, positions, x, BETWEEN)
    more = _fewer(seen, COUNT, False)
    most = _fewer(seen, COUNT, True)
    total = _sum_before(more, tl.load(state.total + at, mask=positions < x.P, other=0.0)) + more
    peak = tl.maximum(
        _max_before(most, tl.load(state.peak + at, mask=positions < x.P, other=0.0)), most
    )
    slots = slot + 1 + tl.arange(0, COUNT)[None, :]
    inside = (positions < x.P)[:, None] & ((slots - 1) * BETWEEN < x.T)
    at = _slot(unit, slots, positions[:, None], x, BETWEEN)
    tl.store(state.total + at, total, mask=inside)
    tl.store(state.peak + at, peak, mask=inside)


@triton.jit
def _normed(
    highest, total, q, positions, rows, b, h, x,
    LAST: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, PRODUCTS: tl.constexpr,
):  # fmt: skip
    """The highest score of each row, and its sum of exponentials, with some more positions; LAST:
    not all are there."""
    k = _load(x.k, b, h // (x.H // x.Hk), positions, x.S, D, WIDE)
    products = tl.dot(q, tl.trans(k), input_precision=PRODUCTS)
    scores, _ = _scores(products, rows[:, None], positions[None, :], b, h, x)
    if LAST:
        scores = tl.where(positions[None, :] < x.S, scores, float("-inf"))
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
    b, h = (unit // x.H).to(tl.int64), (unit % x.H).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    q = _load(x.q, b, h, rows, x.T, D, WIDE)
    highest = tl.full((ROWS,), float("-inf"), tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    positions = tl.arange(0, BLOCK)
    whole = x.S // BLOCK * BLOCK
    for start in range(0, whole, BLOCK):
        highest, total = _normed(
            highest, total, q, start + positions, rows, b, h, x, False, D, WIDE, PRODUCTS
        )
    if whole < x.S:
        highest, total = _normed(
            highest, total, q, whole + positions, rows, b, h, x, True, D, WIDE, PRODUCTS
        )
    at = unit * x.T + rows
    nothing = total == 0
    if norms.inverse is not None:
        tl.store(
            norms.inverse + at,
            tl.where(nothing, 0.0, 1 / tl.where(nothing, 1.0, total)),
            mask=rows < x.T,
        )
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
    b, h = (unit // x.H).to(tl.int64), (unit % x.H).to(tl.int64)
    first = part * span
    for block in range((x.T + ROWS - 1) // ROWS):
        rows = block * ROWS + tl.arange(0, ROWS)
        held = block * ROWS + _held(ROWS)
        q = _load(x.q, b, h, held, x.T, D, WIDE)
        context = tl.zeros((ROWS, WIDE_V), tl.float32)
        kept = context
        mass = tl.zeros((ROWS,), tl.float32)
        have = mass
        for start in range(first, min(first + span, x.S), BLOCK):
            positions = start + tl.arange(0, BLOCK)
            k = _load(x.k, b, h // (x.H // x.Hk), positions, x.S, D, WIDE)
            v = tl.trans(_load_across(x.v, b, h // (x.H // x.Hk), positions, x.S, DV, WIDE_V))
            products = _in_order(tl.dot(k, tl.trans(q), input_precision=PRODUCTS))
            scores, _ = _scores(products, rows[None, :], positions[:, None], b, h, x)
            a = _attention(scores, unit, rows, norms, x)
            felt = _sources(positions, rows, b, x)
            seen = a
            if felt is not None:
                seen = tl.where(felt, a, 0.0)
            slot = block * (ROWS // BETWEEN)
            u, gate = _covered(seen, unit, b, slot, rows, positions, state, shared, x, BETWEEN)
            w = a
            if x.g1 is not None:
                w, _ = _weights(a, u, gate, x)
                free = _free(felt, positions, b, h, x)
                if Sums is not None:
                    inside = (positions < x.S)[:, None]
                    if free is not None:
                        inside = inside & free
                    mass += tl.sum(tl.where(inside, a, 0.0), 0)
                    have += tl.sum(tl.where(inside, w, 0.0), 0)
                if Kept is not None:
                    plain = tl.where(free, 0.0, a)
                    w = tl.where(free, w, 0.0)
                    if x.dropout is not None:
                        plain *= _thin(unit, rows, positions, x)
                    kept = tl.dot(
                        tl.trans(_as_held(plain).to(v.dtype)), v, kept, input_precision=PRODUCTS
                    )
                elif free is not None:
                    w = tl.where(free, w, a)
            if x.dropout is not None:
                w *= _thin(unit, rows, positions, x)
            context = tl.dot(
                tl.trans(_as_held(w).to(v.dtype)), v, context, input_precision=PRODUCTS
            )
            if shared is None:
                _keep_covered(seen, unit, slot, positions, state, x, BETWEEN)
        at = (part * tl.num_programs(0) + unit).to(tl.int64) * x.T
        d = tl.arange(0, WIDE_V)
        inside = (held < x.T)[:, None] & (d < DV)[None, :]
        tl.store(
            Context + (at + held)[:, None] * DV + d[None, :],
            context.to(Context.dtype.element_ty),
            mask=inside,
        )
        if Kept is not None:
            tl.store(Kept + (at + held)[:, None] * DV + d[None, :], kept, mask=inside)
        if Sums is not None:
            all_sums = tl.num_programs(1) * tl.num_programs(0) * x.T
            tl.store(Sums + at + rows, mass, mask=rows < x.T)
            tl.store(Sums + all_sums + at + rows, have, mask=rows < x.T)
        tl.debug_barrier()  # the next block of rows reads what other threads have written


@triton.jit
def _gradient(
    products,
    shares,
    unit,
    b,
    h,
    block,
    rows,
    positions,
    later,
    opened,
    norms,
    state,
    shared,
    given,
    x,
):
    """Of a tile: attention, the weights that values were summed with, the gradient of the
    attention, the derivative of the softcap; and the gradients ``later`` and ``opened`` of the
    coverage and the peak, now before these rows.

    ``shares``: <gradient of the context, value>. ``later`` is negative: what the coverage costs
    later rows.
    """
    scores, capped = _scores(products, rows[None, :], positions[:, None], b, h, x)
    a = _attention(scores, unit, rows, norms, x)
    felt = _sources(positions, rows, b, x)
    seen = a
    if felt is not None:
        seen = tl.where(felt, a, 0.0)
    u, gate = _covered(seen, unit, b, block, rows, positions, state, shared, x, seen.shape[1])
    d = shares
    if x.dropout is not None:
        thin = _thin(unit, rows, positions, x)
        d *= thin
    w = a
    gradient = d
    flow = tl.zeros(a.shape, tl.float32)
    if x.g1 is not None:
        free = _free(felt, positions, b, h, x)
        w, gradient, lost, flow = _diminished(a, u, gate, d, free, unit, rows, positions, given, x)
    if shared is None:
        cost = later[:, None]
        if x.g1 is not None:
            cost = lost
            if x.T > 0:  # as in _covered
                cost, later = _sum_after(lost, later)
        if given.gate is not None:
            keep = (seen < gate).to(tl.float32)
            comes = keep
            if x.T > 0:
                comes, opened = _passed_back(keep, flow, opened)
            cost = cost - (1 - keep) * comes
        if felt is not None:
            cost = tl.where(felt, cost, 0.0)
        gradient = gradient - cost
    else:
        worth = _shared_tile(shared.worth, b, rows, positions, x)
        if felt is not None:
            worth = tl.where(felt, worth, 0.0)
        gradient = gradient + worth
    if x.dropout is not None:
        w *= thin
    return a, w, gradient, capped, later, opened


@triton.jit
def _diminished(a, u, gate, d, free, unit, rows, positions, given, x):
    """Weights as they were used, the gradient of the attention by its own row, what the coverage
    before the row costs, and the gradient of the gate. ``d``: that of the weights."""
    scale = 1.0
    gained = 0.0
    if given.finish is not None:
        at = unit * x.T + rows
        scale = tl.load(given.finish.scale + at, mask=rows < x.T, other=0.0)[None, :]
        gained = tl.load(given.finish.drift + at, mask=rows < x.T, other=0.0)[None, :]
        gained = tl.where((positions < x.S)[:, None], gained, 0.0)
    mine = scale * (d - gained)
    w, above = _weights(a, u, gate, x)
    now = _slope(u, x.g1, x)
    after = _slope(u + a, x.g1, x)
    if x.g2 is not None:
        now2 = _slope(u, x.g2, x)
        after2 = _slope(u + a, x.g2, x)
        now = now2 + gate * (now - now2)
        after = after2 + gate * (after - after2)
    direct = mine * after + gained
    lost = mine * (now - after)
    flow = tl.zeros(a.shape, tl.float32)
    if given.mixing is not None:
        flow = mine * above
    w *= scale
    if free is not None:
        w = tl.where(free, w, a)
        direct = tl.where(free, direct, d)
        lost = tl.where(free, lost, 0.0)
        flow = tl.where(free, flow, 0.0)
    return w, direct, lost, flow


@triton.jit
def backward_values(
    x, norms, state, shared, given, DValues, Dots, parts,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    WIDE_V: tl.constexpr, PRODUCTS: tl.constexpr, CLASS: tl.constexpr,
):  # fmt: skip
    """The gradient of the values, and for each row the sum of attention times its gradient. A
    program owns BLOCK positions of a head and walks the rows backwards. DValues (B, H, S, Dv), Dots
    (B, H, parts, T)."""
    unit = tl.program_id(0)
    b, h = (unit // x.H).to(tl.int64), (unit % x.H).to(tl.int64)
    positions = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = _load(x.k, b, h // (x.H // x.Hk), positions, x.S, D, WIDE)
    v = _load(x.v, b, h // (x.H // x.Hk), positions, x.S, DV, WIDE_V)
    later, opened = _from_later(unit, positions, given, x)
    dv = tl.zeros((BLOCK, WIDE_V), tl.float32)
    blocks = (x.T + ROWS - 1) // ROWS
    for back in range(blocks):
        block = blocks - 1 - back
        rows = block * ROWS + tl.arange(0, ROWS)
        held = block * ROWS + _held(ROWS)
        q = _load(x.q, b, h, held, x.T, D, WIDE)
        grad = _load(given.context, b, h, held, x.T, DV, WIDE_V)
        products = _in_order(tl.dot(k, tl.trans(q), input_precision=PRODUCTS))
        shares = _in_order(tl.dot(v, tl.trans(grad), input_precision=PRODUCTS))
        a, w, da, _, later, opened = _gradient(
            products,
            shares,
            unit,
            b,
            h,
            block,
            rows,
            positions,
            later,
            opened,
            norms,
            state,
            shared,
            given,
            x,
        )
        dv = tl.dot(_as_held(w).to(grad.dtype), grad, dv, input_precision=PRODUCTS)
        at = (unit * parts + tl.program_id(1)).to(tl.int64) * x.T + rows
        tl.store(Dots + at, tl.sum(a * da, 0), mask=rows < x.T)
    d = tl.arange(0, WIDE_V)
    at = DValues + (unit.to(tl.int64) * x.S + positions)[:, None] * DV + d[None, :]
    tl.store(
        at, dv.to(DValues.dtype.element_ty), mask=(positions < x.S)[:, None] & (d < DV)[None, :]
    )


@triton.jit
def backward_scores(
    x, norms, state, shared, given, Dots, DBias, strides, DQ, DK, DTotal, DPeak, scale,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    WIDE_V: tl.constexpr, PRODUCTS: tl.constexpr, CLASS: tl.constexpr,
):  # fmt: skip
    """Gradients of queries, keys, bias and the coverage before. Owns and walks as
    ``backward_values`` does, whose Dots are summed by now: (B, H, T). DQ is added to by all
    programs of a head."""
    unit = tl.program_id(0)
    b, h = (unit // x.H).to(tl.int64), (unit % x.H).to(tl.int64)
    positions = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    k = _load(x.k, b, h // (x.H // x.Hk), positions, x.S, D, WIDE)
    v = _load(x.v, b, h // (x.H // x.Hk), positions, x.S, DV, WIDE_V)
    later, opened = _from_later(unit, positions, given, x)
    dk = tl.zeros((BLOCK, WIDE), tl.float32)
    d = tl.arange(0, WIDE)
    blocks = (x.T + ROWS - 1) // ROWS
    for back in range(blocks):
        block = blocks - 1 - back
        rows = block * ROWS + tl.arange(0, ROWS)
        held = block * ROWS + _held(ROWS)
        q = _load(x.q, b, h, held, x.T, D, WIDE)
        grad = _load(given.context, b, h, held, x.T, DV, WIDE_V)
        products = _in_order(tl.dot(k, tl.trans(q), input_precision=PRODUCTS))
        shares = _in_order(tl.dot(v, tl.trans(grad), input_precision=PRODUCTS))
        a, _, da, capped, later, opened = _gradient(
            products,
            shares,
            unit,
            b,
            h,
            block,
            rows,
            positions,
            later,
            opened,
            norms,
            state,
            shared,
            given,
            x,
        )
        dots = tl.load(Dots + unit * x.T + rows, mask=rows < x.T, other=0.0)
        ds = a * (da - dots[None, :])
        if DBias is not None:
            inside = (rows < x.T)[None, :] & (positions < x.S)[:, None]
            at = rows.to(tl.int64)[None, :] * strides[2] + positions[:, None] * strides[3]
            tl.atomic_add(
                DBias + b * strides[0] + h * strides[1] + at, ds, mask=inside, sem="relaxed"
            )
        ds = (ds * capped).to(q.dtype)
        dk = tl.dot(_as_held(ds), q, dk, input_precision=PRODUCTS)
        dq = tl.dot(tl.trans(k), ds, input_precision=PRODUCTS) * scale
        at = DQ + (unit.to(tl.int64) * x.T + rows)[None, :] * D + d[:, None]
        tl.atomic_add(at, dq, mask=(rows < x.T)[None, :] & (d < D)[:, None], sem="relaxed")
    at = DK + (unit.to(tl.int64) * x.S + positions)[:, None] * D + d[None, :]
    tl.store(
        at, (dk * scale).to(DK.dtype.element_ty), mask=(positions < x.S)[:, None] & (d < D)[None, :]
    )
    if shared is None:
        at = unit * x.P + positions
        tl.store(DTotal + at, -later, mask=positions < x.P)
        tl.store(DPeak + at, opened, mask=positions < x.P)


@triton.jit
def _from_later(unit, positions, given, x):
    """Gradients of coverage (negative) and peak after the last row."""
    at = unit * x.P + positions
    later = tl.zeros(positions.shape, tl.float32)
    opened = later
    if given.total is not None:
        later -= tl.load(given.total + at, mask=positions < x.P, other=0.0)
    if given.peak is not None:
        opened += tl.load(given.peak + at, mask=positions < x.P, other=0.0)
    return later, opened


@triton.jit
def shared_mean(
    x, norms, Mean,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr,
    PRODUCTS: tl.constexpr, CLASS: tl.constexpr,
):  # fmt: skip
    """Mean (B, T, P): the attention that a coverage shared by heads counts. A program owns a
    tile."""
    b = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    held = tl.program_id(1) * ROWS + _held(ROWS)
    positions = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    mean = tl.zeros((BLOCK, ROWS), tl.float32)
    for h in range(x.H):
        q = _load(x.q, b, h, held, x.T, D, WIDE)
        k = _load(x.k, b, h // (x.H // x.Hk), positions, x.S, D, WIDE)
        products = _in_order(tl.dot(k, tl.trans(q), input_precision=PRODUCTS))
        scores, _ = _scores(products, rows[None, :], positions[:, None], b, h, x)
        mean += _attention(scores, b * x.H + h, rows, norms, x)
    felt = _sources(positions, rows, b, x)
    if felt is not None:
        mean = tl.where(felt, mean, 0.0)
    at = Mean + (b * x.T + rows)[None, :] * x.P + positions[:, None]
    tl.store(at, mean / x.H, mask=(rows < x.T)[None, :] & (positions < x.P)[:, None])


@triton.jit
def shared_losses(
    x, norms, shared, given, Lost, Flow,
    ROWS: tl.constexpr, BLOCK: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr, DV: tl.constexpr,
    WIDE_V: tl.constexpr, PRODUCTS: tl.constexpr, CLASS: tl.constexpr,
):  # fmt: skip
    """Gradients (B, T, P) of the coverage and the peak before each row, summed over heads. A
    program owns a tile."""
    b = tl.program_id(0).to(tl.int64)
    rows = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    held = tl.program_id(1) * ROWS + _held(ROWS)
    positions = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    losses = tl.zeros((BLOCK, ROWS), tl.float32)
    flows = losses
    felt = _sources(positions, rows, b, x)
    u, gate = _covered(losses, b, b, 0, rows, positions, None, shared, x, ROWS)
    for h in range(x.H):
        unit = b * x.H + h
        q = _load(x.q, b, h, held, x.T, D, WIDE)
        k = _load(x.k, b, h // (x.H // x.Hk), positions, x.S, D, WIDE)
        v = _load(x.v, b, h // (x.H // x.Hk), positions, x.S, DV, WIDE_V)
        grad = _load(given.context, b, h, held, x.T, DV, WIDE_V)
        products = _in_order(tl.dot(k, tl.trans(q), input_precision=PRODUCTS))
        d = _in_order(tl.dot(v, tl.trans(grad), input_precision=PRODUCTS))
        scores, _ = _scores(products, rows[None, :], positions[:, None], b, h, x)
        a = _attention(scores, unit, rows, norms, x)
        if x.dropout is not None:
            d *= _thin(unit.to(tl.int32), rows, positions, x)
        free = _free(felt, positions, b, h, x)
        _, _, lost, flow = _diminished(a, u, gate, d, free, unit, rows, positions, given, x)
        losses -= lost
        flows += flow
    at = (b * x.T + rows)[None, :] * x.P + positions[:, None]
    inside = (rows < x.T)[None, :] & (positions < x.P)[:, None]
    tl.store(Lost + at, losses, mask=inside)
    if x.g2 is not None:
        tl.store(Flow + at, flows, mask=inside)


@triton.jit
def step_scores(x, Scores, Norms, BLOCK: tl.constexpr, D: tl.constexpr, WIDE: tl.constexpr):
    """One row: its scores (B, H, S), and of each block of positions the highest one and the sum of
    exponentials, Norms (2, B, H, blocks). A program owns a block of positions of a head. There is
    nothing here for tensor cores."""
    unit = tl.program_id(0)
    b, h = (unit // x.H).to(tl.int64), (unit % x.H).to(tl.int64)
    positions = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    row = tl.zeros((1,), tl.int32)
    q = _load(x.q, b, h, row, x.T, D, WIDE).to(tl.float32)
    k = _load(x.k, b, h // (x.H // x.Hk), positions, x.S, D, WIDE).to(tl.float32)
    scores, _ = _scores(tl.sum(k * q, 1)[:, None], row[None, :], positions[:, None], b, h, x)
    scores = tl.sum(tl.where((positions < x.S)[:, None], scores * _factor(x), float("-inf")), 1)
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
    b = (group * HEADS // x.H).to(tl.int64)
    positions = part * BLOCK + tl.arange(0, BLOCK)
    row = tl.zeros((1,), tl.int32)
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
    felt = _sources(positions, row, b, x)
    if felt is not None:
        seen = tl.where(felt, seen, 0.0)
    for head in range(HEADS):
        unit = group * HEADS + head
        h = (unit % x.H).to(tl.int64)
        a = _step_attention(Scores, Norms, unit, units, positions, x, BLOCKS, PADDED)
        v = _load(x.v, b, h // (x.H // x.Hk), positions, x.S, DV, WIDE_V).to(tl.float32)
        w = a
        place = part * units + unit
        if x.g1 is not None:
            w, _ = _weights(a, (1 + total)[:, None], peak[:, None], x)
            free = _free(felt, positions, b, h, x)
            if Sums is not None:
                inside = (positions < x.S)[:, None]
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
                    plain *= _thin(unit, row, positions, x)
                tl.store(Kept + place.to(tl.int64) * DV + d, tl.sum(plain * v, 0), mask=d < DV)
            elif free is not None:
                w = tl.where(free, w, a)
        if x.dropout is not None:
            w *= _thin(unit, row, positions, x)
        tl.store(Context + place.to(tl.int64) * DV + d, tl.sum(w * v, 0), mask=d < DV)
    tl.debug_barrier()  # every thread has read the old coverage
    tl.store(Total + at, total + tl.sum(seen, 1), mask=positions < x.P)
    tl.store(Peak + at, tl.maximum(peak, tl.sum(seen, 1)), mask=positions < x.P)
