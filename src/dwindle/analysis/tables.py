"""The tables of a report, each in the shape of one of the paper's, from one measured test set.

A table that cannot be made is a sentence that says what is missing.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dwindle.analysis.arms import Arm
from dwindle.analysis.left_out import JudgedPart, Verdict, verdicts
from dwindle.analysis.measure import LEAD, REFERENCE, REPEATED, Measured, Value
from dwindle.analysis.views import audited
from dwindle.metrics import copied, repetition
from dwindle.metrics.catalogue import kind, title
from dwindle.metrics.difference import Difference
from dwindle.metrics.kind import HALVES
from dwindle.metrics.table import NOTHING, Cell, Table, count

Made = Table | str


def results(measured: Measured) -> Table:
    """Every arm with the metrics of the results, and their bounds."""
    names = [*([LEAD] if LEAD in measured.statistics else []), *measured.arms]
    seeds = max(len(arm.runs) for arm in measured.test.arms)
    how = (
        f"Mean of {seeds} seeds, with the smallest and the largest run."
        if seeds > 1
        else "Value, with its 95 % interval (bootstrap)."
    )
    return _table("Results", measured, names, measured.main, [how], bounds=True)


def differences(measured: Measured) -> Table:
    """Every other arm minus the base, of which there is one at least."""
    base, *others = measured.arms
    metrics = [m for m in measured.main if any(measured.difference(arm, m) for arm in others)]
    rows = [
        (arm, tuple(_difference(measured.difference(arm, m)) for m in metrics)) for arm in others
    ]
    how = (
        "with 95 % intervals and two-sided p-values over items and seeds"
        if len(measured.statistics[base]) > 1
        else "with 95 % intervals (paired bootstrap) and two-sided p-values "
        "(approximate randomisation)"
    )
    notes = (f"Minus {base}, {how}; p after Holm.",)
    return Table(f"Differences to {base}", ("system", *map(title, metrics)), tuple(rows), notes)


def summary(measured: Measured) -> list[str]:
    """Sentences on what is left out and repeated, and one for each system: in what it is clearly
    better and worse than the base."""
    base, *others = measured.arms
    said = [*_left_out(measured), _repeated(measured)]
    for arm in others:
        found = {m: measured.difference(arm, m) for m in measured.main if kind(m).better}
        known = {m: d for m, d in found.items() if d and d.low is not None}
        better = [title(m, unit=False) for m, d in known.items() if d.tone == "better"]
        worse = [title(m, unit=False) for m, d in known.items() if d.tone == "worse"]
        rest = len(known) - len(better) - len(worse)
        parts = [f"better in {', '.join(better)}"] if better else []
        parts += [f"worse in {', '.join(worse)}"] if worse else []
        parts += (
            [
                f"no clear difference in {'the other ' if parts else ''}{rest} of {len(known)} "
                "metrics"
            ]
            if rest
            else []
        )
        if parts:
            said.append(f"{arm} against {base}: {'; '.join(parts)}.")
    return said


def _left_out(measured: Measured) -> list[str]:
    """A sentence on how many outputs of each system are alarmed, where they were audited."""
    told = [(arm.name, audited(arm.runs[0])) for arm in measured.test.arms]
    alone = len(told) == 1
    shown = [
        f"{'' if alone else f'{name} '}{len(one.alarmed):,} of {count(len(one.records), 'output')} "
        f"(at a false-alarm rate of {one.listeners.false_alarms:.0%})"
        for name, one in told
        if one
    ]
    return [f"Something is likely left out: {', '.join(shown)}."] if shown else []


def _repeated(measured: Measured) -> str:
    """A sentence on the share of 3-grams that each system repeats, beside the references."""
    shares = {name: measured.value(name, REPEATED) for name in [*measured.arms, REFERENCE]}
    shown = [
        f"{name} {kind(REPEATED).text(value.value)} %" for name, value in shares.items() if value
    ]
    return f"Repeated 3-grams: {', '.join(shown)}."


def like_for_like(measured: Measured) -> Made:
    """The ablation: next to each arm's scores, every setting in which it differs from the base
    (Table 9's shape)."""
    base, *others = measured.test.arms
    if not others:
        return "One system alone has nothing to be compared with."
    if not all(arm.recipe for arm in measured.test.arms):
        return (
            "Only run folders with a recipe.yaml tell their settings: these cannot be compared "
            "setting by setting."
        )
    # imported here because it brings the settings of every room, and torch
    from dwindle.runs.recipe import changes

    metrics = measured.main[:3]
    rows = [(base.name, (Cell("base"), *_cells(measured, base.name, metrics)))]
    for arm in others:
        changed = [
            change for change in changes(base.recipe, arm.recipe) if change.purpose != "asked"
        ]
        what = _SCOPES.get(
            frozenset(change.purpose for change in changed), f"{len(changed)} settings"
        )
        rows.append(
            (
                arm.name,
                (Cell(what, "; ".join(map(str, changed))), *_cells(measured, arm.name, metrics)),
            )
        )
    notes = (
        "Where more than the method changes, a difference is not the method's alone. Seeds and "
        "metrics are left out.",
    )
    return Table("Like for like", ("system", "changed", *map(title, metrics)), tuple(rows), notes)


_SCOPES: dict[frozenset[str], str] = {
    frozenset(): "nothing",
    frozenset({"attention"}): "only the rule",
    frozenset({"search"}): "only the search",
    frozenset({"attention", "search"}): "only the method",
}


def repetitions(measured: Measured) -> Table:
    """Figure 2 as numbers: repeated n-grams in percent, with the references."""
    metrics = [f"repetition{n}" for n in repetition.ORDERS]
    notes = [
        "Repeated n-grams in percent of an output's n-grams, mean over outputs. "
        "The reference repeats too: less is not always better."
    ]
    return _table("Repetition", measured, _with_reference(measured), metrics, notes)


def novelty(measured: Measured) -> Made:
    """Tables 14 and 15: n-grams that the source does not have."""
    if not measured.has("novelty1"):
        return "Novelty needs the source of every item: these outputs have none."
    metrics = [*(f"novelty{n}" for n in copied.ORDERS), "copied-share", "copied-longest"]
    over = (("novel n-grams %", len(copied.ORDERS)), ("copied spans of 3 or more", 2))
    return _table("Novelty", measured, _with_reference(measured), metrics, [], over)


def layout(measured: Measured) -> Made:
    """Table 6: overlap with the first three sentences."""
    if not measured.has("layout1"):
        return "Layout bias needs the source of every item: these outputs have none."
    notes = [
        "ROUGE F1 between an output and the first three lines of its source: lower is less biased "
        "towards the lead."
    ]
    if not any("\n" in (item.source or "") for item in measured.test.items):
        notes.append(
            "No source has a newline, so its first three sentences are all of it: this table says "
            "little here."
        )
    metrics = ["layout1", "layout2", "layoutL", "layoutL-reverse"]
    return _table("Layout bias", measured, _with_reference(measured), metrics, notes)


def coverage(measured: Measured) -> Made:
    """Table 5: entropy of coverage, repetition, and the score on short and long sources."""
    entropies = ["entropy-raw", "entropy-raw-even", "entropy-effective", "entropy-effective-even"]
    entropies = [m for m in entropies if measured.has(m)]
    first = measured.main[0]
    parts = [m for m in _lengths(first) if measured.has(m)]
    metrics = [*entropies, "repetition1", "repetition2", *parts, first]
    over = [("coverage entropy", len(entropies))] if entropies else []
    over += [
        ("repetition %", 2),
        (f"{title(first)}: by length, all" if parts else title(first), len(parts) + 1),
    ]
    notes = []
    if entropies:
        notes.append(
            "H in nats, mean over layers and items. Effective coverage is a concave map of raw "
            "coverage and is flatter by itself: compare raw with raw, effective with effective."
        )
    else:
        notes.append("No coverage.npz beside these outputs: entropy is left out.")
    if not parts:
        notes.append("Short and long halves need the source of every item.")
    return _table(
        "Coverage, repetition, length",
        measured,
        _with_reference(measured),
        metrics,
        notes,
        tuple(over),
    )


def by_length(measured: Measured) -> Made:
    """Table of whether a gain grows with the length of the source (Table 5's last columns)."""
    base, *others = measured.arms
    metrics = [
        m for m in _lengths(measured.main[0]) if any(measured.difference(arm, m) for arm in others)
    ]
    if not metrics:
        return (
            "Whether a gain grows with length is known of systems with as many runs, and with "
            "every item's source."
        )
    rows = tuple(
        (arm, tuple(_difference(measured.difference(arm, m)) for m in metrics)) for arm in others
    )
    notes = (
        "The half of the items with the shorter sources (in characters), the other half, and the "
        "gain of the second less that of the first: intervals and p as for all items.",
    )
    return Table(f"Differences to {base} by length", ("system", *map(title, metrics)), rows, notes)


def _lengths(metric: str) -> list[str]:
    return [f"{metric}/{half}" for half in HALVES]


def left_out(judgements: dict[str, list[JudgedPart]]) -> list[Table]:
    """Tables of how well coverage tells what an output has left out, where that is known: of all
    parts, of those that the reference states, and of these without the ones that the output gets
    wrong, which no coverage can tell."""
    chosen: dict[str, Callable[[JudgedPart], bool]] = {
        "Every part of the source": lambda part: True,
        "Parts that the reference states": lambda part: part.wanted,
        "Parts that the reference states, without those that the output gets wrong": (
            lambda part: part.wanted and not part.misreported
        ),
    }
    made = []
    for caption, takes in chosen.items():
        rows = []
        for arm, parts in judgements.items():
            taken = [part for part in parts if takes(part)]
            if len({part.left_out for part in taken}) == 2:
                rows += [(f"{arm}, {v.method}", _judgement(v)) for v in verdicts(taken)]
        if rows:
            columns = (
                "system, told by",
                "parts",
                "left out",
                "AUROC",
                "threshold",
                "precision",
                "recall",
            )
            made.append(Table(caption, columns, tuple(rows)))
    return made


def _judgement(v: Verdict) -> tuple[Cell, ...]:
    shown = Cell(f"{v.auroc:.3f}", f"{v.low:.3f} to {v.high:.3f}")
    rest = (Cell(f"{v.threshold:.2f}"), Cell(f"{v.precision:.2f}"), Cell(f"{v.recall:.2f}"))
    return Cell(f"{v.parts:,}"), Cell(f"{v.left_out:,}"), shown, *rest


def signatures(measured: Measured) -> Table:
    """Table of the settings that each number was computed with."""
    found: dict[str, str] = {}
    for metric in [*measured.main, *measured.metrics]:
        for name in measured.arms:
            value = measured.value(name, metric)
            if value:
                found.setdefault(metric, value.signature)
    rows = tuple((metric, (Cell(signature),)) for metric, signature in found.items())
    return Table("Signatures", ("metric", "signature"), rows)


def settings(arms: Sequence[Arm]) -> list[Table]:
    """Every setting of every recipe: those in which they differ, a column a system, and those that
    all share; none for outputs without a recipe."""
    if not any(arm.recipe for arm in arms):
        return []
    from dwindle.runs.schema import flat

    recipes = [dict(flat(arm.recipe)) for arm in arms]
    differing, shared = [], []
    for name in dict.fromkeys(name for recipe in recipes for name in recipe):
        cells = [
            NOTHING if recipe.get(name) is None else Cell(_written(recipe[name]))
            for recipe in recipes
        ]
        if len(set(cells)) > 1:
            differing.append((name, tuple(cells)))
        else:
            shared.append((name, (cells[0],)))
    one = (
        [Table("Settings that differ", ("setting", *(arm.name for arm in arms)), tuple(differing))]
        if differing
        else []
    )
    return [*one, Table("Settings that all share", ("setting", "value"), tuple(shared))]


def _written(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _with_reference(measured: Measured) -> list[str]:
    return [*([REFERENCE] if REFERENCE in measured.statistics else []), *measured.arms]


def _table(
    caption: str,
    measured: Measured,
    names: Sequence[str],
    metrics: Sequence[str],
    notes: Sequence[str],
    over: tuple[tuple[str, int], ...] = (),
    bounds: bool = False,
) -> Table:
    rows = tuple((name, tuple(_cells(measured, name, metrics, bounds))) for name in names)
    return Table(caption, ("system", *map(title, metrics)), rows, tuple(notes), over)


def _cells(
    measured: Measured, name: str, metrics: Sequence[str], bounds: bool = False
) -> list[Cell]:
    return [_cell(measured.value(name, m), m, bounds) for m in metrics]


def _cell(value: Value | None, metric: str, bounds: bool) -> Cell:
    if value is None:
        return NOTHING
    shown = kind(metric)
    return Cell(shown.text(value.value), shown.interval(value.low, value.high) if bounds else "")


def _difference(found: Difference | None) -> Cell:
    return NOTHING if found is None else found.cell
