"""Reads what ``dwindle omissions`` found in the outputs of a run from the files beside them.

Runs no model.
"""

from dataclasses import dataclass
from typing import Any

from dwindle.auditing.bulk import digest, ears_of, findings_of, results
from dwindle.auditing.listeners import Listeners
from dwindle.runfiles.run import Run


@dataclass(frozen=True)
class Audited:
    """The findings of one file of outputs, by item, and the listeners that made them."""

    records: dict[str, dict[str, Any]]
    listeners: Listeners

    @property
    def alarmed(self) -> list[dict[str, Any]]:
        """Items with an alarm, the worst first."""
        return sorted((r for r in self.records.values() if r["alarm"]), key=lambda r: -r["score"])


def audited(run: Run) -> Audited | None:
    """The findings in a run's outputs; None if they were not audited, or have changed since."""
    file = findings_of(run.outputs_file)
    if not file.is_file() or not ears_of(file).is_file():
        return None
    listeners = Listeners.load(ears_of(file))
    if listeners.unit != "characters" or listeners.origin.get("outputs") != digest(run):
        return None
    return Audited({record["id"]: record for record in results(file)}, listeners)
