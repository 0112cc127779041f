"""``dwindle omissions OUTPUTS --model MODEL``: what any system's outputs left out of sources."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from heapq import nlargest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from dwindle.cli import corpora, terminal
from dwindle.runfiles import names

if TYPE_CHECKING:
    from dwindle.auditing.auditor import Opened
    from dwindle.auditing.bulk import Summary
    from dwindle.auditing.listeners import Listeners
    from dwindle.runfiles.parted import Parted
    from dwindle.runfiles.run import Run

SOURCES = 1000
"""Largest number of outputs that are drawn from the files: all but 60 calibrate the alarm."""
SOUNDS = 400
"""The same of sounds, which are all held in memory."""
SHARE = 0.05
"""The share of false alarms, unless another is asked for."""
SENTENCES, LONGEST = 3, 240
"""Number of marked sentences of one output that are printed, and of characters of each."""
NAMED = 4
"""Files that are named in the last lines, at most."""
OF_SEVERAL = f"all{names.FINDINGS}.listeners.json"
"""The file of listeners for several files of outputs."""

Found = tuple[dict[str, Any], str | None]
"""A record of findings, and the text of its source."""


def omissions(
    outputs: Annotated[
        list[Path] | None,
        typer.Argument(
            help="JSONL, CSV, TSV, Parquet or a datasets folder with source (or audio) and "
            "hypothesis; a TSV of two "
            "columns needs no heading. Several, or a pattern such as 'pairs/*.jsonl', are audited "
            "together.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="An encoder-decoder that reads them: a run, a folder, a hub name.",
            show_default=False,
        ),
    ] = ...,  # type: ignore[assignment]
    src: Annotated[
        Path | None, typer.Option(help="Sources, one per line; with --hyp, instead of OUTPUTS.")
    ] = None,
    hyp: Annotated[
        Path | None, typer.Option(help="Outputs, one per line, aligned with --src.")
    ] = None,
    listeners: Annotated[
        Path | None,
        typer.Option(
            help="A file of listeners. Default: those beside the model or the findings, else new "
            "ones."
        ),
    ] = None,
    sources: Annotated[
        Path | None,
        typer.Option(
            help="Ordinary sources, one per line, from which new listeners are chosen. Default: "
            "those in OUTPUTS."
        ),
    ] = None,
    intact: Annotated[
        Path | None,
        typer.Option(
            help="A file like OUTPUTS, of outputs that leave nothing out: listeners are "
            "calibrated on them."
        ),
    ] = None,
    reverse: Annotated[
        str | None,
        typer.Option(
            help="A translator of the other direction, for a second opinion: it finds single "
            "words too."
        ),
    ] = None,
    contrast: Annotated[
        bool,
        typer.Option(
            "--contrast",
            help="Take a closer look at the most suspicious words: slower, but finds single "
            "words too.",
        ),
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair", help="Write a mended text beside each flagged output, where there is one."
        ),
    ] = False,
    false_alarms: Annotated[
        float | None,
        typer.Option(help="The share of complete outputs that may be flagged. Default: 0.05."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where findings go; a folder if there are several files. Default: "
            "OUTPUTS.omissions.jsonl, or .parquet."
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            help="Write the outputs without an alarm here, as they stand in OUTPUTS; a folder if "
            "there are several files. With --hyp it is the beginning of two names: clean for "
            "clean.en and clean.fr."
        ),
    ] = None,
    drop: Annotated[
        Path | None, typer.Option(help="Write the outputs with an alarm here, in the same way.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            help="Try it first: look at this many, drawn at random, and say how many would be "
            "flagged; no findings are written.",
            min=1,
        ),
    ] = None,
    ray: corpora.Ray = None,
    batch: Annotated[int, typer.Option(help="Pairs in one pass.", min=1)] = 16,
    top: Annotated[
        int, typer.Option(help="How many outputs to print, the worst first.", min=0)
    ] = 10,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the findings, a JSON object per line.")
    ] = False,
) -> None:
    """For each output, say how likely it is that part of the source was left out, and mark that
    part.

    The outputs may come from any system or person: MODEL only reads them. Listeners are the
    attention heads of MODEL that show what was read. If there are none yet, they are chosen from
    the sources in OUTPUTS, with deletions that MODEL makes of its own, and saved beside OUTPUTS;
    that takes a few minutes. The alarm is calibrated on OUTPUTS too. Where more than half of these
    may leave something out, name some complete ones with --intact. With --reverse, a translator of
    the other direction helps to find single words; so does --contrast, without a second model, by
    asking MODEL whether the output is likelier when a word is taken out of the source.

    To clean a corpus, try --sample 500 first, then --keep and --drop. A run that was killed
    continues when the same command is typed again.
    """
    from dwindle.models.place import place
    from dwindle.runfiles.run import Run

    runs, whole = _named(outputs, src, hyp), Run(intact) if intact else None
    for given in filter(None, (*runs, whole)):  # report wrong names before torch is imported
        next(given.each(), None)
    if sources and intact:
        raise ValueError(
            "--intact has sources of its own, so --sources would not be read: name one of the two"
        )
    ordinary = _lines(sources) if sources else None
    for name in filter(None, (model, reverse)):
        place(name)
    if listeners and not listeners.exists():
        raise ValueError(
            f"{listeners} is not there: check its name, or leave out --listeners to choose new ones"
        )
    try:
        from dwindle.auditing import bulk
        from dwindle.auditing.auditor import Auditor
    except ModuleNotFoundError as error:
        raise ValueError(
            f"this needs {error.name}: type pip install 'dwindle[omissions]'"
        ) from None
    engine = corpora.engine(ray)
    corpus = [_File.of(run, out, keep, drop, several=len(runs) > 1) for run in runs]
    path, ours = _place(model, [file.target for file in corpus], listeners)
    read = [
        path,
        *(file for run in filter(None, (*runs, whole)) for file in (*run.files, run.outputs_file)),
    ]
    read += [sources] if sources else []
    for number, file in enumerate(corpus):
        _check_target(file.target, read)
        file.parts.check(file.run, [*read, *(other.target for other in corpus[: number + 1])])
    # report unreadable files before a model is loaded
    counts = [bulk.checked(run) for run in runs]
    asked = Asked(
        whole, ordinary, reverse, contrast, SHARE if false_alarms is None else false_alarms
    )
    chosen, models = _kept(path, model, runs, asked, false_alarms, ours), None
    if chosen is None:
        count = bulk.checked(whole) if whole else sum(counts) if ordinary is None else len(ordinary)
        _check_enough(asked, whole or sources or runs[0], count)
        chosen, models = _chosen(model, runs, asked, count)
        typer.echo(_said(chosen, chosen.save(path)), err=True)
    auditor = Auditor(model, chosen, None, reverse, batch, brief=bool(keep or drop), repair=repair)
    if models and (ray is None or sample is not None):
        auditor.use(models)  # a cluster opens its own
    if sample is not None:
        with terminal.progress() as tell:
            found = bulk.look(runs, sum(counts), sample, auditor, tell)
        _tell_sample(
            found,
            sum(counts),
            chosen,
            [f for one in corpus for f in one.parts.files(one.run)],
            top,
            as_json,
        )
        return
    targets = [(file.run, file.target, count) for file, count in zip(corpus, counts, strict=True)]
    with terminal.progress() as tell:
        summary = bulk.audit(bulk.shards(targets, auditor), engine, tell)
    for file in corpus if keep or drop else ():
        file.parts.write(file.run, (record["alarm"] for record in bulk.results(file.target)))
    if as_json:
        for file in corpus:
            for record in bulk.results(file.target):
                typer.echo(json.dumps(record, ensure_ascii=False))
    else:
        _print(_findings(corpus), summary.items, chosen, top)
        _tell(summary, chosen, corpus)
    _warn(summary)


@dataclass(frozen=True)
class _File:
    """A file of outputs, that of its findings, and what is kept and dropped of it."""

    run: "Run"
    target: Path
    parts: "Parted"

    @classmethod
    def of(
        cls, run: "Run", out: Path | None, keep: Path | None, drop: Path | None, several: bool
    ) -> "_File":
        """``out``, ``keep`` and ``drop`` as they were typed: of several files, folders."""
        from dwindle.runfiles.parted import Parted
        from dwindle.runfiles.run import findings_of

        for folder in filter(None, (out, keep, drop)):
            if several and not folder.is_dir():
                raise ValueError(
                    f"there is no folder {folder}, and several files need one: create it"
                )
        beside = findings_of(run.outputs_file)
        target = beside if out is None else out / beside.name if out.is_dir() else out
        inside = [
            part / run.outputs_file.name if part and several else part for part in (keep, drop)
        ]
        return cls(run, target, Parted(*inside))


def _check_target(target: Path, read: list[Path]) -> None:
    """Refuse to write findings over what they are made from, and into no folder."""
    terminal.check_apart(target, read)
    if not target.parent.is_dir():
        raise ValueError(f"there is no folder {target.parent}: make it first")


def _named(outputs: list[Path] | None, src: Path | None, hyp: Path | None) -> "list[Run]":
    """The outputs that were named, in files or in two that are aligned."""
    from dwindle.runfiles.run import AlignedRun, Run

    if bool(outputs) == (hyp is not None) or (hyp is None) != (src is None):
        raise ValueError(
            "name files of outputs, or two aligned files with --src and --hyp: one of the two"
        )
    return [AlignedRun(hyp, (), src)] if hyp else [Run(path) for path in _inputs(outputs or [])]


def _inputs(named: list[Path]) -> list[Path]:
    """The files that were named, without what an earlier audit wrote."""
    found = [path for name in named for path in corpora.matched(name)]
    found = list(dict.fromkeys(found))
    if len(found) == 1:
        return found
    return [path for path in found if f"{names.FINDINGS}." not in path.name]


def _place(model: str, findings: list[Path], listeners: Path | None) -> tuple[Path, bool]:
    """The file of listeners: the one that was named, or one that lies beside the model, else beside
    the findings; and whether it is the last, which this command writes.

    Nothing is written into the folder of a model unless it is named.
    """
    from dwindle.auditing.listeners import FILE, kept_at
    from dwindle.runfiles.run import ears_of

    if listeners:
        return (listeners / FILE if listeners.is_dir() else listeners), False
    beside = kept_at(model)
    if Path(model).is_dir() and beside.is_file():
        return beside, False
    return (ears_of(findings[0]) if len(findings) == 1 else findings[0].with_name(OF_SEVERAL)), True


@dataclass(frozen=True)
class Asked:
    """Settings of the command line by which new listeners are chosen."""

    whole: "Run | None"
    """Outputs that leave nothing out, to calibrate on."""
    ordinary: list[str] | None
    """Sources to choose on, if not those that are audited."""
    reverse: str | None
    contrast: bool
    share: float

    def calibration(self, runs: "list[Run]") -> dict[str, str]:
        """Digest of the outputs that listeners are calibrated on, by what they are; empty if
        it is the model."""
        from dwindle.bulk.files import digest_of

        if self.whole:
            return {"intact": digest_of(self.whole)}
        return {} if self.ordinary is not None else {"alike": " ".join(map(digest_of, runs))}


def _lines(path: Path) -> list[str]:
    """The lines of a text file that have something in them; .gz too."""
    from dwindle.runfiles.text_lines import texts

    if not path.is_file():
        raise ValueError(f"{path} is not there: check its name")
    return [line for line in texts(path) if line.strip()]


def _kept(
    path: Path,
    model: str,
    runs: "list[Run]",
    asked: Asked,
    false_alarms: float | None,
    ours: bool,
) -> "Listeners | None":
    """Listeners from a file, for the share that is asked; None if they are to be chosen.

    ``ours``: the file is one that this command has written beside findings, and may write again.
    """
    from dwindle.auditing.listeners import Listeners

    if not path.is_file():
        return None
    chosen = Listeners.load(path)
    origin, wanted = chosen.origin, asked.calibration(runs)
    other = "intact" in wanted and origin.get("intact") != wanted["intact"]
    changed = "alike" in origin and origin["alike"] != wanted.get("alike")
    second = bool(asked.reverse) != bool(chosen.reverse)
    otherwise = other or changed or second or asked.ordinary or asked.contrast != chosen.contrast
    if ours and (otherwise or origin.get("model") not in (None, "", model)):
        return None
    if other:
        raise ValueError(
            f"{path} was calibrated on other outputs than {asked.whole}: move it away to choose "
            "new ones"
        )
    if second and asked.reverse:
        raise ValueError(
            f"{path} was chosen without a reverse model: move it away, or leave out --reverse"
        )
    if second:
        raise ValueError(f"{path} was chosen with a reverse model: name it with --reverse")
    if asked.contrast and not chosen.contrast:
        raise ValueError(
            f"{path} was chosen without a closer look: move it away, or leave out --contrast"
        )
    return chosen if false_alarms is None else chosen.at(false_alarms)


def _check_enough(asked: Asked, sources: "Run | Path", count: int) -> None:
    """Refuse too few sources before a model is loaded."""
    from dwindle.auditing.calibration import check_share
    from dwindle.auditing.choose import needed

    check_share(asked.share)
    if count < (least := needed(asked.share)):
        raise ValueError(
            f"{sources} has {count} lines, and choosing listeners takes at least {least} sources "
            f"for {asked.share:.0%} false alarms: name ordinary ones with --sources, or listeners "
            "with --listeners"
        )


def _chosen(model: str, runs: "list[Run]", asked: Asked, count: int) -> "tuple[Listeners, Opened]":
    """New listeners, and the models that were opened for them.

    ``count``: the number of outputs to draw from, or of sources.
    """
    from dwindle.auditing.auditor import opened
    from dwindle.auditing.bulk import drawn
    from dwindle.auditing.choose import MOST_OWN, listeners

    if asked.ordinary is not None:
        sources, outputs = asked.ordinary[:MOST_OWN], None
    else:
        some = [asked.whole] if asked.whole else runs
        is_text = next(some[0].each()).source is not None
        given = drawn(some, count, SOURCES if is_text else SOUNDS)
        sources = [source for _, source, _ in given]
        outputs = [output for _, _, output in given]
    with terminal.progress() as tell:
        models = network, tokenizer, second = opened(model, reverse=asked.reverse)
        chosen = listeners(
            network,
            tokenizer,
            sources,
            outputs,
            asked.share,
            progress=tell,
            reverse=second,
            contrast=asked.contrast,
            intact=asked.whole is not None,
        )
    return replace(chosen, origin=chosen.origin | asked.calibration(runs)), models


def _said(chosen: "Listeners", path: Path) -> str:
    of = chosen.origin
    return (
        f"dwindle: listeners were chosen on {of['chosen_on']} of {of['sources']} sources, "
        f"calibrated on {of['calibrated_on']} of {of['calibrated_with']}, and saved to {path}"
    )


def _print(found: Iterable[Found], total: int, chosen: "Listeners", top: int) -> None:
    """The outputs with the highest scores, each with its marked sentences and the heads that did
    not hear them."""
    console = terminal.console()
    worst = nlargest(
        top, found, key=lambda one: -9e9 if one[0]["score"] is None else one[0]["score"]
    )
    for record, text in worst:
        score = "no score" if record["score"] is None else f"score {record['score']:.2f}"
        console.print(Text.assemble((record["id"], "bold"), "  ", *_alarm(record), f", {score}"))
        marked = sorted(_sentences(record, text or ""), key=lambda one: -one[1]["score"])
        for sentence, span in marked[:SENTENCES]:
            _indented(console, sentence, 2)
            _indented(console, Text(_why(span, chosen), "dim"), 4)
        if len(marked) > SENTENCES:
            console.print(Text(f"  and {len(marked) - SENTENCES} more with marks", "dim"))
        if "repaired" in record:
            _indented(console, Text.assemble(("mended: ", "dim"), record["repaired"]), 2)
    if worst:
        console.print()
        shown = (
            f"The {len(worst)} highest scores of {total:,}; --top shows more or fewer. "
            if len(worst) < total
            else ""
        )
        console.print(
            Text(f"{shown}[[ ]] marks what was hardly read; heads are named layer.head.", "dim")
        )


def _indented(console: Console, text: Text, by: int) -> None:
    for line in text.wrap(console, console.width - by):
        line.rstrip()
        console.print(Text(" " * by).append_text(line), soft_wrap=True)


def _alarm(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [("alarm", "bold yellow")] if record["alarm"] else [("no alarm", "dim")]


def _sentences(record: dict[str, Any], text: str) -> Iterator[tuple[Text, dict[str, Any]]]:
    """The marked sentences of the source, each with its worst mark; of a sound, the stretches."""
    from dwindle.data.script import sentence_spans

    if not text:
        for span in record["spans"]:
            yield Text(f"[[{span['start']:.1f} to {span['end']:.1f} s]]", "yellow"), span
        return
    for start, end in sentence_spans(text):
        inside = [span for span in record["spans"] if start < span["end"] and span["start"] < end]
        if inside:
            yield _marked(text, start, end, inside), max(inside, key=lambda span: span["score"])


def _marked(text: str, start: int, end: int, spans: list[dict[str, Any]]) -> Text:
    """A sentence with its marks; of a long one, what is around the first of them."""
    if end - start > LONGEST:
        near = max(start, int(spans[0]["start"]) - LONGEST // 3)
        first, last = near, min(end, near + LONGEST)
    else:
        first, last = start, end
    made, at = Text("… " if first > start else ""), first
    for span in spans:
        a, b = max(int(span["start"]), first), min(int(span["end"]), last)
        if a < b:
            made.append(text[at:a]).append(f"[[{text[a:b]}]]", "bold yellow")
            at = b
    made.append(text[at:last] + (" …" if last < end else ""))
    return Text(" ").join(made.split()) if "\n" in made.plain else made


def _why(span: dict[str, Any], chosen: "Listeners") -> str:
    heads, unheard = [f"{layer}.{head}" for layer, head in chosen.hearing], span["unheard"]
    said = (
        f"not heard by {', '.join(unheard)} (of {', '.join(heads)})"
        if unheard
        else "heard less than usual"
    )
    if len(unheard) == len(heads):
        said = f"heard by none of the heads ({', '.join(heads)})"
    if "surprise" in span:
        said += f"; to the reverse model {span['surprise']:.0%} as surprising as without the output"
    return said


def _findings(corpus: list[_File]) -> Iterator[Found]:
    """Every record with its source text; of several files, with the file's name in its id."""
    from dwindle.auditing.bulk import results

    for file in corpus:
        prefix = f"{file.run.outputs_file.name}: " if len(corpus) > 1 else ""
        for record, item in zip(results(file.target), file.run.each(), strict=True):
            yield record | {"id": prefix + record["id"]}, item.source


def _tell(summary: "Summary", chosen: "Listeners", corpus: list[_File]) -> None:
    """Tell how many outputs are alarmed, and where everything was written."""
    console = terminal.console()
    console.print(
        f"{summary.alarmed:,} of {summary.items:,} outputs are flagged; of outputs as complete "
        f"as those used for calibration, {chosen.false_alarms:.0%} would be."
    )
    kept = [path for file in corpus for path in file.parts.kept(file.run)]
    dropped = [path for file in corpus for path in file.parts.dropped(file.run)]
    for what, files in (
        (f"{summary.items - summary.alarmed:,} kept", kept),
        (f"{summary.alarmed:,} dropped", dropped),
        ("All findings", [file.target for file in corpus]),
    ):
        if files:
            more = f" and {len(files) - NAMED} more" if len(files) > NAMED else ""
            console.print(
                Text(f"{what}: {', '.join(map(str, files[:NAMED]))}{more}"), soft_wrap=True
            )
    if summary.resumed == summary.items:
        console.print(
            "They are those of an earlier run: neither outputs nor settings have changed since."
        )


def _tell_sample(
    found: list[Found], total: int, chosen: "Listeners", files: list[Path], top: int, as_json: bool
) -> None:
    """Tell what a sample says of the whole file."""
    from dwindle.metrics.agreement import wilson

    if as_json:
        for record, _ in found:
            typer.echo(json.dumps(record, ensure_ascii=False))
        return
    _print(found, len(found), chosen, top)
    alarmed, count = sum(record["alarm"] for record, _ in found), len(found)
    low, high = wilson(alarmed / count, count) if count < total else (alarmed / count,) * 2
    console = terminal.console()
    console.print(
        f"Of {count:,} outputs drawn at random from {total:,}, {alarmed:,} are flagged: "
        f"{alarmed / count:.1%} "
        f"(95% interval {low:.1%} to {high:.1%}). In the whole file that is about "
        f"{alarmed / count * total:,.0f} ({low * total:,.0f} to {high * total:,.0f})."
    )
    unwritten = ", ".join(map(str, files)) or "findings"
    console.print(
        Text(f"This was a trial: without --sample, all are audited and {unwritten} written.")
    )


def _warn(summary: "Summary") -> None:
    if summary.unread:
        typer.echo(
            f"dwindle: sources longer than the model reads: {summary.unread}; their ends count as "
            "unread, not as left out",
            err=True,
        )
    if summary.items >= 10 and summary.alarmed > summary.items / 2:
        typer.echo(
            "dwindle: more than half of the outputs are flagged: are they in the language that "
            "the model writes, and do they belong to these sources?",
            err=True,
        )
