"""Formats numbers in one way everywhere: on the terminal, in reports, in Markdown and LaTeX.

Knows no metric.
"""

MINUS = "\N{MINUS SIGN}"
_MORE = 2


def number(value: float, decimals: int, sign: bool = False) -> str:
    """With so many decimals, and a true minus. A number that is not zero does not read as zero: it
    gets up to two decimals more."""
    enough = next(
        (d for d in range(decimals, decimals + _MORE + 1) if float(f"{value:.{d}f}")), decimals
    )
    text = f"{value:{'+' if sign else ''}.{enough}f}"
    if float(text) == 0:
        text = text.lstrip("+-")
    return text.replace("-", MINUS)


def count(number: int, noun: str) -> str:
    """A number of things: ``1 rater``, ``1,500 raters``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def p_value(p: float) -> str:
    """Three decimals for what is near 0.05, two above."""
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}" if p < 0.1 else f"p = {p:.2f}"
