"""The arena: several recipes, several seeds, one table. All arms continue one checkpoint with equal
budgets, data and decoding, so that a difference comes from the method and not from its
surroundings.

The statistics are those of `dwindle.metrics.seeds`. Knows nothing of models.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from dwindle.metrics import catalogue, seeds, significance, text_tables
from dwindle.metrics.difference import Difference
from dwindle.metrics.score import Metric, Statistics
from dwindle.metrics.table import Cell, Table
from dwindle.runfiles import names, whole
from dwindle.runs import recipe, steps
from dwindle.runs.job import Job
from dwindle.runs.recipe import Change, Recipe
from dwindle.runs.steps import Say
from dwindle.system import machine


@dataclass(frozen=True)
class Arena:
    """Arms by their short names, the seeds of each, and the arm that others are compared with."""

    arms: dict[str, Recipe]
    seeds: tuple[int, ...]
    base: str

    @property
    def others(self) -> list[str]:
        return [arm for arm in self.arms if arm != self.base]


def arena(
    recipes: Sequence[Recipe], count: int, base: str | None = None, unequal: bool = False
) -> Arena:
    """Check that recipes can be compared. The default base is the arm ``plain``, or the first."""
    if count < 1:
        raise ValueError(f"{count} seeds are too few: give 1 or more")
    arms = dict(zip(_short([r.name for r in recipes]), recipes, strict=True))
    if len(arms) < 2:
        raise ValueError("an arena needs two different recipes or more: name them")
    short = {r.name: arm for arm, r in arms.items()}
    base = short.get(base or "", base) or ("plain" if "plain" in arms else next(iter(arms)))
    if base not in arms:
        raise ValueError(f"no arm is called {base!r}: choose the base from {', '.join(arms)}")
    if not unequal:
        _check_equal(arms, base)
    _check_metrics(arms, base)
    return Arena(arms, tuple(arms[base].seed + k for k in range(count)), base)


def fight(plan: Arena, out: Path, say: Say = lambda sentence: None) -> dict[str, Any]:
    """Run every arm with every seed in ``out``, or go on there; write and return the comparison."""
    runs = {arm: [] for arm in plan.arms}  # type: dict[str, list[Job]]
    for seed in plan.seeds:
        for arm, wanted in plan.arms.items():
            runs[arm].append(_one(plan, arm, replace(wanted, seed=seed), out, runs, say))
    if not machine.is_first():
        return {}
    say(f"{out}: comparing")
    result = _compared(
        plan, {arm: [steps.statistics(run) for run in row] for arm, row in runs.items()}
    )
    whole.write_json(out / names.ARENA, result)
    whole.write_text(out / names.ARENA_PAGE, markdown(result))
    return result


def begin(plan: Arena, out: Path, say: Say = lambda sentence: None) -> None:
    """Train the start that the arms have in common."""
    if common := plan.arms[plan.base].start:
        with steps.prepared(common, out / names.START, None, say) as begun:
            steps.train(begun, say)


def fight_alone(
    plan: Arena, arm: str, seed: int, out: Path, say: Say = lambda sentence: None
) -> None:
    """Run one arm with one seed, for whoever runs several at a time; `fight` then finds them done.
    They must `begin` first, for two arms cannot train their start at once."""
    _one(plan, arm, replace(plan.arms[arm], seed=seed), out, {}, say)


def _one(
    plan: Arena, arm: str, wanted: Recipe, out: Path, runs: dict[str, list[Job]], say: Say
) -> Job:
    """One arm with one seed: trained, or with the model of an arm that was trained alike; then
    decoded and scored."""
    folder = out / arm / f"seed-{wanted.seed}"
    shared = wanted.start == plan.arms[plan.base].start
    start = (out / names.START if shared else out / arm / names.START) if wanted.start else None
    if wanted.start and not shared:
        _begin_alone(plan, wanted.start, out / arm / names.START, out, say)
    with steps.prepared(wanted, folder, start, say) as run:
        for row in runs.values():
            if row and row[-1].recipe.seed == wanted.seed:
                steps.borrow(run, row[-1])
        steps.train(run, say)
        steps.generate(run, say)
        steps.score_outputs(run, say)
    return run


def _begin_alone(plan: Arena, own: Recipe, folder: Path, out: Path, say: Say) -> None:
    """Train the start that an arm has for itself, from the checkpoint that the base's start began
    with if it can."""
    common = plan.arms[plan.base].start
    before = (
        out / names.START / names.START
        if common and own.start and own.start == common.start
        else None
    )
    with steps.prepared(own, folder, before, say) as begun:
        steps.train(begun, say)


def _compared(plan: Arena, found: dict[str, list[Statistics]]) -> dict[str, Any]:
    """The record that arena.json keeps."""
    metrics = steps.metrics(plan.arms[plan.base])
    others = plan.others
    table = seeds.differences(found[plan.base], [found[arm] for arm in others], metrics)
    rows = [
        {
            "arm": arm,
            "seed": seed,
            **{key: s.record[key] for key in ("metric", "value", "low", "high")},
        }
        for arm, row in found.items()
        for seed, statistics in zip(plan.seeds, row, strict=True)
        for s in significance.intervals(statistics, metrics)
    ]
    return {
        "base": plan.base,
        "arms": list(plan.arms),
        "recipes": {arm: wanted.name for arm, wanted in plan.arms.items()},
        "seeds": list(plan.seeds),
        "items": len(found[plan.base][0].system),
        "metrics": [metric.name for metric in metrics],
        "signatures": {metric.name: str(metric.signature) for metric in metrics},
        "means": [_mean(arm, row, metric) for arm, row in found.items() for metric in metrics],
        "rows": rows,
        "differences": [
            {"arm": arm, **asdict(d), "seeds": list(d.seeds)}
            for arm, row in zip(others, table, strict=True)
            for d in row
        ],
    }


def _mean(arm: str, row: list[Statistics], metric: Metric) -> dict[str, Any]:
    """The value over all seeds, and how far the seeds are apart."""
    values = [statistics.value(metric) for statistics in row]
    return {
        "arm": arm,
        "metric": metric.name,
        "value": seeds.average(row).value(metric),
        "lowest": min(values),
        "highest": max(values),
    }


def _short(recipes: Sequence[str]) -> list[str]:
    """Names of arms that are names of folders: without the part that all have in common."""
    parts = [name.split("/") for name in recipes]
    common = 0
    while all(len(p) > common + 1 for p in parts) and len({p[common] for p in parts}) == 1:
        common += 1
    short = ["-".join(p[common:]) for p in parts]
    twice = next((name for name in short if short.count(name) > 1), None)
    if twice:
        raise ValueError(f"two arms are called {twice!r}: give every recipe its own name")
    if {names.START, ""} & set(short):
        raise ValueError(
            "an arm may not be called start: the folder of that name holds the common checkpoint"
        )
    return short


def _check_equal(arms: dict[str, Recipe], base: str) -> None:
    """Refuse arms whose surroundings differ from those of the base, and arms that differ from it in
    two ways at once.

    A method may be in the start already: its arm was then trained with it from the same checkpoint.
    """
    for arm, wanted in arms.items():
        changed = recipe.changes(arms[base], wanted)
        others = [change for change in changed if change.purpose == "setting"]
        if others:
            raise ValueError(
                f"{base} and {arm} differ in more than the method: {_listed(others)}; "
                "make them equal, or pass --unequal"
            )
        if {"attention", "search"} <= {change.purpose for change in changed}:
            raise ValueError(
                f"{base} and {arm} differ in attention and in search: {_listed(changed)}; "
                "compare one at a time, or pass --unequal"
            )


def _listed(changed: Sequence[Change]) -> str:
    """The first three of them, and how many more there are."""
    shown = ", ".join(
        f"{change.key} ({change.before!r}, {change.after!r})" for change in changed[:3]
    )
    return f"{shown} and {len(changed) - 3} more" if len(changed) > 3 else shown


def _check_metrics(arms: dict[str, Recipe], base: str) -> None:
    """Even unequal arms are measured alike, on the same items."""
    for arm, wanted in arms.items():
        if wanted.metrics != arms[base].metrics:
            raise ValueError(
                f"{base} and {arm} have different metrics: give all the same, such as "
                "metrics=[rouge]"
            )


def extent(result: dict[str, Any]) -> str:
    """The extent of a comparison, in words."""
    seeds = len(result["seeds"])
    return f"{seeds} seed{'s' if seeds > 1 else ''}, {result['items']:,} test items"


def tested(result: dict[str, Any]) -> str:
    """The test by which its p-values were computed."""
    return (
        "over items and seeds"
        if len(result["seeds"]) > 1
        else "by approximate randomisation of items"
    )


def markdown(result: dict[str, Any]) -> str:
    """The comparison as a page to read."""
    lines = [
        f"# {', '.join(result['arms'])}",
        "",
        f"{extent(result)}. Differences are to **{result['base']}**, "
        f"with 95 % intervals; p is two-sided, {tested(result)}, corrected across arms (Holm).",
        "",
        *text_tables.markdown_lines(table(result)),
    ]
    lines += [
        "Signatures:",
        "",
        *(f"- `{signature}`" for signature in result["signatures"].values()),
        "",
    ]
    return "\n".join(lines)


def table(result: dict[str, Any]) -> Table:
    """A row for each arm and metric: value, range of the seeds, difference to the base, p."""
    records = [
        {key: value for key, value in d.items() if key != "arm"} for d in result["differences"]
    ]
    tested = {
        (d["metric"], d["arm"]): Difference(**r)
        for d, r in zip(result["differences"], records, strict=True)
    }
    means = {(m["metric"], m["arm"]): m for m in result["means"]}
    rows = []
    for metric in result["metrics"]:
        for arm in result["arms"]:
            m, d = means[metric, arm], tested.get((metric, arm))
            shown = catalogue.kind(metric)
            seeds = shown.interval(m["lowest"], m["highest"]) if len(result["seeds"]) > 1 else ""
            versus = (
                (Cell(d.text, d.interval, d.tone), Cell(f"{d.p_holm:.3f}"))
                if d
                else (Cell(), Cell())
            )
            rows.append(
                (
                    metric,
                    (Cell(arm), Cell(shown.text(m["value"])), Cell(seeds, tone="quiet"), *versus),
                )
            )
    columns = (
        "metric",
        "arm",
        "value",
        "lowest and highest seed",
        f"difference to {result['base']}",
        "p",
    )
    return Table("", columns, tuple(rows))
