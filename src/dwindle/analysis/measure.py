"""Every number of a report: each run of a test set is reduced once, and all tables read from that.

A value is the mean over the runs of an arm. Its bounds are the bootstrap's 95 % for an arm of one
run, and the smallest and largest run for an arm of several seeds; the two are never mixed up, for a
value says how many runs it is of. Differences are tested in pairs of items, and over seeds as an
arena tests them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dwindle.analysis.arms import Arm, Task, TestSet, script, task_of
from dwindle.metrics import (
    bleu,
    catalogue,
    chrf,
    copied,
    entropy,
    halves,
    layout,
    length,
    repetition,
    rouge,
    score,
    seeds,
    significance,
    world,
)
from dwindle.metrics.difference import Difference
from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Array, Metric, Statistics
from dwindle.runfiles.outputs import Outputs

RESAMPLES, SEED = significance.RESAMPLES, significance.SEED
REFERENCE, LEAD = "reference", "LEAD-3"
REPEATED = "repetition3"
"""Repetition is a result: this is in the results table if no other measure of it is."""

Progress = Callable[[str, int, int], None]
"""Called with what is measured, how many items are done, and how many there are."""


@dataclass(frozen=True)
class Value:
    """A number with its bounds. ``runs`` is 1 for a bootstrap interval, else how many seeds it is
    the mean of."""

    value: float
    low: float
    high: float
    runs: int
    signature: str


class Measured:
    """One test set and its numbers."""

    def __init__(self, test: TestSet, main: list[str], task: Task = "text") -> None:
        self.test = test
        self.task = task
        self.main = main
        """The metrics of the results table, by name."""
        self.metrics: dict[str, Metric] = {}
        self.statistics: dict[str, list[Statistics]] = {}
        """For each arm, and for ``reference`` and ``LEAD-3`` if there are any, each run's rows."""
        self.halved: dict[str, list[Statistics]] = {}
        """The same by length of the source, where every item has one."""
        self.notes: list[str] = []
        self._values: dict[tuple[str, str], Value] = {}
        self._differences: dict[tuple[str, str], Difference] = {}

    @property
    def arms(self) -> list[str]:
        return [arm.name for arm in self.test.arms]

    def value(self, arm: str, metric: str) -> Value | None:
        return self._values.get((arm, metric))

    def interval(self, arm: str, metric: str) -> tuple[float, float]:
        """The 95 % interval of an arm's value, over items and, where it has several, over seeds."""
        (found,) = seeds.intervals(self.statistics[arm], [self.metrics[metric]], RESAMPLES, SEED)
        return found

    def difference(self, arm: str, metric: str) -> Difference | None:
        return self._differences.get((arm, metric))

    def has(self, *names: str) -> bool:
        """True if any system has a value of each of these metrics."""
        return all(any(metric == name for _, metric in self._values) for name in names)

    def per_item(self, arm: str, metric: str) -> Array:
        """The value of each item (N,), of the arm's first run."""
        return self.statistics[arm][0].values(self.metrics[metric])


def measure(
    test: TestSet,
    names: Sequence[str] | None = None,
    lead3: bool = False,
    workers: int = 1,
    progress: Progress = lambda name, done, total: None,
    task: Task | None = None,
) -> Measured:
    """Reduce every run of ``test``, with intervals and paired tests.

    Args:
        names: the metrics of the results table; None takes those of the recipe, or else what is
            usual for the task.
        lead3: also measure LEAD-3.
        task: of the outputs; None tells it from their texts.
    """
    task = task or task_of(test.items)
    main = _main(test, names, task)
    measured = Measured(test, [metric.name for metric in main], task)
    metrics = _unique([*main, *_allowed(test, task)])
    for name, systems in _systems(test, lead3).items():
        without = [m for m in metrics if m.reduction.needs - score.WRITTEN <= {"source"}]
        usable = without if name == REFERENCE else metrics
        advance = _counting(
            f"measuring {name}", score.passes(usable) * sum(map(len, systems)), progress
        )
        measured.statistics[name] = [
            _reduced(system, usable, workers, measured, advance) for system in systems
        ]
        _bound(measured, name)
    _compare(measured)
    for arm in test.arms:
        _stored(measured, arm)
    if not any(catalogue.kind(name) in repetition.KINDS for name in measured.main):
        measured.main.append(REPEATED)
    return measured


def _counting(what: str, total: int, progress: Progress) -> Callable[[int], None]:
    """A function that takes the number of items just finished and tells ``progress`` the total."""
    finished = 0

    def advance(done: int) -> None:
        nonlocal finished
        finished += done
        progress(what, finished, max(total, finished))

    return advance


def _main(test: TestSet, names: Sequence[str] | None, task: Task) -> list[Metric]:
    """The metrics of the results table. What is slow is read from scores.json, and entropy, which
    not every run has a file for, has its own table."""
    slow = next((name for name in names or [] if name.partition(":")[0] in _SLOW), None)
    if slow:
        raise ValueError(
            f"{slow} takes long and is not made again for a report: "
            f"add it to a run's scores with 'dwindle score RUN --metrics {slow}', and the report "
            "shows it"
        )
    asked = list(names or test.arms[0].recipe.get("metrics") or [])
    asked = [name for name in asked if name.partition(":")[0] not in _SLOW]
    found = [m for m in catalogue.find(asked) if not _is_of_file(m)] if asked else []
    usual = [m for m in _allowed(test, task) if m.kind in (*_SCORES[task], *world.KINDS)]
    return found or usual or catalogue.find(["repetition", "length"])


def is_score(name: str) -> bool:
    """True if a metric of the results says how good outputs are, and not only how long or how
    repetitive."""
    return catalogue.kind(name) not in (
        *repetition.KINDS,
        *catalogue.GROUPS["length"].kinds,
    )


_SCORES: dict[Task, tuple[Kind, ...]] = {
    "translation": (bleu.KIND, chrf.KIND, length.RATIO, length.SOURCE),
    "text": rouge.KINDS,
}
"""Metrics that come first in the results of a task."""
_OTHERS: dict[Task, tuple[Kind, ...]] = {
    "translation": (*rouge.KINDS, *copied.NOVELTY, *layout.KINDS),
    "text": (),
}
"""Default metrics that say nothing of a task: nearly all words of a translation are new."""


_SLOW = {name for name, group in catalogue.GROUPS.items() if any(kind.slow for kind in group.kinds)}
_SLOW |= {kind.name for name in _SLOW for kind in catalogue.GROUPS[name].kinds}


def _allowed(test: TestSet, task: Task) -> list[Metric]:
    """The default metrics of these items and of their task."""
    systems = [run.outputs for arm in test.arms for run in arm.runs]
    usual = [
        m
        for m in catalogue.defaults(*systems)
        if not _is_of_file(m) and m.kind not in _OTHERS[task]
    ]
    if task != "translation":
        return usual
    if all("references" in system.has for system in systems):
        return [*catalogue.find([_bleu(test), "chrf", "length:ratio"]), *usual]
    sourced = all("source" in system.has for system in systems)
    return [*(catalogue.find(["length:source"]) if sourced else []), *usual]


def _bleu(test: TestSet) -> str:
    """BLEU with the tokens of sacrebleu that suit the script of the outputs."""
    chinese = script("".join(item.hypothesis for item in test.items[:50])) == "CJK"
    return "bleu:zh" if chinese else "bleu"


def _unique(metrics: list[Metric]) -> list[Metric]:
    return list({metric.name: metric for metric in metrics}.values())


def _is_of_file(metric: Metric) -> bool:
    """Entropy reads the coverage file of a run."""
    return metric.kind in entropy.KINDS


def _systems(test: TestSet, lead3: bool) -> dict[str, list[Outputs]]:
    """Every run's outputs by arm, then the references and LEAD-3 as systems of their own."""
    systems = {arm.name: [run.outputs for run in arm.runs] for arm in test.arms}
    first = test.arms[0].runs[0].outputs
    if all(item.references for item in first.items):
        items = tuple(replace(item, hypothesis=item.references[0]) for item in first.items)
        systems[REFERENCE] = [Outputs(REFERENCE, items)]
    if lead3:
        systems[LEAD] = [layout.lead3(first)]
    return systems


def _reduced(
    system: Outputs,
    metrics: list[Metric],
    workers: int,
    measured: Measured,
    progress: Callable[[int], None],
) -> Statistics:
    """The statistics of one run, with those of its coverage file if it has a good one."""
    entropies: list[Metric] = []
    if "coverage" in system.has:
        entropies = catalogue.find(["entropy"])
    try:
        statistics = score.reduce(system, [*metrics, *entropies], workers, progress)
    except ValueError as error:
        if not entropies:
            raise
        measured.notes.append(str(error))
        entropies = []
        statistics = score.reduce(system, metrics, workers, progress)
    measured.metrics.update({m.name: m for m in [*metrics, *entropies]})
    return statistics


def _bound(measured: Measured, name: str) -> None:
    """Values with their bounds, of all items and of the halves by source length."""
    runs = measured.statistics[name]
    metrics = [m for m in measured.metrics.values() if all(_holds(run, m) for run in runs)]
    _keep(measured, name, runs, metrics)
    if any(item.source is None for item in measured.test.items) or len(measured.test.items) < 2:
        return
    measured.halved[name] = [halves.halved(run) for run in runs]
    wanted = halves.metrics([m for m in metrics if m.name in measured.main])
    _keep(measured, name, measured.halved[name], wanted)


def _holds(statistics: Statistics, metric: Metric) -> bool:
    try:
        statistics.of(metric)
    except KeyError:
        return False
    return True


def _keep(measured: Measured, name: str, runs: list[Statistics], metrics: list[Metric]) -> None:
    if not metrics:
        return
    bounds = significance.intervals(runs[0], metrics, RESAMPLES, SEED) if len(runs) == 1 else None
    for k, metric in enumerate(metrics):
        if bounds:
            one = bounds[k]
            assert one.low is not None
            assert one.high is not None
            value = Value(one.value, one.low, one.high, 1, str(one.signature))
        else:
            values = [run.value(metric) for run in runs]
            value = Value(
                seeds.average(runs).value(metric),
                min(values),
                max(values),
                len(runs),
                str(metric.signature),
            )
        measured._values[name, metric.name] = value


def _compare(measured: Measured) -> None:
    """Differences to the base, all of them tested whose arms have as many runs; those of the
    results by length too."""
    base, *others = measured.arms
    alike = [
        name for name in others if len(measured.statistics[name]) == len(measured.statistics[base])
    ]
    _test(measured, measured.statistics, alike, list(measured.metrics.values()))
    if measured.halved:
        main = [metric for name, metric in measured.metrics.items() if name in measured.main]
        _test(measured, measured.halved, alike, halves.metrics(main))
    for name in others:
        for metric_name in measured.metrics:
            mine, theirs = measured.value(name, metric_name), measured.value(base, metric_name)
            if mine and theirs:
                untested = Difference(metric_name, mine.value - theirs.value)
                measured._differences.setdefault((name, metric_name), untested)


def _test(
    measured: Measured,
    statistics: dict[str, list[Statistics]],
    others: list[str],
    metrics: list[Metric],
) -> None:
    """Keep how each of the others differs from the base."""
    base, *rest = (statistics[name] for name in (measured.arms[0], *others))
    held = [m for m in metrics if all(_holds(run, m) for row in (base, *rest) for run in row)]
    for name, row in zip(others, _tested(base, rest, held), strict=True):
        for metric, difference in zip(held, row, strict=True):
            measured._differences[name, metric.name] = difference


def _tested(
    base: list[Statistics], others: list[list[Statistics]], metrics: list[Metric]
) -> list[list[Difference]]:
    """The tests of an arena."""
    return (
        seeds.differences(base, others, metrics, RESAMPLES, SEED)
        if others and metrics
        else [[] for _ in others]
    )


_FILED = {kind.name for kind in entropy.KINDS}


def _stored(measured: Measured, arm: Arm) -> None:
    """Scores of the run folders that were not made here, such as MoverScore."""
    for metric in dict.fromkeys(row["metric"] for row in arm.runs[0].scores.records):
        rows = [row for run in arm.runs for row in run.scores.records if row["metric"] == metric]
        if measured.value(arm.name, metric) or len(rows) < len(arm.runs) or metric in _FILED:
            continue
        values = [float(row["value"]) for row in rows]
        low, high = min(values), max(values)
        if len(rows) == 1:
            low, high = rows[0]["low"], rows[0]["high"]
        value = Value(float(np.mean(values)), low, high, len(rows), rows[0]["signature"])
        measured._values[arm.name, metric] = value
        if metric not in measured.main:
            measured.main.append(metric)
