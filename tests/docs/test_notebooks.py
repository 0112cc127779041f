"""The notebooks: every cell runs, in order, with tiny models in place of the hub's; the notebooks
themselves are kept without outputs."""

import json
import runpy

import pytest

from dwindle.auditing import choose
from tests.docs import pages
from tests.docs.test_pages import SHORT as STEPS
from tests.docs.test_pages import hub

__all__ = ["hub"]

pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained with")
SHORT = STEPS | {"max_steps=20,": "max_steps=2, report_to='none', use_cpu=True,"}
NOTEBOOKS = sorted((pages.HOME / "docs/notebooks").glob("*.ipynb"))


SCRIPT = runpy.run_path(str(pages.HOME / "docs/notebooks/outputs.py"))


def cells(file):
    return json.loads(file.read_text(encoding="utf-8"))["cells"]


def test_there_are_three():
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_outputs_are_cleared(file):
    code = [cell for cell in cells(file) if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_what_the_site_shows_was_made_by_these_cells(file):
    """Whoever changes a cell runs ``docs/notebooks/outputs.py`` again."""
    kept = json.loads(file.with_suffix(".outputs.json").read_text(encoding="utf-8"))
    assert [one["code"] for one in kept] == SCRIPT["code_cells"](file)
    assert any(one["html"] for one in kept)
    assert any(one["figures"] for one in kept)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_every_cell_runs(file, hub, monkeypatch):
    # a model that was never trained tells nothing, and would be refused
    monkeypatch.setattr(choose, "TELLS", 0.0)
    codes = SCRIPT["code_cells"](file)
    for name, short in SHORT.items():
        codes = [code.replace(name, short) for code in codes]
    with SCRIPT["laid_out"](hub):
        shown = list(SCRIPT["executed"](codes))
    assert [one["code"] for one in shown] == codes
    assert any("<" in one["html"] for one in shown)
    assert any(one["figures"] for one in shown)
