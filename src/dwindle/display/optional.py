"""pandas and matplotlib, which are optional: without them, a sentence says what to install."""

from collections.abc import Sequence
from typing import Any


def frame(rows: Sequence[dict[str, Any]]) -> Any:
    """A pandas data frame of these rows."""
    try:
        import pandas
    except ModuleNotFoundError:
        raise ValueError("a data frame needs pandas: type pip install pandas") from None
    return pandas.DataFrame(rows)


def axes(given: Any = None, width: float = 6.4, height: float = 3.2) -> Any:
    """The axes that were given, or new ones in a figure of this size, in inches."""
    if given is not None:
        return given
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError:
        raise ValueError("a plot needs matplotlib: type pip install 'dwindle[figures]'") from None
    return pyplot.subplots(figsize=(width, height), layout="constrained")[1]
