"""How many digits the weights keep: the stable gain against the subtraction that Eq. 3 prints.

    python benchmarks/precision.py

Diffuse attention (softmax of normal scores, T = 128 rows over S = 512 positions, seed 0).
"subtraction" computes coverage and g(c_t) - g(c_{t-1}) in the named dtype; "dwindle" is the rule on
the same attention. The error is relative L1 against float64.
"""

import torch

from dwindle import Concave, Dim, Log, Power

DTYPES = (torch.bfloat16, torch.float16, torch.float32)


def error(weights: torch.Tensor, exact: torch.Tensor) -> float:
    return float((weights.double() - exact).abs().sum() / exact.sum())


def by_subtraction(g: Concave, attention: torch.Tensor) -> torch.Tensor:
    after = attention.cumsum(-2)
    before = torch.cat([torch.zeros_like(after[:1]), after[:-1]])
    return g.value(after) - g.value(before)


def main() -> None:
    torch.manual_seed(0)
    attention = torch.randn(128, 512, dtype=torch.float64).softmax(-1)
    print(f"torch {torch.__version__}")
    print("| g | " + " | ".join(f"{str(d)[6:]}: subtraction | dwindle" for d in DTYPES) + " |")
    print("|---" * (1 + 2 * len(DTYPES)) + "|")
    for g in (Log(), Power(0.65)):
        cells = []
        for dtype in DTYPES:
            rounded = attention.to(dtype)
            exact, _ = Dim(g)(rounded.double())
            cells.append(f"{error(by_subtraction(g, rounded), exact):.2g}")
            cells.append(f"{error(Dim(g)(rounded)[0], exact):.2g}")
        print(f"| {g} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
