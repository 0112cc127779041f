"""What a call takes against SDPA, on the shapes of text and on shapes nothing was tuned for,
without the eager twin.

    python benchmarks/attention.py
    PATH= $(which python) benchmarks/attention.py       where no compiler is found

Interleaved, medians, forward / forward + backward as ratios to F.scaled_dot_product_attention; the
control is SDPA against itself. `dwindle bench attention` has the named shapes, the eager twin and
memory.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

import dwindle
from dwindle.bench.attention import interleaved

RULES = (
    "dim:power(0.65)",
    "dydim:log,power(0.5)",
    "dim:boxcox(0.5)+renormalise",
    "dim:log+share_heads",
)
SHAPES = {  # B, H, T, S, D: seconds
    (1, 12, 512, 8192, 64): 24,
    (4, 16, 128, 1024, 64): 5,
    (64, 16, 32, 32, 64): 5,
    (2, 8, 100, 500, 64): 5,
    (8, 12, 33, 77, 64): 5,
    (1, 16, 200, 2000, 64): 5,
    (3, 5, 61, 129, 40): 5,
    (16, 16, 64, 400, 64): 5,
    (1, 3, 256, 1000, 64): 5,
    (4, 12, 128, 512, 96): 5,
    (2, 4, 17, 33, 64): 5,
    (1, 12, 128, 1024, 64): 5,
    (1, 12, 128, 8192, 64): 9,
}


Runs = dict[str, Callable[[], object]]


def contenders(shape: tuple[int, ...]) -> tuple[Runs, Runs]:
    """By name: forward, and forward + backward."""
    b, h, t, s, d = shape
    q, k, v = (torch.randn(b, h, n, d, requires_grad=True) for n in (t, s, s))
    grad = torch.randn(b, h, t, d)

    def sdpa() -> Tensor:
        return F.scaled_dot_product_attention(q, k, v)

    forward: dict[str, Callable[[], Tensor]] = {"SDPA": sdpa, "control": sdpa}
    for name in RULES:
        rule = dwindle.rule(name)
        forward[name] = lambda rule=rule: dwindle.attention(q, k, v, rule=rule)[0]
    both = {
        name: lambda run=run: torch.autograd.grad(run(), (q, k, v), grad)
        for name, run in forward.items()
    }
    return {name: torch.no_grad()(run) for name, run in forward.items()}, both


def cells(shape: tuple[int, ...], seconds: float) -> str:
    """Ratios to SDPA."""
    forward, both = (
        interleaved(runs, time)
        for runs, time in zip(contenders(shape), (seconds / 3, seconds), strict=True)
    )
    names = [name for name in forward if name != "SDPA"]
    return " | ".join(
        f"{forward[n] / forward['SDPA']:.2f} / {both[n] / both['SDPA']:.2f}" for n in names
    )


def growth(short: tuple[int, ...], long: tuple[int, ...], seconds: float) -> str:
    """How many times the time of one shape another takes, both in one run."""
    times = []
    for near, far in zip(contenders(short), contenders(long), strict=True):
        times.append(
            interleaved({**near, **{f"long {name}": run for name, run in far.items()}}, seconds)
        )
    names = ["SDPA", *RULES]
    return ", ".join(
        f"{n} x " + " / ".join(f"{t[f'long {n}'] / t[n]:.1f}" for t in times) for n in names
    )


def main() -> None:
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print(
        "| B, H, T, S, D | control | "
        + " | ".join(RULES)
        + " |\n"
        + "|---" * (2 + len(RULES))
        + "|"
    )
    for shape, seconds in SHAPES.items():
        print(f"| {', '.join(map(str, shape))} | {cells(shape, seconds)} |", flush=True)
    *_, short, long = SHAPES
    print(f"From the last shape but one to the last: {growth(short, long, 12)}")


if __name__ == "__main__":
    main()
