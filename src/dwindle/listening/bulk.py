"""Whole files: pairs from a JSONL file in, one finding a line out, going on after a kill.

A line of input has an ``id``, a ``hypothesis``, and a ``source`` (text) or an ``audio`` (a WAV file, from the folder of
the input). Results grow in a hidden file beside the output, named after a fingerprint of all that makes them; when it
is complete it takes the output's name, and the listeners lie beside it.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dwindle.listening.audit import AHEAD, Pair, omissions
from dwindle.listening.listeners import Finding, Listeners
from dwindle.listening.sound import read_wave

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def findings_of(outputs: Path) -> Path:
    """Where the findings of a file of outputs go, unless it is said otherwise."""
    return outputs.with_suffix(".omissions.jsonl")


def ears_of(findings: Path) -> Path:
    """Where the listeners that made a file of findings are kept: a reader wants their error rate."""
    return findings.with_suffix(".listeners.json")


@dataclass(frozen=True)
class Summary:
    """Of a file of outputs."""

    items: int
    alarmed: int
    unread: int
    """Items whose source was longer than the model reads."""
    resumed: int
    """Items that an earlier run had done."""


def audit(
    path: Path, out: Path, model: "PreTrainedModel", tokenizer: Any, listeners: Listeners, batch: int = 16
) -> Summary:
    """Write what every output of ``path`` left out to ``out``, a line each, in their order."""
    half_done = out.with_name(f".{out.name}.{_fingerprint(path, listeners)}")
    done = _whole_blocks(half_done, AHEAD * batch)
    rest = islice(items(path), done, None)
    ids: list[str] = []  # of pairs on their way through the model: its batches run ahead

    def pairs() -> Iterator[Pair]:
        for id, source, output in rest:
            ids.append(id)
            yield source, output

    with half_done.open("a", buffering=1, encoding="utf-8", newline="\n") as file:  # a kill loses no whole line
        for found in omissions(model, tokenizer, pairs(), listeners, batch):
            record = record_of(ids.pop(0), found, listeners.unit)
            file.write(json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n")
        file.flush()
        os.fsync(file.fileno())
    replace(listeners, origin=listeners.origin | {"outputs": digest(path)}).save(ears_of(out))
    half_done.replace(out)
    items_done = alarmed = unread = 0
    for record in results(out):
        items_done, alarmed, unread = items_done + 1, alarmed + record["alarm"], unread + ("unread" in record)
    return Summary(items_done, alarmed, unread, done)


def record_of(id: str, found: Finding, unit: str) -> dict[str, Any]:
    """A finding as JSON: ``chars`` has the score of each character of the source, ``seconds`` that of each second."""
    cells = [None if cell is None else round(cell, 4) for cell in found.cells]
    spans = [{k: v if k == "text" else round(v, 4) for k, v in asdict(span).items()} for span in found.spans]
    score = None if found.score is None else round(found.score, 4)
    record: dict[str, Any] = {"id": id, "score": score, "alarm": found.alarm, "spans": spans}
    record["chars" if unit == "characters" else "seconds"] = cells
    return record | ({"unread": {"start": found.read, "end": found.length}} if found.read < found.length else {})


def items(path: Path) -> Iterator[tuple[str, Any, str]]:
    """(id, source, hypothesis) of each line; a sound is read from its file only now."""
    seen: set[str] = set()
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            where = f"{path}, line {number}"
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{where} is not JSON ({error.msg}): write one JSON object a line") from None
            id, source, output = _fields(record, where)
            if id in seen:
                raise ValueError(f"{where} has the id {id!r} of an earlier line: ids must differ")
            seen.add(id)
            yield id, source if "source" in record else read_wave(path.parent / source), output


def results(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a file of findings."""
    with path.open(encoding="utf-8") as file:
        yield from map(json.loads, file)


def _fields(record: Any, where: str) -> tuple[str, str, str]:
    if not isinstance(record, dict) or "id" not in record:
        raise ValueError(f'{where} has no id: write a JSON object with "id", "source" and "hypothesis"')
    source, output = record.get("source", record.get("audio")), record.get("hypothesis")
    if not isinstance(source, str) or not isinstance(output, str):
        raise ValueError(f'{where}: "source" (or "audio") and "hypothesis" must be strings; write "" for no output')
    return str(record["id"]), source, output


def digest(path: Path) -> str:
    """Of a file's content: tells whether findings are of the outputs that are there."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fingerprint(path: Path, listeners: Listeners) -> str:
    made_by = json.dumps([asdict(listeners), digest(path)], sort_keys=True)
    return hashlib.sha256(made_by.encode()).hexdigest()[:16]


def _whole_blocks(path: Path, block: int) -> int:
    """How many lines a killed run has left in whole blocks; the rest is cut off.

    Pairs of a block share batches: done again from its start, every line comes out as it would have.
    """
    if not path.exists():
        return 0
    end = kept = at = count = 0
    with path.open("rb+") as file:
        for line in file:
            if not line.endswith(b"\n"):
                break
            at, count = at + len(line), count + 1
            if count % block == 0:
                end, kept = at, count
        file.truncate(end)
    return kept
