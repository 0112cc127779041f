"""The heat map: drawn from numbers and labels, whatever their shape."""

import numpy as np
import pytest

from dwindle.report.heatmap import draw


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (4, 30)])
def test_a_heat_map_is_drawn(tmp_path, rows, columns):
    rng = np.random.default_rng(0)
    panel = rng.dirichlet(np.ones(columns), size=rows)
    path = tmp_path / "new" / "map.png"
    source, target = [f"s{i} $<" for i in range(columns)], [f"t{i}_^" for i in range(rows)]
    draw(source, target, {"plain": panel, "used": panel / 2}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
