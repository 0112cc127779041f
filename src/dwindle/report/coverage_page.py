"""One text and what a model used of it: the coverage view as a page of its own."""

from collections.abc import Sequence

from dwindle import __version__
from dwindle.analysis.left_out import THRESHOLD
from dwindle.analysis.views import from_trace
from dwindle.report import page
from dwindle.report.sections import LIMITS, Section
from dwindle.runfiles.arrays import Trace


def html(found: dict[str, Trace], first: Sequence[Section] = ()) -> str:
    """The page for traces of one source, by their models' names; ``first`` come at the top."""
    one = next(iter(found.values()))
    item = {
        "id": one.id,
        "source": one.text,
        "views": [from_trace(trace) for trace in found.values()],
    }
    data = {"systems": list(found), "items": [item], "threshold": THRESHOLD}
    section = Section("coverage", "What was read", LIMITS, view="coverage", data=data)
    return page.render(
        "coverage.html", title=", ".join(found), parts=[*first, section], version=__version__
    )
