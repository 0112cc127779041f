"""``Desk``: tasks that are written one after another, and can be watched and stopped.

A task is one text and the answers that were asked for; an answer is the output of one model with
one rule. The answers of a task are written side by side: each takes one step in its turn. The desk
knows no page: whoever wants to see a task asks for its data, or waits until something has changed.
"""

import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from dwindle.analysis.examples import stretches
from dwindle.analysis.highlight import SourceText
from dwindle.analysis.left_out import THRESHOLD, shares, units
from dwindle.analysis.views import from_trace
from dwindle.auditing.audit import omissions
from dwindle.auditing.listeners import Listeners
from dwindle.data.script import words
from dwindle.generation.interactive import Author
from dwindle.generation.settings import DecodingSettings
from dwindle.metrics.repetition import Repetition
from dwindle.metrics.table import count
from dwindle.models.subword import SubwordCodec
from dwindle.report import omissions_section
from dwindle.report.still import still
from dwindle.runfiles.arrays import Trace
from dwindle.runfiles.outputs import Item

State = Literal["waiting", "writing", "done", "stopped", "failed"]
MOST_WAITING = 20
MOST_KEPT = 30
"""Number of finished tasks that can still be looked at."""
_TITLE = 60


@dataclass(frozen=True)
class Marked:
    """Stretches of a source in characters, and what is said of them."""

    spans: list[tuple[int, int]]
    said: str


@dataclass
class Answer:
    """The output of one model with one rule. ``rule`` None is the rule it was saved with."""

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
        made = {
            "name": self.name,
            "state": self.state,
            "notes": self.notes,
            "view": None,
            "figures": [],
        }
        if self.trace is None:
            return made
        view = from_trace(self.trace) | {"marked": self.marked.spans if self.marked else []}
        return made | {"view": view, "figures": self._figures(view)}

    def _figures(self, view: dict[str, Any]) -> list[str]:
        """Words, repetition, unused parts and seconds, for the line below the name."""
        text = self.text
        repeated = Repetition().row(Item("", text))[8]
        shares = [share for _, _, share in view["parts"] if share is not None]
        low = sum(share <= THRESHOLD for share in shares)
        return [
            count(len(words(text)), "word"),
            f"{repeated:.0f} % of its 3-grams repeated",
            f"{low} of {len(shares)} {view['unit']} hardly used",
            f"{self.seconds:.1f} s",
        ]

    @property
    def text(self) -> str:
        return "".join(self.trace.output) if self.trace else ""

    def picture(self, source: str) -> str:
        """A still of what it left out: by the listeners, or where there are none, the parts that
        were hardly used."""
        if self.trace is None:
            raise ValueError("nothing is written yet: wait for the first word")
        if self.marked:
            return still(
                source, self.text, self.marked.spans, "Marked: left out, say the model's listeners"
            )
        unit, spans = units(source, self.trace.places, self.trace.source)
        used = shares(self.trace.weights.sum(0), self.trace.places, spans)
        low = [
            span
            for span, share in zip(spans, used, strict=True)
            if share is not None and share <= THRESHOLD
        ]
        return still(
            source,
            self.text,
            low,
            f"Marked: {unit} with at most {THRESHOLD} of the average attention",
        )


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
        return self.summary() | {
            "text": self.text,
            "answers": answers,
            "compared": self._compared() if ended else None,
        }

    def _compared(self) -> dict[str, Any]:
        """The outputs side by side, as the examples of a report have them."""
        source = SourceText(self.text)
        texts = [answer.text for answer in self.answers]
        outputs = [
            [list(asdict(one).values()) for one in stretches(text, source, texts[0])]
            for text in texts
        ]
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

    def submit(
        self, text: str, answers: Sequence[Answer], settings: DecodingSettings | None
    ) -> int:
        """Put a task at the end of the queue, and return its number."""
        with self._changed:
            if sum(task.state == "waiting" for task in self._tasks.values()) >= MOST_WAITING:
                raise ValueError(
                    f"{MOST_WAITING} texts are waiting already: stop some of them, or wait"
                )
            number = max(self._tasks, default=0) + 1
            self._tasks[number] = Task(number, text, settings, list(answers))
            for old in [
                n for n, task in self._tasks.items() if task.state not in ("waiting", "writing")
            ][:-MOST_KEPT]:
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
        """Wait until something has changed since the version ``seen``, at most so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: self._version > seen or self._closed, seconds)

    def data(self, number: int | None = None) -> dict[str, Any]:
        """The version, a line for each task, and all of one of them."""
        with self._changed:
            task = self._tasks.get(number) if number is not None else None
            tasks, version = [one.summary() for one in self._tasks.values()], self._version
        return {"version": version, "tasks": tasks, "task": task.data() if task else None}

    def picture(self, number: int, place: int) -> str:
        """A still of one answer to a task."""
        with self._changed:
            task = self._tasks.get(number)
            if task is None or not 0 <= place < len(task.answers):
                raise ValueError("there is no such output: it may have been forgotten")
            return task.answers[place].picture(task.text)

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
        """Every answer of a task, side by side; one that fails says why, and the others go on."""
        turns = Turns(len(task.answers))
        columns = [
            threading.Thread(
                target=self._column, args=(task, place, turns), name=f"studio-{place}", daemon=True
            )
            for place in range(len(task.answers))
        ]
        for column in columns:
            column.start()
        for column in columns:
            column.join()
        failed = all(answer.state == "failed" for answer in task.answers)
        with self._changed:
            self._end(task, "failed" if failed else "stopped" if task.stopping.is_set() else "done")

    def _column(self, task: Task, place: int, turns: "Turns") -> None:
        """One answer of a task, in a thread of its own that works when it is its turn."""
        answer = task.answers[place]
        with turns.taken(place):
            if task.stopping.is_set():
                return
            try:
                self._answer(task, answer, lambda: turns.pass_on(place))
            except ValueError as error:
                self._fail(answer, str(error))
            except Exception as error:
                traceback.print_exc(file=sys.stderr)
                self._fail(answer, f"this could not be written ({type(error).__name__}: {error})")

    def _answer(self, task: Task, answer: Answer, pass_on: Callable[[], None]) -> None:
        with self._changed:
            answer.state = "writing"
            self._tell()
        author = answer.author.twin()
        answer.notes = [*author.put(answer.rule, answer.layers), *author.remarks(task.text)]
        begun = time.monotonic()

        def show(trace: Trace) -> None:
            with self._changed:
                answer.trace, answer.seconds = trace, time.monotonic() - begun
                self._tell()

        def stop() -> bool:
            nonlocal begun
            if not task.stopping.is_set():
                left = time.monotonic()
                pass_on()
                # the seconds of an answer are its own, not the others'
                begun += time.monotonic() - left
            return task.stopping.is_set()

        show(author.write(task.text, task.settings, show, stop))
        found = marked(author, task.text, answer.text)
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


class Turns:
    """Lets threads work one at a time, in a fixed order.

    All answers then grow at the same pace, and none takes cores from another: two searches that run
    at the same moment would each be slower, and their seconds would say nothing.
    """

    def __init__(self, count: int) -> None:
        self._order = deque(range(count))
        self._changed = threading.Condition()

    @contextmanager
    def taken(self, who: int) -> Iterator[None]:
        """Wait for the first turn of thread ``who``; after the block it has no more turns."""
        with self._changed:
            self._changed.wait_for(lambda: self._order[0] == who)
        try:
            yield
        finally:
            with self._changed:
                self._order.remove(who)
                self._changed.notify_all()

    def pass_on(self, who: int) -> None:
        """Give every other thread its turn; return when it is the turn of ``who`` again."""
        with self._changed:
            self._order.rotate(-1)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._order[0] == who)


def marked(author: Author, text: str, output: str) -> Marked | None:
    """The parts of ``text`` that ``output`` left out, by the listeners beside the model.

    They were chosen with the model as it was saved, so they are asked with that rule. None if there
    are none.
    """
    chosen = Listeners.beside(author.path)
    if chosen is None or chosen.unit != "characters" or not isinstance(author.codec, SubwordCodec):
        return None
    author.put(None)
    (found,) = omissions(author.model, author.codec.tokenizer, [(text, output)], chosen)
    spans = [(int(span.start), int(span.end)) for span in found.spans]
    return Marked(
        spans, f"{omissions_section.verdict(found, chosen)} {omissions_section.rate(chosen)}"
    )
