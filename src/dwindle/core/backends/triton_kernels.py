"""The Triton kernels: a program has a block of source positions of one head and walks the target rows.

Sums along the rows of a tile are products with triangles of ones, so that coverage is exclusive without a
subtraction. The arithmetic is that of cpu/rule.h. Everything is float32 but what is loaded.
"""

# Triton reads these functions as text: they carry no types, and their constants are arguments.
# mypy: ignore-errors

import triton
import triton.language as tl


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def _segment(later_reset, later, reset, value):
    """A sum that starts anew at each reset."""
    return later_reset | reset, tl.where(reset != 0, value, later + value)


@triton.jit
def _scores(
    q, k, rows, positions, T, S, b, h,
    Bias, bias_b, bias_h, bias_t, bias_s, Mask, mask_b, mask_h, mask_t, mask_s,
    scale, softcap, BIAS: tl.constexpr, MASK: tl.constexpr, SOFTCAP: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """(rows, positions) of scores, -inf where nothing may be, and the derivative of the softcap."""
    scores = tl.dot(q, tl.trans(k), input_precision=EXACT) * scale
    slope = tl.full(scores.shape, 1.0, tl.float32)
    if SOFTCAP:
        y = 2 / (1 + tl.exp(-2 * scores / softcap)) - 1
        scores = softcap * y
        slope = 1 - y * y
    inside = (rows[:, None] < T) & (positions[None, :] < S)
    if BIAS:
        at = Bias + b * bias_b + h * bias_h + rows[:, None] * bias_t + positions[None, :] * bias_s
        scores += tl.load(at, mask=inside, other=0.0).to(tl.float32)
    if MASK:
        at = Mask + b * mask_b + h * mask_h + rows[:, None] * mask_t + positions[None, :] * mask_s
        inside = inside & (tl.load(at, mask=inside, other=0) != 0)
    return tl.where(inside, scores, float("-inf")), slope


@triton.jit
def _load(X, x_b, x_h, x_t, x_d, b, h, rows, n, D, WIDE: tl.constexpr):
    """Rows of a (B, H, n, D) tensor, zeros outside, in float32."""
    d = tl.arange(0, WIDE)
    inside = (rows[:, None] < n) & (d[None, :] < D)
    return tl.load(X + b * x_b + h * x_h + rows[:, None] * x_t + d[None, :] * x_d, mask=inside, other=0.0).to(
        tl.float32
    )


@triton.jit
def _attention(scores, Norms, unit, rows, T):
    """Softmax rows, from what ``norms`` found. (One logarithm for both would lose the sum where scores are -1e9.)"""
    at = Norms + 2 * (unit * T + rows)
    highest = tl.load(at, mask=rows < T, other=0.0)
    inverse = tl.load(at + 1, mask=rows < T, other=0.0)
    return tl.exp(scores - highest[:, None]) * inverse[:, None]


@triton.jit
def _gain(x, u, s, p, Terms, which, LOG: tl.constexpr):
    """g(c + a) - g(c), E(x) and u^p, with x = a / u and u = 1 + c."""
    y = tl.zeros(x.shape, tl.float32)
    for i in tl.static_range(9):
        y = y * x + tl.load(Terms + which * 9 + 8 - i)
    e = x * y
    if LOG:
        return s * e, e, tl.full(x.shape, 1.0, tl.float32)
    raised = tl.exp(p * tl.log(u))
    return (s / p) * raised * e, e, raised


@triton.jit
def _slopes(x, u, e, raised, s, LOG: tl.constexpr):
    """g'(c + a) and what it is below g'(c)."""
    after = 1 / (u * (1 + x))
    if LOG:
        return s * after, -s * after * x
    share = s * raised * after
    return share * (1 + e), share * (e - x)


@triton.jit
def norms(
    Q, q_b, q_h, q_t, q_d, K, k_b, k_h, k_s, k_d, V, v_b, v_h, v_s, v_d,
    Bias, bias_b, bias_h, bias_t, bias_s, Mask, mask_b, mask_h, mask_t, mask_s,
    Protected, protected_b, protected_h, protected_t, protected_s,
    Terms, H, Hk, T, S, D, Dv, scale, softcap, dropout, seed, s1, p1, s2, p2,
    Norms,
    MODE: tl.constexpr, LOG1: tl.constexpr, LOG2: tl.constexpr, DETACH: tl.constexpr, BIAS: tl.constexpr,
    MASK: tl.constexpr, PROTECTED: tl.constexpr, SOFTCAP: tl.constexpr, DROPOUT: tl.constexpr, BLOCK: tl.constexpr,
    WIDE: tl.constexpr, WIDE_V: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """(B, H, T, 2): the largest score r of each row, and 1 / sum of e^(score - r); both 0 for a row with nothing."""
    b, h = tl.program_id(0) // H, tl.program_id(0) % H
    rows = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    q = _load(Q, q_b, q_h, q_t, q_d, b, h, rows, T, D, WIDE)
    highest = tl.full((BLOCK,), float("-inf"), tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, S, BLOCK):
        positions = start + tl.arange(0, BLOCK)
        k = _load(K, k_b, k_h, k_s, k_d, b, h // (H // Hk), positions, S, D, WIDE)
        scores, _ = _scores(
            q, k, rows, positions, T, S, b, h, Bias, bias_b, bias_h, bias_t, bias_s,
            Mask, mask_b, mask_h, mask_t, mask_s, scale, softcap, BIAS, MASK, SOFTCAP, EXACT,
        )  # fmt: skip
        now = tl.maximum(highest, tl.max(scores, 1))
        reference = tl.where(now == float("-inf"), 0.0, now)
        total = total * tl.exp(highest - reference) + tl.sum(tl.exp(scores - reference[:, None]), 1)
        highest = now
    nothing = total == 0
    at = Norms + 2 * (tl.program_id(0) * T + rows)
    tl.store(at, tl.where(nothing, 0.0, highest), mask=rows < T)
    tl.store(at + 1, tl.where(nothing, 0.0, 1 / tl.where(nothing, 1.0, total)), mask=rows < T)


@triton.jit
def forward(
    Q, q_b, q_h, q_t, q_d, K, k_b, k_h, k_s, k_d, V, v_b, v_h, v_s, v_d,
    Bias, bias_b, bias_h, bias_t, bias_s, Mask, mask_b, mask_h, mask_t, mask_s,
    Protected, protected_b, protected_h, protected_t, protected_s,
    Terms, H, Hk, T, S, D, Dv, scale, softcap, dropout, seed, s1, p1, s2, p2,
    Norms, Out, Total, Peak, Totals, Peaks,
    MODE: tl.constexpr, LOG1: tl.constexpr, LOG2: tl.constexpr, DETACH: tl.constexpr, BIAS: tl.constexpr,
    MASK: tl.constexpr, PROTECTED: tl.constexpr, SOFTCAP: tl.constexpr, DROPOUT: tl.constexpr, BLOCK: tl.constexpr,
    WIDE: tl.constexpr, WIDE_V: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Adds to Out (B, H, T, Dv); moves Total and Peak (B, H, S) on; saves them before each block of rows."""
    unit = tl.program_id(0)
    b, h = unit // H, unit % H
    positions = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = positions < S
    k = _load(K, k_b, k_h, k_s, k_d, b, h // (H // Hk), positions, S, D, WIDE)
    v = _load(V, v_b, v_h, v_s, v_d, b, h // (H // Hk), positions, S, Dv, WIDE_V)
    c = tl.load(Total + unit * S + positions, mask=here, other=0.0)
    m = tl.load(Peak + unit * S + positions, mask=here, other=0.0)
    i = tl.arange(0, BLOCK)
    earlier = (i[:, None] > i[None, :]).to(tl.float32)
    previous = (i[:, None] == i[None, :] + 1).to(tl.float32)
    if PROTECTED:
        at = Protected + b * protected_b + h * protected_h + positions * protected_s
        protected = tl.load(at, mask=here, other=0) != 0
    d = tl.arange(0, WIDE_V)
    blocks = (T + BLOCK - 1) // BLOCK
    for block in range(blocks):
        rows = block * BLOCK + i
        tl.store(Totals + (unit * blocks + block) * S + positions, c, mask=here)
        tl.store(Peaks + (unit * blocks + block) * S + positions, m, mask=here)
        q = _load(Q, q_b, q_h, q_t, q_d, b, h, rows, T, D, WIDE)
        scores, _ = _scores(
            q, k, rows, positions, T, S, b, h, Bias, bias_b, bias_h, bias_t, bias_s,
            Mask, mask_b, mask_h, mask_t, mask_s, scale, softcap, BIAS, MASK, SOFTCAP, EXACT,
        )  # fmt: skip
        a = _attention(scores, Norms, unit, rows, T)
        w = a
        if MODE > 0:
            u = 1 + c[None, :] + tl.dot(earlier, a, input_precision="ieee")
            w, _, _ = _gain(a / u, u, s1, p1, Terms, 0, LOG1)
            if MODE == 2:
                shifted = tl.maximum(tl.dot(previous, a, input_precision="ieee"), m[None, :])
                gate = tl.associative_scan(shifted, 0, _larger)
                other, _, _ = _gain(a / u, u, s2, p2, Terms, 1, LOG2)
                w = other + gate * (w - other)
            if PROTECTED:
                w = tl.where(protected[None, :], a, w)
        if DROPOUT:
            place = (unit * T + rows[:, None]) * S + positions[None, :]
            w = tl.where(tl.rand(seed, place) < dropout, 0.0, w / (1 - dropout))
        at = Out + (unit * T + rows[:, None]) * Dv + d[None, :]
        tl.atomic_add(at, tl.dot(w, v, input_precision=EXACT), mask=(rows[:, None] < T) & (d[None, :] < Dv))
        c += tl.sum(a, 0)
        m = tl.maximum(m, tl.max(a, 0))
    tl.store(Total + unit * S + positions, c, mask=here)
    tl.store(Peak + unit * S + positions, m, mask=here)


@triton.jit
def backward(
    Q, q_b, q_h, q_t, q_d, K, k_b, k_h, k_s, k_d, V, v_b, v_h, v_s, v_d,
    Bias, bias_b, bias_h, bias_t, bias_s, Mask, mask_b, mask_h, mask_t, mask_s,
    Protected, protected_b, protected_h, protected_t, protected_s,
    Terms, H, Hk, T, S, D, Dv, scale, softcap, dropout, seed, s1, p1, s2, p2,
    Norms, Totals, Peaks, Grad, DQ, DK, DV, DBias, Dots, LaterTotal, LaterPeak, DTotal, DPeak,
    dbias_b, dbias_h, dbias_t, dbias_s,
    LAST: tl.constexpr, BIAS_GRADIENT: tl.constexpr,
    MODE: tl.constexpr, LOG1: tl.constexpr, LOG2: tl.constexpr, DETACH: tl.constexpr, BIAS: tl.constexpr,
    MASK: tl.constexpr, PROTECTED: tl.constexpr, SOFTCAP: tl.constexpr, DROPOUT: tl.constexpr, BLOCK: tl.constexpr,
    WIDE: tl.constexpr, WIDE_V: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Walks the rows backwards. First: DV, and Dots, the sums over a row that the softmax needs. LAST: DQ,
    DK, DBias, and the gradient of the coverage before."""
    unit = tl.program_id(0)
    b, h = unit // H, unit % H
    g = h // (H // Hk)
    positions = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    here = positions < S
    k = _load(K, k_b, k_h, k_s, k_d, b, g, positions, S, D, WIDE)
    v = _load(V, v_b, v_h, v_s, v_d, b, g, positions, S, Dv, WIDE_V)
    later = tl.load(LaterTotal + unit * S + positions, mask=here, other=0.0)
    opened = tl.load(LaterPeak + unit * S + positions, mask=here, other=0.0)
    i = tl.arange(0, BLOCK)
    earlier = (i[:, None] > i[None, :]).to(tl.float32)
    after = (i[:, None] < i[None, :]).to(tl.float32)
    previous = (i[:, None] == i[None, :] + 1).to(tl.float32)
    following = (i[:, None] + 1 == i[None, :]).to(tl.float32)
    if PROTECTED:
        at = Protected + b * protected_b + h * protected_h + positions * protected_s
        protected = tl.load(at, mask=here, other=0) != 0
    dk = tl.zeros((BLOCK, WIDE), tl.float32)
    dv = tl.zeros((BLOCK, WIDE_V), tl.float32)
    d = tl.arange(0, WIDE)
    d_v = tl.arange(0, WIDE_V)
    blocks = (T + BLOCK - 1) // BLOCK
    for back in range(blocks):
        block = blocks - 1 - back
        rows = block * BLOCK + i
        valid = rows < T
        c = tl.load(Totals + (unit * blocks + block) * S + positions, mask=here, other=0.0)
        m = tl.load(Peaks + (unit * blocks + block) * S + positions, mask=here, other=0.0)
        q = _load(Q, q_b, q_h, q_t, q_d, b, h, rows, T, D, WIDE)
        grad = _load(Grad, H * T * Dv, T * Dv, Dv, 1, b, h, rows, T, Dv, WIDE_V)
        scores, capped = _scores(
            q, k, rows, positions, T, S, b, h, Bias, bias_b, bias_h, bias_t, bias_s,
            Mask, mask_b, mask_h, mask_t, mask_s, scale, softcap, BIAS, MASK, SOFTCAP, EXACT,
        )  # fmt: skip
        a = _attention(scores, Norms, unit, rows, T)
        dw = tl.dot(grad, tl.trans(v), input_precision=EXACT)
        if DROPOUT:
            place = (unit * T + rows[:, None]) * S + positions[None, :]
            thin = tl.where(tl.rand(seed, place) < dropout, 0.0, 1 / (1 - dropout))
            dw *= thin
        w = a
        da = dw + later[None, :]
        flow = tl.zeros(a.shape, tl.float32)
        gate = tl.associative_scan(tl.maximum(tl.dot(previous, a, input_precision="ieee"), m[None, :]), 0, _larger)
        if MODE > 0:
            u = 1 + c[None, :] + tl.dot(earlier, a, input_precision="ieee")
            x = a / u
            w, e, raised = _gain(x, u, s1, p1, Terms, 0, LOG1)
            slope, change = _slopes(x, u, e, raised, s1, LOG1)
            if MODE == 2:
                other, e2, raised2 = _gain(x, u, s2, p2, Terms, 1, LOG2)
                slope2, change2 = _slopes(x, u, e2, raised2, s2, LOG2)
                if not DETACH:
                    flow = dw * (w - other)
                w = other + gate * (w - other)
                slope = slope2 + gate * (slope - slope2)
                change = change2 + gate * (change - change2)
            if PROTECTED:
                w = tl.where(protected[None, :], a, w)
                slope = tl.where(protected[None, :], 1.0, slope)
                change = tl.where(protected[None, :], 0.0, change)
                flow = tl.where(protected[None, :], 0.0, flow)
            lost = dw * change
            da = dw * slope + tl.dot(after, lost, input_precision="ieee") + later[None, :]
            later += tl.sum(lost, 0)
        # The peak: each row that set it takes the flow of the rows behind it, up to the next such row.
        record = ((a >= gate) & valid[:, None]).to(tl.int32)
        resets, sums = tl.associative_scan((record, flow), 0, _segment, reverse=True)
        sums += tl.where(resets != 0, 0.0, opened[None, :])
        behind = (
            tl.dot(following, sums, input_precision="ieee")
            + tl.where(i == BLOCK - 1, 1.0, 0.0)[:, None] * opened[None, :]
        )
        da += record * behind
        opened = tl.sum(tl.where(i[:, None] == 0, sums, 0.0), 0)
        if not LAST:
            if DROPOUT:
                w *= thin
            dv += tl.dot(tl.trans(w), grad, input_precision=EXACT)
            tl.atomic_add(Dots + unit * T + rows, tl.sum(a * da, 1), mask=valid)
        else:
            dots = tl.load(Dots + unit * T + rows, mask=valid, other=0.0)
            ds = a * (da - dots[:, None])
            if BIAS_GRADIENT:
                at = DBias + b * dbias_b + h * dbias_h + rows[:, None] * dbias_t + positions[None, :] * dbias_s
                tl.atomic_add(at, ds, mask=valid[:, None] & here[None, :])
            ds *= capped * scale
            dk += tl.dot(tl.trans(ds), q, input_precision=EXACT)
            at = DQ + (unit * T + rows[:, None]) * D + d[None, :]
            tl.atomic_add(at, tl.dot(ds, k, input_precision=EXACT), mask=valid[:, None] & (d[None, :] < D))
    place = (b * Hk + g) * S + positions[:, None]
    if not LAST:
        tl.atomic_add(DV + place * Dv + d_v[None, :], dv, mask=here[:, None] & (d_v[None, :] < Dv))
    else:
        tl.atomic_add(DK + place * D + d[None, :], dk, mask=here[:, None] & (d[None, :] < D))
        tl.store(DTotal + unit * S + positions, later, mask=here)
        tl.store(DPeak + unit * S + positions, opened, mask=here)
