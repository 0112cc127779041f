"""How well omissions are told in translations of any language pair, with and without a second
opinion.

    python benchmarks/omissions_pairs.py MODEL CHOOSE SOURCES REFERENCES --save RESULT.json
    python benchmarks/omissions_pairs.py --show RESULT.json [RESULT.json ...]

CHOOSE, SOURCES and REFERENCES are text files (or .gz), a sentence a line; SOURCES and REFERENCES
are aligned. Listeners are chosen and calibrated on CHOOSE, as `dwindle omissions` does, with its
own settings. Cases are made of SOURCES:

- *word*, *clause*: taken out of the source before MODEL translated it, held against the whole
  source. A word is one that is not among the 120 commonest; in a script without spaces, a piece of
  two characters or more.
- *name*: a number, or a capitalised word that stands on both sides, taken out of the human
  reference.
- *sentence*: one of two or three joined sentences not translated.
- *own*, *reference*, *joined*: nothing taken out. MODEL's own outputs leave things out all the
  same.

Of a word and a clause the output is what MODEL itself writes of the shortened source, which
flatters the closer look (`contrast`): it asks how likely the output is of that very source. Names
are taken out of people's translations.

Items are told from intact ones: names from references, sentences from joined outputs, the others
from own outputs. Intervals are 95 %, over sources. --engine names a folder of MODEL for
CTranslate2, which then writes the outputs, several times faster. --reverse
names a model of the other direction: then the second opinion is measured too. The results hold
numbers and settings, not the texts.
"""

import argparse
import json
import platform
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import dwindle
from dwindle.auditing.roc import auroc
from dwindle.auditing.source import Reader
from dwindle.auditing.text import TextReader
from dwindle.bulk.batches import T, together
from dwindle.data.script import is_unspaced
from dwindle.runfiles import whole
from dwindle.runfiles.text_lines import texts

COMMON, RESAMPLES = 120, 500
BESIDE = {"name": "reference", "sentence": "joined", "word": "own", "clause": "own"}
"""The intact cases that a kind of deletion is told from."""


@dataclass(frozen=True)
class Case:
    item: int
    kind: str
    source: str
    output: str
    gone: tuple[int, int] | None = None


def lines(path: Path) -> list[str]:
    return [line.strip() for line in texts(path)]


def drawn(
    sources: Sequence[str], references: Sequence[str], count: int, seed: int
) -> list[tuple[str, str]]:
    """Aligned sentences of ordinary length, in random order."""
    ordinary = (8, 90) if is_unspaced(sources[0]) else (20, 220)
    pairs = [
        pair
        for pair in zip(sources, references, strict=True)
        if ordinary[0] <= len(pair[0]) <= ordinary[1]
    ]
    random.Random(seed).shuffle(pairs)
    return pairs[:count]


def cases_of(
    reader: TextReader, pairs: list[tuple[str, str]], common: set[str], seed: int
) -> Iterator[Case]:
    rng = random.Random(seed)
    own = written(reader, [source for source, _ in pairs])
    for n, ((source, reference), output) in enumerate(zip(pairs, own, strict=True)):
        yield Case(n, "own", source, output)
        yield Case(n, "reference", source, reference)
        yield from without_name(n, source, reference, rng)
    for n in range(0, len(pairs) - 3, 3):
        numbers = list(range(n, n + rng.choice((2, 3))))
        left = rng.choice(numbers)
        source, spans = reader.join([pairs[k][0] for k in numbers])
        yield Case(n, "joined", source, reader.join_outputs([own[k] for k in numbers]))
        rest = reader.join_outputs([own[k] for k in numbers if k != left])
        start, end = spans[numbers.index(left)]
        yield Case(n, "sentence", source, rest, (int(start), int(end)))
    yield from shortened(reader, pairs, common, rng)


def without_name(n: int, source: str, reference: str, rng: random.Random) -> Iterator[Case]:
    latin = is_unspaced(source)
    pattern = (
        r"[A-Za-z0-9][A-Za-z0-9.,%-]*[A-Za-z0-9%]|[0-9]"
        if latin
        else r"(?<!\w)(?:[A-Z]\w+|\d[\d.,]*\d%?|\d)(?!\w)"
    )
    both = [
        match
        for match in re.finditer(pattern, source)
        if source.count(match[0])
        == 1
        == len(re.findall(rf"(?<!\w){re.escape(match[0])}(?!\w)", reference))
        and (latin or match.start() > 0)
    ]
    if both:
        match = rng.choice(both)
        yield Case(
            n,
            "name",
            source,
            re.sub(rf"\s*(?<!\w){re.escape(match[0])}(?!\w)", "", reference),
            match.span(),
        )


def shortened(
    reader: TextReader, pairs: list[tuple[str, str]], common: set[str], rng: random.Random
) -> Iterator[Case]:
    made: list[tuple[int, str, str, str, tuple[int, int]]] = []
    for n, (source, _) in enumerate(pairs):
        unspaced = is_unspaced(source)
        found = list(re.finditer(r"[^，；,;]+[，；,;]?", source))
        clauses = [
            m.span() for m in found if (len(m[0]) >= 4 if unspaced else len(m[0].split()) >= 3)
        ]
        if len(clauses) > 1:
            a, b = rng.choice(clauses)
            end = "。" if unspaced else "."
            rest = (
                source[:a] + source[b:] if b < len(source) else source[:a].rstrip("，；,; ") + end
            )
            made.append((n, "clause", source, rest.strip(), (a, b)))
        spans = [(int(part.start), int(part.end)) for part in reader.read(source).parts]
        words = [(a, b) for a, b in spans if is_content(source[a:b], common, unspaced)]
        if words:
            a, b = rng.choice(words)
            made.append(
                (n, "word", source, re.sub("  +", " ", source[:a] + source[b:]).strip(), (a, b))
            )
    outputs = written(reader, [rest for _, _, _, rest, _ in made])
    for (n, kind, source, _, gone), output in zip(made, outputs, strict=True):
        yield Case(n, kind, source, output, gone)


def is_content(word: str, common: set[str], unspaced: bool) -> bool:
    if unspaced:
        return len(word) > 1
    return len(word) > 2 and word.lower() not in common and any(c.isalpha() for c in word)


def written(reader: Reader, sources: Sequence[Any]) -> list[str]:
    return together(sources, 16, len, reader.write)


def hasten(engine: str | None) -> None:
    """Let CTranslate2 write what readers write: outputs and hypotheses."""
    if engine is None:
        return
    import ctranslate2

    translator = ctranslate2.Translator(engine, compute_type="int8", intra_threads=1)
    # Some engines add the end of the source themselves.
    last = -1 if json.loads((Path(engine) / "config.json").read_text())["add_source_eos"] else None

    def best(self: TextReader, sources: Sequence[str], beams: int) -> list[list[tuple[str, float]]]:
        tokenizer = self.tokenizer
        ids = [
            tokenizer(source, split_special_tokens=True, verbose=False)["input_ids"]
            for source in sources
        ]
        told = translator.translate_batch(
            [tokenizer.convert_ids_to_tokens(row[:last]) for row in ids],
            **{
                "beam_size": max(beams, 4),
                "num_hypotheses": beams,
                "max_decoding_length": 400,
                "return_scores": True,
            },
        )
        return [
            [
                (
                    tokenizer.decode(
                        tokenizer.convert_tokens_to_ids(hypothesis), skip_special_tokens=True
                    ),
                    score,
                )
                for hypothesis, score in zip(one.hypotheses, one.scores, strict=True)
            ]
            for one in told
        ]

    TextReader.best = best  # type: ignore[method-assign]
    TextReader.write = lambda self, sources: [some[0][0] for some in best(self, sources, 1)]  # type: ignore[method-assign]


def load(folder: Path) -> tuple[Any, Any]:
    return (
        transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval(),
        transformers.AutoTokenizer.from_pretrained(folder),
    )


@dataclass(frozen=True)
class Told:
    """One case by one kind of listeners."""

    case: Case
    score: float
    alarm: bool
    scores: np.ndarray
    gone: np.ndarray
    marked: np.ndarray


def told(found: Any, case: Case, threshold: float) -> Told:
    middles = [part.middle for part in found.parts]
    gone = np.array(
        [case.gone is not None and case.gone[0] <= m < case.gone[1] for m in middles], dtype=bool
    )
    scores = np.array(found.scores)
    return Told(case, found.score, found.alarm, scores, gone, scores > threshold)


def bootstrapped(some: Sequence[T], value: Callable[[list[T]], float]) -> list[float]:
    """The value of all, and a 95 % interval by drawing as many again."""
    rng = np.random.default_rng(1)
    drawn = [
        value([some[k] for k in rng.integers(len(some), size=len(some))]) for _ in range(RESAMPLES)
    ]
    return [round(float(v), 4) for v in (value(list(some)), *np.nanquantile(drawn, [0.025, 0.975]))]


def interval(found: Sequence[float] | None) -> str:
    """A value with its interval, as tables show it; nothing where there is none."""
    return "" if found is None else "{:.3f} ({:.3f}-{:.3f})".format(*found)


def with_interval(some: list[Told], value: Callable[[list[Told]], float]) -> list[float]:
    """The value, and a 95 % interval over sources."""
    by_item: dict[int, list[Told]] = {}
    for one in some:
        by_item.setdefault(one.case.item, []).append(one)
    return bootstrapped(
        list(by_item.values()), lambda groups: value(list(chain.from_iterable(groups)))
    )


def measured(all_told: list[Told]) -> dict[str, dict[str, list[float]]]:
    of = {
        kind: [one for one in all_told if one.case.kind == kind]
        for kind in dict.fromkeys(t.case.kind for t in all_told)
    }
    result: dict[str, dict[str, list[float]]] = {}
    for kind, some in of.items():
        row = result[kind] = {
            "alarmed": with_interval(some, lambda s: float(np.mean([t.alarm for t in s])))
        }
        row["kept words marked"] = with_interval(
            some, lambda s: float(np.concatenate([t.marked[~t.gone] for t in s]).mean())
        )
        if kind in BESIDE:
            both = some + of[BESIDE[kind]]
            row["item AUROC"] = with_interval(
                both,
                lambda s: auroc(
                    np.array([t.case.gone is not None for t in s]), np.array([t.score for t in s])
                ),
            )
            row["word AUROC"] = with_interval(
                some,
                lambda s: auroc(
                    np.concatenate([t.gone for t in s]), np.concatenate([t.scores for t in s])
                ),
            )
    return result


WAYS = ("attention", "with contrast", "with reverse", "with both")


def ways(reverse: Path | None) -> dict[str, tuple[dwindle.Reverse | None, bool]]:
    """By name, the second opinion and whether there is a closer look."""
    found: dict[str, tuple[dwindle.Reverse | None, bool]] = {
        "attention": (None, False),
        "with contrast": (None, True),
    }
    if reverse:
        second = dwindle.Reverse(*load(reverse))
        found |= {"with reverse": (second, False), "with both": (second, True)}
    return found


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    model, tokenizer = load(asked.model)
    hasten(asked.engine)
    reader = TextReader(model, tokenizer)
    sources = lines(asked.sources)
    pairs = drawn(sources, lines(asked.references), asked.items, seed=1)
    common = {
        w
        for w, _ in Counter(w.lower() for s in sources for w in re.findall(r"\w+", s)).most_common(
            COMMON
        )
    }
    cases = list(cases_of(reader, pairs, common, seed=2))
    choose = lines(asked.choose)
    ordinary = [source for source, _ in drawn(choose, choose, asked.choose_items, seed=3)]
    result: dict[str, Any] = {
        "model": asked.model.name,
        "reverse": asked.reverse.name if asked.reverse else None,
        "chosen on": [asked.choose.name, len(ordinary)],
        "cases of": [asked.sources.name, len(pairs)],
        "cases": dict(Counter(case.kind for case in cases)),
        "versions": {"dwindle": dwindle.__version__, "python": platform.python_version()}
        | {"torch": torch.__version__, "transformers": transformers.__version__},
        "outputs written by": "CTranslate2, int8" if asked.engine else "transformers",
    }
    for name, (second, contrast) in ways(asked.reverse).items():
        listeners = dwindle.listeners(model, tokenizer, ordinary, reverse=second, contrast=contrast)
        found = dwindle.omissions(
            model, tokenizer, [(c.source, c.output) for c in cases], listeners, reverse=second
        )
        every = [
            told(one, case, listeners.part_threshold)
            for one, case in zip(found, cases, strict=True)
        ]
        result[name] = {
            "heads": [list(head) for head in listeners.heads],
            "weights": list(listeners.weights),
            "held out": listeners.auroc,
            "asked": listeners.false_alarms,
            "measured": measured([one for one in every if one.score is not None]),
        }
    return result


def table(name: str, columns: dict[str, str], measured: dict[str, dict[str, Any]]) -> None:
    """Print rows of figures. ``columns``: the key of each, and its heading."""
    print(f"\n| {name} | {' | '.join(columns.values())} |\n|{'---|' * (1 + len(columns))}")
    for kind, row in measured.items():
        print(f"| {kind} | {' | '.join(interval(row.get(key)) for key in columns)} |")


def show(result: dict[str, Any]) -> None:
    (chosen, _), (cases, items) = result["chosen on"], result["cases of"]
    print(f"\n**{result['model']}** ({items} sentences of {cases}; listeners of {chosen})")
    columns = ("word AUROC", "item AUROC", "alarmed", "kept words marked")
    for name in filter(result.__contains__, WAYS):
        table(name, {key: key for key in columns}, result[name]["measured"])


def finish(result: dict[str, Any], path: Path, show: Callable[[dict[str, Any]], None]) -> None:
    """Keep the result, and print it."""
    whole.write_text(path, json.dumps(result, ensure_ascii=False, indent=1) + "\n")
    show(result)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--show", type=Path, nargs="+")
    for name in ("model", "choose", "sources", "references"):
        parser.add_argument(name, type=Path, nargs="?")
    parser.add_argument("--reverse", type=Path)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--items", type=int, default=250)
    parser.add_argument("--choose-items", type=int, default=200)
    parser.add_argument("--engine", help="a folder of MODEL for CTranslate2")
    asked = parser.parse_args()
    for path in asked.show or []:
        show(json.loads(path.read_text()))
    if not asked.show:
        finish(measure(asked), asked.save, show)


if __name__ == "__main__":
    main()
