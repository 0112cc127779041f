"""Attention against loops in float64: rules, options, shapes, backends, dtypes, extreme scores and
masks."""

import math
from pathlib import Path
from random import Random

import numpy as np
import torch

import dwindle
from dwindle import Coverage
from dwindle.core.backends import cpu

FUNCTIONS = [
    "log",
    "log(1.9)",
    "power(0.5)",
    "power(0.65)",
    "boxcox(0.5)",
    "boxcox(0.000001)",
    "identity",
]
TOLERANCES = {torch.float64: 1e-9, torch.float32: 2e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}


def trial(random: Random, folder: Path) -> int:
    dtype = random.choice(list(TOLERANCES))
    rule = dwindle.rule(_rule(random))
    case = _case(random, rule, dtype)
    expected = loops(rule, **case)
    backends = ["eager", "chunked", *(["cpu"] if cpu.available() else [])]
    for backend in backends:
        context, coverage = dwindle.attention(**_tensors(case, dtype), rule=rule, backend=backend)
        for name, found, right in zip(
            ("context", "total", "peak"), (context, *coverage), expected, strict=True
        ):
            off = np.abs(found.double().numpy() - right).max() if right.size else 0.0
            bound = TOLERANCES[dtype] * max(1.0, np.abs(right).max() if right.size else 0.0)
            assert off <= bound, f"{backend} {rule} {dtype} {_shapes(case)}: {name} is off by {off}"
    return 3 * len(backends)


def _rule(random: Random) -> str:
    head = random.choice(["plain", "dim", "dydim"])
    names = random.choices(FUNCTIONS, k={"plain": 0, "dim": 1, "dydim": 2}[head])
    options = [o for o in ("renormalise", "share_heads", "protect(0,-1)") if random.random() < 0.3]
    return "+".join([head + (":" + ",".join(names) if names else ""), *options])


def _case(random: Random, rule: dwindle.Rule, dtype: torch.dtype) -> dict:
    """Arrays in float64 that the dtype can hold."""
    b = random.randint(1, 3)
    hk = random.randint(1, 3)
    t = random.choice([1, 2, 7, 40])
    d = random.choice([1, 4, 16])
    h = hk * random.randint(1, 2)
    s = random.choice([1, 3, 17, 64, 300])
    dv = random.choice([1, 5, 8])
    draw = np.random.default_rng(random.getrandbits(32))
    spread = random.choice([0.0, 1.0, 4.0]) / math.sqrt(d) ** 0.5
    real = lambda *shape: _held(draw.standard_normal(shape), dtype)  # noqa: E731
    case = {
        "query": real(b, h, t, d) * spread,
        "key": real(b, hk, s, d),
        "value": real(b, hk, s, dv),
    }
    case["query"] = _held(case["query"], dtype)
    if random.random() < 0.5:  # what one number moves all scores by must change nothing
        case["bias"] = np.full((1, h, 1, 1), random.choice([-300.0, -100.0, 0.0, 100.0]))
    if random.random() < 0.6:
        case["mask"] = draw.random((b, 1, random.choice([1, t]), s)) < random.choice(
            [0.02, 0.5, 0.95]
        )
    one = 1 if rule.share_heads else h
    if random.random() < 0.4:
        case["coverage"] = (3 * draw.random((b, one, s)), draw.random((b, one, s)))
    if random.random() < 0.3:
        case["protected"] = draw.random((b, s)) < 0.3
    return case


def _held(x: np.ndarray, dtype: torch.dtype) -> np.ndarray:
    return torch.from_numpy(x).to(dtype).double().numpy()


def _tensors(case: dict, dtype: torch.dtype) -> dict:
    tensors = {name: torch.from_numpy(case[name]).to(dtype) for name in ("query", "key", "value")}
    if "bias" in case:
        tensors["bias"] = torch.from_numpy(case["bias"]).to(
            torch.float64 if dtype == torch.float64 else torch.float32
        )
    if "mask" in case:
        tensors["mask"] = torch.from_numpy(case["mask"])
    if "protected" in case:
        tensors["protected"] = torch.from_numpy(case["protected"])
    if "coverage" in case:
        state = torch.float64 if dtype == torch.float64 else torch.float32
        tensors["coverage"] = Coverage(*(torch.from_numpy(x).to(state) for x in case["coverage"]))
    return tensors


def _shapes(case: dict) -> dict:
    return {name: getattr(x, "shape", None) for name, x in case.items()}


def loops(rule, query, key, value, bias=None, mask=None, coverage=None, protected=None):
    """Context (B, H, T, Dv), total and peak, row by row from the definitions."""
    (b, h, t, d), (hk, s) = query.shape, key.shape[1:3]
    gs = [_value(g) for g in rule.functions]
    one = 1 if rule.share_heads else h
    total, peak = (
        (np.zeros((b, one, s)), np.zeros((b, one, s)))
        if coverage is None
        else (x.copy() for x in coverage)
    )
    kept = np.zeros((b, s), bool) if protected is None else protected.copy()
    for i in rule.protect:
        if -s <= i < s:
            kept[:, i] = True
    context = np.zeros((b, h, t, value.shape[-1]))
    for i in range(b):
        for row in range(t):
            rows = np.zeros((h, s))
            for head in range(h):
                scores = key[i, head * hk // h] @ query[i, head, row] / math.sqrt(d)
                scores = scores + (
                    0 if bias is None else np.broadcast_to(bias, (b, h, t, s))[i, head, row]
                )
                allowed = (
                    np.ones(s, bool)
                    if mask is None
                    else np.broadcast_to(mask, (b, h, t, s))[i, head, row]
                )
                if allowed.any():
                    power = np.exp(scores[allowed] - scores[allowed].max())
                    rows[head, allowed] = power / power.sum()
            seen = rows.mean(0, keepdims=True) if rule.share_heads else rows
            for head in range(h):
                at = 0 if rule.share_heads else head
                weights = _weights(rule, gs, rows[head], total[i, at], peak[i, at], kept[i])
                context[i, head, row] = weights @ value[i, head * hk // h]
            total[i] += seen
            peak[i] = np.maximum(peak[i], seen)
    return context, total, peak


def _weights(rule, gs, added, covered, peak, kept):
    gains = [g(covered + added) - g(covered) for g in gs]
    weights = {
        0: lambda: added,
        1: lambda: gains[0],
        2: lambda: peak * gains[0] + (1 - peak) * gains[1],
    }[len(gs)]()
    weights = weights.copy()
    if rule.renormalise and weights[~kept].sum() > 0:
        weights[~kept] *= added[~kept].sum() / weights[~kept].sum()
    weights[kept] = added[kept]
    return weights


def _value(g):
    """g from its text, in numpy."""
    name, _, number = str(g).rstrip(")").partition("(")
    p = float(number) if number else math.e
    return {
        "log": lambda x: np.log1p(x) / math.log(p),
        "power": lambda x: (1 + x) ** p,
        "boxcox": lambda x: np.expm1(p * np.log1p(x)) / p,
        "identity": lambda x: x,
    }[name]
