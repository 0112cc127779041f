"""The coverage file, ``coverage.npz``: what each output has drawn from each source position.

It holds four arrays, and a fifth where the source is a text:

    ids        (N,)    strings, the ids of the outputs, in any order
    offsets    (N + 1,) integers: item i has the columns offsets[i] to offsets[i + 1]
    raw        (L, C)  raw coverage after the last step, mean of heads, one row a layer
    effective  (L, C)  effective coverage, likewise
    places     (C,)    integers: the character of the source at which the position's token begins;
                       -1 for a token that is not of the text
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from dwindle.runfiles import arrays as archive

Array = npt.NDArray[np.floating]

_KEYS = {"ids", "offsets", "raw", "effective"}


def write(
    path: Path,
    coverage: Mapping[str, tuple[Array, Array]],
    places: Mapping[str, Sequence[int]] | None = None,
    by: Path | None = None,
) -> None:
    """Write a coverage file from id -> (raw (L, S), effective (L, S)), and id -> places (S,) if
    they are known.

    ``by``: as in `whole.write`.
    """
    pairs = list(coverage.values())
    known: dict[str, Any] = {}
    if places is not None:
        known["places"] = np.concatenate([places[id] for id in coverage]).astype(np.int32)
    offsets = np.cumsum([0, *(raw.shape[1] for raw, _ in pairs)])
    raw, effective = (np.concatenate([pair[k] for pair in pairs], axis=1) for k in (0, 1))
    ids = np.array(list(coverage))
    archive.write(
        path, {"ids": ids, "offsets": offsets, "raw": raw, "effective": effective, **known}, by
    )


def read(path: str | Path) -> dict[str, npt.NDArray[np.float64]]:
    """id -> coverage (2, L, S): raw, then effective."""
    arrays = _arrays(path)
    ids, offsets = arrays["ids"], arrays["offsets"]
    both = np.stack([arrays["raw"], arrays["effective"]]).astype(np.float64)
    return {str(id): both[:, :, offsets[i] : offsets[i + 1]] for i, id in enumerate(ids)}


def read_places(path: str | Path) -> dict[str, npt.NDArray[np.int64]]:
    """id -> places (S,); empty where the file does not say them."""
    arrays = _arrays(path)
    if "places" not in arrays:
        return {}
    ids, offsets, places = (arrays[key] for key in ("ids", "offsets", "places"))
    return {
        str(id): places[offsets[i] : offsets[i + 1]].astype(np.int64) for i, id in enumerate(ids)
    }


def _arrays(path: str | Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a coverage file, checked."""
    arrays = archive.read(path, "a coverage file", "write one with numpy.savez")
    if set(arrays) - {"places"} != _KEYS:
        raise ValueError(f"{path} holds {sorted(arrays)}: a coverage file holds {sorted(_KEYS)}")
    ids, offsets, raw, effective = (arrays[key] for key in ("ids", "offsets", "raw", "effective"))
    _check(path, ids, offsets, raw, effective)
    places = arrays.get("places")
    if places is not None and (
        places.shape != raw.shape[1:] or not np.issubdtype(places.dtype, np.integer)
    ):
        raise ValueError(f"{path}: places must be {raw.shape[1]} integers, one for each column")
    return arrays


def _check(
    path: str | Path,
    ids: npt.NDArray[np.str_],
    offsets: npt.NDArray[np.int64],
    raw: Array,
    effective: Array,
) -> None:
    if raw.ndim != 2 or raw.shape != effective.shape:
        raise ValueError(
            f"{path}: raw {raw.shape} and effective {effective.shape} must have one shape "
            "(layers, columns)"
        )
    if not (np.issubdtype(raw.dtype, np.floating) and np.issubdtype(effective.dtype, np.floating)):
        raise ValueError(f"{path}: coverage must be floating-point numbers")
    if ids.ndim != 1 or ids.dtype.kind != "U" or len(set(ids.tolist())) != len(ids):
        raise ValueError(f"{path}: ids must be a row of different strings")
    if not np.issubdtype(offsets.dtype, np.integer) or offsets.shape != (len(ids) + 1,):
        raise ValueError(f"{path}: offsets must be {len(ids) + 1} integers, one more than ids")
    if (
        offsets[0] != 0
        or offsets[-1] != raw.shape[1]
        or (np.diff(offsets) < 1).any()
        or not raw.shape[0]
    ):
        raise ValueError(
            f"{path}: offsets must rise from 0 to {raw.shape[1]}, with a column or more for each "
            "item"
        )
