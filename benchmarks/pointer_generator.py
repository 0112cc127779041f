"""What a pointer-generator of See's size costs: a training step and beam search, beside other code
on the same batch.

    python benchmarks/pointer_generator.py --earlier WORKTREE --port CLONE

``--earlier`` is a worktree of this repository at another revision
(``git worktree add --detach DIR REVISION``), ``--port`` a clone of
https://github.com/atulkum/pointer_summarizer. Every system is a process of its own, and so is a
second copy of this one, the control, and so are the three products with the vocabulary, which every
training step has. They take turns, round after round; medians are compared. Peak memory is that of
the process.
"""

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

B, S, T, BEAMS, WORDS = 16, 400, 100, 4, 24
HERE = Path(__file__).resolve().parent.parent
Step = Callable[[], object]


def drawn(words: int) -> dict[str, torch.Tensor]:
    """A batch of full length; a few words of each source are outside the vocabulary."""
    generator = torch.Generator().manual_seed(0)
    extended = torch.randint(4, words, (B, S), generator=generator)
    extended[:, ::25] = words + torch.arange(S // 25)
    labels = torch.randint(4, words, (B, T), generator=generator)
    labels[:, ::3] = extended[:, :T:3]  # copied from the source
    ids = extended.masked_fill(extended >= words, 1)
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "extended_ids": extended,
        "labels": labels,
    }


def model_of(words: int, settings: dict[str, object]) -> torch.nn.Module:
    """Of whatever tree is on the path, the same weights in all: See's start, and attention that is
    not uniform."""
    from dwindle.models.pointer_generator.config import PointerGeneratorConfig
    from dwindle.models.pointer_generator.model import PointerGenerator

    torch.manual_seed(0)
    return PointerGenerator(PointerGeneratorConfig(vocab_size=words, **settings))


def training(words: int, settings: dict[str, object]) -> Step:
    from dwindle.training.optimise import optimiser as made
    from dwindle.training.settings import TrainingSettings

    model, batch = model_of(words, settings), drawn(words)
    how = TrainingSettings(steps=1, batch_size=B, optimiser="adagrad", learning_rate=0.15)
    optimiser = made(model, how)

    def step() -> float:
        optimiser.zero_grad()
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        optimiser.step()
        return loss.item()

    return step


def beam(words: int, settings: dict[str, object]) -> Step:
    from dwindle.generation.generate import generate
    from dwindle.generation.settings import DecodingSettings

    model, batch = model_of(words, settings).eval(), drawn(words)
    # in See's proportion
    how = DecodingSettings(beams=BEAMS, min_length=WORDS * 35 // 120, max_length=WORDS)
    return lambda: generate(model, batch, how).sum().item()


def port(words: int, _: dict[str, object]) -> Step:
    """The public port's own model, in a loop that computes its loss as its trainer does."""
    config = importlib.import_module("data_util.config")
    config.vocab_size, config.batch_size, config.use_gpu = words, B, False
    net = importlib.import_module("training_ptr_gen.model").Model()
    parts = (net.encoder, net.decoder, net.reduce_state)
    weights = list(dict.fromkeys(p for part in parts for p in part.parameters()))
    optimiser = torch.optim.Adagrad(weights, lr=0.15, initial_accumulator_value=0.1)
    batch = drawn(words)
    labels, extended = batch["labels"], batch["extended_ids"]
    read = torch.cat(
        [labels.new_full((B, 1), 2), labels[:, :-1].masked_fill(labels[:, :-1] >= words, 1)], 1
    )
    real, extra = torch.ones(B, S), torch.zeros(B, int(extended.max()) + 1 - words)

    def step() -> float:
        optimiser.zero_grad()
        states, features, last = net.encoder(batch["input_ids"], [S] * B)
        state = net.reduce_state(last)
        context = torch.zeros(B, states.shape[-1])
        coverage = torch.zeros(B, S)
        losses = []
        for t in range(T):
            given = (
                read[:, t],
                state,
                states,
                features,
                real,
                context,
                extra,
                extended,
                coverage,
                t,
            )
            chances, state, context, _, _, coverage = net.decoder(*given)
            losses.append(-(chances.gather(1, labels[:, t : t + 1]).squeeze(1) + config.eps).log())
        loss = torch.stack(losses, 1).mean()
        loss.backward()
        for part in parts:
            torch.nn.utils.clip_grad_norm_(part.parameters(), 2.0)
        optimiser.step()
        return loss.item()

    return step


def products(words: int, _: dict[str, object]) -> Step:
    """The three products with the vocabulary alone, in chunks of rows: no training step can be
    faster."""
    torch.manual_seed(0)
    hidden = torch.randn(B * T, 256)
    weight = torch.randn(words, 256)
    gradient = torch.zeros(words, 256)
    rows = max(16, 2**23 // words // 16 * 16)
    scores = torch.empty(rows, words)

    def step() -> None:
        for chunk in hidden.split(rows):
            part = torch.mm(chunk, weight.mT, out=scores[: len(chunk)])
            part @ weight
            gradient.addmm_(part.mT, chunk)

    return step


class System:
    """A process that takes a step whenever it is told to."""

    def __init__(self, name: str, what: str, path: Path, args: argparse.Namespace) -> None:
        self.name = name
        self.wall: list[float] = []
        self.cpu: list[float] = []
        told = [
            "--serve",
            what,
            "--words",
            str(args.words),
            "--rule",
            args.rule,
            *["--coverage"] * args.coverage,
        ]
        self.process = subprocess.Popen(
            [sys.executable, __file__, *told],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(path)},
        )

    def step(self, counts: bool) -> None:
        wall, cpu = map(float, self._ask("step").split())
        if counts:
            self.wall.append(wall)
            self.cpu.append(cpu)

    def end(self) -> float:
        """Its peak memory, in GB."""
        peak = float(self._ask("end"))
        self.process.wait()
        return peak

    def _ask(self, what: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline()


def serve(step: Step) -> None:
    for line in sys.stdin:
        if line.strip() == "end":
            status = Path("/proc/self/status").read_text(encoding="ascii")
            peak = next(x for x in status.splitlines() if x.startswith("VmHWM"))
            print(int(peak.split()[1]) / 1e6, flush=True)
            return
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        print(time.perf_counter() - wall, time.process_time() - cpu, flush=True)


def compare(what: str, args: argparse.Namespace) -> None:
    """A table of one kind of step: seconds, times faster than each other system, peak memory."""
    systems = [
        System("this code", what, HERE / "src", args),
        System("again (control)", what, HERE / "src", args),
    ]
    if args.earlier:
        systems.append(System("earlier code", what, args.earlier / "src", args))
    if what == "training":
        systems.append(System("its products with the vocabulary", "products", HERE / "src", args))
    if args.port and what == "training":
        systems.append(System("public port", "port", args.port, args))
    for n in range(args.rounds + 1):  # the first one warms up
        for system in systems:
            system.step(counts=n > 0)
    ours = systems[0]
    print(
        f"| {what} | seconds | CPU seconds | times this code | in CPU | peak GB "
        "|\n|---|---|---|---|---|---|"
    )
    for system in systems:
        ratios = [
            statistics.median(a / b for a, b in zip(theirs, mine, strict=True))
            for theirs, mine in ((system.wall, ours.wall), (system.cpu, ours.cpu))
        ]
        figures = [
            statistics.median(system.wall),
            statistics.median(system.cpu),
            *ratios,
            system.end(),
        ]
        print(f"| {system.name} | " + " | ".join(f"{x:.2f}" for x in figures) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--earlier", type=Path, help="a worktree of an earlier revision")
    parser.add_argument("--port", type=Path, help="a clone of the public port")
    parser.add_argument("--words", type=int, default=50_000, help="of the vocabulary")
    parser.add_argument("--coverage", action="store_true", help="with See's coverage mechanism")
    parser.add_argument("--rule", default="plain")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", choices=("training", "beam"))
    parser.add_argument(
        "--serve", choices=("training", "beam", "port", "products"), help=argparse.SUPPRESS
    )
    args = parser.parse_args()
    if args.serve:
        kinds = {"training": training, "beam": beam, "port": port, "products": products}
        serve(kinds[args.serve](args.words, {"coverage": args.coverage, "rule": args.rule}))
        return
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads; B {B}, S {S}, T {T}, "
        f"{args.words} words"
    )
    for what in ("training", "beam"):
        if args.only in (None, what):
            compare(what, args)


if __name__ == "__main__":
    main()
