"""``Desk``: tasks that wait, and one thread that writes them, one after another, to be watched and stopped.

A task is one text and the answers that were asked for; an answer is the output of one model with one rule. Knows no
page: whoever wants to see a task asks for its data, or waits until something has changed.
"""

import sys
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dwindle.analysis.examples import stretches
from dwindle.analysis.highlight import SourceText
from dwindle.analysis.left_out import THRESHOLD
from dwindle.analysis.views import from_trace
from dwindle.folder.outputs import Item
from dwindle.folder.traces import Trace
from dwindle.generation.author import Author
from dwindle.generation.settings import DecodingSettings
from dwindle.metrics.numbers import count
from dwindle.metrics.repetition import Repetition
from dwindle.studio.marked import Marked, marked

State = Literal["waiting", "writing", "done", "stopped", "failed"]
MOST_WAITING = 20
MOST_KEPT = 30
"""Tasks that can still be looked at."""
_TITLE = 60


@dataclass
class Answer:
    """What one model with one rule writes. ``rule`` None is the rule it was saved with."""

    name: str
    author: Author
    rule: str | None = None
    layers: int | None = None
    state: State = "waiting"
    notes: list[str] = field(default_factory=list)
    trace: Trace | None = None
    marked: Marked | None = None
    seconds: float = 0.0

    def data(self) -> dict[str, Any]:
        made = {"name": self.name, "state": self.state, "notes": self.notes, "view": None, "figures": []}
        if self.trace is None:
            return made
        view = from_trace(self.trace) | {"marked": self.marked.spans if self.marked else []}
        return made | {"view": view, "figures": self._figures(view)}

    def _figures(self, view: dict[str, Any]) -> list[str]:
        """What can be said of it in numbers."""
        text = self.text
        repeated = Repetition().row(Item("", text))[8]
        shares = [share for _, _, share in view["parts"] if share is not None]
        low = sum(share <= THRESHOLD for share in shares)
        return [
            count(len(text.split()), "word"),
            f"{repeated:.0f} % of its 3-grams repeated",
            f"{low} of {len(shares)} {view['unit']} hardly used",
            f"{self.seconds:.1f} s",
        ]

    @property
    def text(self) -> str:
        return "".join(self.trace.output) if self.trace else ""


@dataclass
class Task:
    """One text, and the answers to it."""

    number: int
    text: str
    settings: DecodingSettings | None
    answers: list[Answer]
    state: State = "waiting"
    stopping: threading.Event = field(default_factory=threading.Event)

    def summary(self) -> dict[str, Any]:
        title = " ".join(self.text.split())
        short = title if len(title) <= _TITLE else f"{title[:_TITLE].rstrip()}…"
        return {"number": self.number, "state": self.state, "title": short}

    def data(self) -> dict[str, Any]:
        """Everything a page shows of it."""
        answers = [answer.data() for answer in self.answers]
        ended = self.state in ("done", "stopped")
        return self.summary() | {"text": self.text, "answers": answers, "compared": self._compared() if ended else None}

    def _compared(self) -> dict[str, Any]:
        """The outputs side by side, as the examples of a report have them."""
        source = SourceText(self.text)
        texts = [answer.text for answer in self.answers]
        outputs = [[list(asdict(one).values()) for one in stretches(text, source, texts[0])] for text in texts]
        return {"source": source.sentences, "references": [], "outputs": outputs}


class Desk:
    """The tasks of one studio."""

    def __init__(self) -> None:
        self._tasks: dict[int, Task] = {}
        self._changed = threading.Condition()
        self._version = 0
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="studio", daemon=True)
        self._thread.start()

    def submit(self, text: str, answers: Sequence[Answer], settings: DecodingSettings | None) -> int:
        """Have a task done when its turn comes; its number."""
        with self._changed:
            if sum(task.state == "waiting" for task in self._tasks.values()) >= MOST_WAITING:
                raise ValueError(f"{MOST_WAITING} texts are waiting already: stop some of them, or wait")
            number = max(self._tasks, default=0) + 1
            self._tasks[number] = Task(number, text, settings, list(answers))
            for old in [n for n, task in self._tasks.items() if task.state not in ("waiting", "writing")][:-MOST_KEPT]:
                del self._tasks[old]
            self._tell()
        return number

    def stop(self, number: int) -> None:
        """End a task after its next step, or before its first."""
        with self._changed:
            task = self._tasks.get(number)
            if task is None:
                return
            task.stopping.set()
            if task.state == "waiting":
                self._end(task, "stopped")

    def wait(self, seen: int, seconds: float) -> None:
        """Until something has changed since the version ``seen``."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > seen or self._closed, seconds)

    def data(self, number: int | None = None) -> dict[str, Any]:
        """The version, a line for each task, and all of one of them."""
        with self._changed:
            task = self._tasks.get(number) if number is not None else None
            tasks, version = [one.summary() for one in self._tasks.values()], self._version
        return {"version": version, "tasks": tasks, "task": task.data() if task else None}

    def close(self) -> None:
        """Stop everything."""
        with self._changed:
            self._closed = True
            for task in self._tasks.values():
                task.stopping.set()
            self._tell()
        self._thread.join(timeout=5)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closed or self._next() is not None)
                task = self._next()
                if self._closed or task is None:
                    return
                task.state = "writing"
                self._tell()
            self._write(task)

    def _next(self) -> Task | None:
        return next((task for task in self._tasks.values() if task.state == "waiting"), None)

    def _write(self, task: Task) -> None:
        """Every answer of a task; one that fails says why, and the others are written."""
        for answer in task.answers:
            if task.stopping.is_set():
                break
            try:
                self._answer(task, answer)
            except ValueError as error:
                self._fail(answer, str(error))
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                self._fail(answer, f"this could not be written ({type(error).__name__}: {error})")
        failed = all(answer.state == "failed" for answer in task.answers)
        with self._changed:
            self._end(task, "failed" if failed else "stopped" if task.stopping.is_set() else "done")

    def _answer(self, task: Task, answer: Answer) -> None:
        begun = time.monotonic()

        def show(trace: Trace) -> None:
            with self._changed:
                answer.trace, answer.seconds = trace, time.monotonic() - begun
                self._tell()

        with self._changed:
            answer.state = "writing"
            self._tell()
        answer.notes = [*answer.author.put(answer.rule, answer.layers), *answer.author.remarks(task.text)]
        begun = time.monotonic()
        show(answer.author.write(task.text, task.settings, show, task.stopping.is_set))
        found = marked(answer.author, task.text, answer.text)
        with self._changed:
            if found:
                answer.marked = found
                answer.notes.append(found.said)
            answer.state = "stopped" if task.stopping.is_set() else "done"
            self._tell()

    def _fail(self, answer: Answer, why: str) -> None:
        with self._changed:
            answer.state = "failed"
            answer.notes = [why]
            self._tell()

    def _end(self, task: Task, state: State) -> None:
        task.state = state
        for answer in task.answers:
            if answer.state in ("waiting", "writing"):
                answer.state = "stopped"
        self._tell()

    def _tell(self) -> None:
        self._version += 1
        self._changed.notify_all()
