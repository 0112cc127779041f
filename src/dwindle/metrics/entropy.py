"""Coverage entropy: how evenly an output has drawn on the positions of its source, from a coverage file.

With coverage c over n positions and p = c / sum(c), H = - sum p log p in nats (paper, section 4.3), also
divided by log n, which makes sources of different lengths comparable. It is given for raw coverage (the sum
of attention) and for effective coverage (the sum of diminished weights): a concave map flattens by itself, so
only raw is comparable with a model without diminishing. H is taken per layer, and layers are averaged.

The file, ``coverage.npz`` beside the outputs, holds four arrays and nothing else:

    ids        (N,)    strings, the ids of the outputs, in any order
    offsets    (N + 1,) integers: item i has the columns offsets[i] to offsets[i + 1]
    raw        (L, C)  raw coverage after the last step, mean of heads, one row a layer
    effective  (L, C)  effective coverage, likewise
"""

import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dwindle import __version__
from dwindle.metrics.outputs import Outputs
from dwindle.metrics.score import Array, Metric, Progress, mean

_KINDS = ("raw", "effective")
_KEYS = {"ids", "offsets", *_KINDS}


@dataclass(frozen=True)
class Entropy:
    """Row: H of raw coverage, H / log n of it, then both of effective coverage. ``path``: empty is
    coverage.npz in the folder of the outputs."""

    path: str = ""
    needs: frozenset[str] = frozenset()

    def rows(self, system: Outputs, progress: Progress) -> Array:
        path = Path(self.path) if self.path else (system.folder or Path()) / "coverage.npz"
        if not path.is_file():
            raise ValueError(
                f"entropy needs a coverage file, but {path} is not there: name one as entropy:FILE.npz"
            )
        coverage = read(path)
        lacking = [item.id for item in system.items if item.id not in coverage]
        if lacking:
            raise ValueError(f"{path} has no coverage for id {lacking[0]!r}: make it with the same outputs")
        rows = np.array([_row(coverage[item.id], f"{path}, item {item.id!r}") for item in system.items])
        progress(len(system))
        return rows


def write(path: str | Path, coverage: Mapping[str, tuple[Array, Array]]) -> None:
    """Write a coverage file from id -> (raw (L, S), effective (L, S))."""
    pairs = list(coverage.values())
    offsets = np.cumsum([0, *(raw.shape[1] for raw, _ in pairs)])
    raw, effective = (np.concatenate([pair[k] for pair in pairs], axis=1) for k in (0, 1))
    np.savez_compressed(path, ids=np.array(list(coverage)), offsets=offsets, raw=raw, effective=effective)


def read(path: str | Path) -> dict[str, Array]:
    """id -> coverage (2, L, S): raw, then effective."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is not a coverage file ({error}): write one with numpy.savez") from None
    if set(arrays) != _KEYS:
        raise ValueError(f"{path} holds {sorted(arrays)}: a coverage file holds {sorted(_KEYS)}")
    ids, offsets, raw, effective = (arrays[key] for key in ("ids", "offsets", "raw", "effective"))
    _check(path, ids, offsets, raw, effective)
    both = np.stack([raw, effective]).astype(np.float64)
    return {str(id): both[:, :, offsets[i] : offsets[i + 1]] for i, id in enumerate(ids)}


def _check(
    path: str | Path,
    ids: npt.NDArray[np.str_],
    offsets: npt.NDArray[np.int64],
    raw: Array,
    effective: Array,
) -> None:
    if raw.ndim != 2 or raw.shape != effective.shape:
        raise ValueError(
            f"{path}: raw {raw.shape} and effective {effective.shape} must have one shape (layers, columns)"
        )
    if not (np.issubdtype(raw.dtype, np.floating) and np.issubdtype(effective.dtype, np.floating)):
        raise ValueError(f"{path}: coverage must be floating-point numbers")
    if ids.ndim != 1 or ids.dtype.kind != "U" or len(set(ids.tolist())) != len(ids):
        raise ValueError(f"{path}: ids must be a row of different strings")
    if not np.issubdtype(offsets.dtype, np.integer) or offsets.shape != (len(ids) + 1,):
        raise ValueError(f"{path}: offsets must be {len(ids) + 1} integers, one more than ids")
    if offsets[0] != 0 or offsets[-1] != raw.shape[1] or (np.diff(offsets) < 1).any() or not raw.shape[0]:
        raise ValueError(
            f"{path}: offsets must rise from 0 to {raw.shape[1]}, with a column or more for each item"
        )


def _row(coverage: Array, where: str) -> list[float]:
    """Four entropies of a coverage (2, L, S)."""
    if not np.isfinite(coverage).all() or (coverage < 0).any():
        raise ValueError(
            f"{where} has a coverage that is negative or not a number: coverage is a sum of weights"
        )
    totals = coverage.sum(-1, keepdims=True)
    if (totals <= 0).any():
        raise ValueError(f"{where} has a layer with no coverage at all: was anything decoded?")
    shares = coverage / totals
    logs = np.log(np.where(shares > 0, shares, 1.0))
    entropies = -(shares * logs).sum(-1).mean(-1)  # (2,): layers averaged
    positions = coverage.shape[-1]
    # One position is covered as evenly as can be.
    even = entropies / np.log(positions) if positions > 1 else np.ones(2)
    return [float(x) for pair in zip(entropies, even, strict=True) for x in pair]


def metrics(option: str = "") -> list[Metric]:
    """``entropy-raw`` and ``entropy-effective`` in nats, and each over log n; the option is the coverage
    file."""
    names = ("entropy-raw", "entropy-raw-even", "entropy-effective", "entropy-effective-even")
    details = (
        f"unit:nats|layers:mean|file:{Path(option).name if option else 'coverage.npz'}|version:{__version__}"
    )
    return [Metric(name, Entropy(option), (i,), mean, details) for i, name in enumerate(names)]
