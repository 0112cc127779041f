"""What attaching a rule does to a model that was never trained with one.

    python benchmarks/training_free.py MODEL PAIRS.tsv --beams 2 4 --outputs out
    python benchmarks/training_free.py MODEL PAIRS.tsv --beams 4 --join --outputs out-joined \
        --layers all --rules "dim:boxcox(0.2)+renormalise+protect(special)" training-free

MODEL is a local folder of an encoder-decoder model (Marian, BART, T5) with its tokenizer; PAIRS.tsv
has a source and a reference on each line (a T5 prefix belongs to the source). Every setting
translates the sources with the model's own generation settings and the given beams. The table has
corpus BLEU, its difference to the untouched model with the 95 % interval of a paired bootstrap over
the lines, the length of the output relative to the reference, and the share of its n-grams that it
has already written on the same line.

--join makes a stress set: 3, 4, 5, 6, 3, ... consecutive lines become one source. --outputs keeps
the translations, so that an interrupted run is taken up again, and so that a table can be printed
again.
"""

import argparse
import itertools
import platform
import re
import unicodedata
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from sacrebleu.metrics import BLEU
from torch import Tensor

import dwindle
from dwindle import Coverage, Dim, Rule

RULES = (
    "dim:power(0.65)",
    "dim:log",
    "dim:boxcox(0.5)",
    "dim:boxcox(0.8)",
    "dydim:boxcox(0),boxcox(0.5)",
    "dim:boxcox(0.5)+renormalise",
    "training-free",
    "whole-row:boxcox(0.5)",
)


@dataclass(frozen=True)
class WholeRow(Dim):
    """The other way to renormalise with protection: protected positions are scaled with the rest of
    their row.

    In ``training-free`` they keep their plain weight exactly, and only the other positions are
    scaled.
    """

    def __call__(
        self,
        attention: Tensor,
        coverage: Coverage | None = None,
        *,
        protected: Tensor | None = None,
        check: bool = False,
    ) -> tuple[Tensor, Coverage]:
        weights, after = super().__call__(attention, coverage, protected=protected, check=check)
        have = weights.sum(-1, keepdim=True)
        return weights * (attention.sum(-1, keepdim=True) / have.masked_fill(have == 0, 1)), after


@dataclass(frozen=True)
class Setting:
    """One row of the table."""

    rule: str
    layers: str
    """``last``, ``all``, or ``none`` for the untouched model."""

    def attach(self, model: Any) -> None:
        if self.layers == "none":
            return
        # that the model was not trained with the rule is the point here
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            dwindle.attach(model, parse(self.rule), layers=1 if self.layers == "last" else None)

    def file(self, beam: int) -> str:
        return re.sub(r"[^\w.]+", "-", f"{self.rule}-{self.layers}-beam{beam}") + ".txt"


PLAIN = Setting("plain", "none")


def parse(text: str) -> Rule:
    """The notation of dwindle, and ``whole-row:G`` for the experiment above."""
    name, _, g = text.partition(":")
    return (
        WholeRow(*dwindle.rule(f"dim:{g}").functions, protect="special")
        if name == "whole-row"
        else dwindle.rule(text)
    )


def read(path: Path) -> list[tuple[str, str]]:
    lines = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    if not lines or any(len(line) != 2 for line in lines):
        raise SystemExit(f"{path}: every line must have a source, a tab and a reference")
    return [(source, reference) for source, reference in lines]


def joined(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Groups of 3, 4, 5, 6, 3, ... lines, each as one line."""
    rest = iter(pairs)
    groups: list[tuple[str, str]] = []
    for size in itertools.cycle((3, 4, 5, 6)):
        group = list(itertools.islice(rest, size))
        if len(group) < size:
            return groups
        groups.append((glued(s for s, _ in group), glued(r for _, r in group)))
    raise AssertionError


def glued(texts: Iterable[str]) -> str:
    """With a space between, unless the script has none."""
    whole = ""
    for text in texts:
        wide = whole and unicodedata.east_asian_width(whole[-1]) in "WF"
        whole += text if wide or not whole else " " + text
    return whole


@torch.no_grad()
def translate(
    model: Any, tokenizer: Any, sources: list[str], beam: int, batch: int, longest: int
) -> list[str]:
    """In batches of sources of similar length; the order of the result is that of ``sources``."""
    order = sorted(range(len(sources)), key=lambda i: len(tokenizer(sources[i]).input_ids))
    found: dict[int, str] = {}
    for start in range(0, len(order), batch):
        some = order[start : start + batch]
        inputs = tokenizer(
            [sources[i] for i in some], return_tensors="pt", padding=True, truncation=True
        )
        tokens = model.generate(**inputs, num_beams=beam, max_length=None, max_new_tokens=longest)
        found.update(
            zip(some, tokenizer.batch_decode(tokens, skip_special_tokens=True), strict=True)
        )
    return [found[i].replace("\n", " ") for i in range(len(sources))]


def statistics(outputs: list[str], references: list[str]) -> np.ndarray:
    """(lines, 10): matched and possible n-grams for n = 1..4, the lengths of output and
    reference."""
    bleu = BLEU(effective_order=True)
    scores = [bleu.sentence_score(o, [r]) for o, r in zip(outputs, references, strict=True)]
    return np.array([[*s.counts, *s.totals, s.sys_len, s.ref_len] for s in scores])


def corpus_bleu(lines: np.ndarray) -> float:
    total = [int(x) for x in lines.sum(0)]
    return float(
        BLEU.compute_bleu(total[:4], total[4:8], total[8], total[9], smooth_method="exp").score
    )


def interval(plain: np.ndarray, other: np.ndarray, resamples: int) -> tuple[float, float]:
    """95 % of the differences of BLEU when the lines are drawn again, the same ones for both."""
    draw = np.random.default_rng(0)
    lines = [draw.integers(len(plain), size=len(plain)) for _ in range(resamples)]
    differences = [corpus_bleu(other[i]) - corpus_bleu(plain[i]) for i in lines]
    low, high = np.percentile(differences, [2.5, 97.5])
    return float(low), float(high)


def repeated(outputs: list[str], n: int) -> float:
    """Per cent of the n-grams of a line that stand in the same line before."""
    seen = again = 0
    for output in outputs:
        words = re.findall(r"\w+", output.lower())
        grams = list(zip(*(words[i:] for i in range(n)), strict=False))
        seen += len(grams)
        again += len(grams) - len(set(grams))
    return 100 * again / max(seen, 1)


def row(
    name: str,
    layers: str,
    outputs: list[str],
    references: list[str],
    plain: list[str],
    resamples: int,
) -> str:
    lines = statistics(outputs, references)
    low, high = interval(statistics(plain, references), lines, resamples)
    difference = corpus_bleu(lines) - corpus_bleu(statistics(plain, references))
    change = "" if outputs == plain else f"{difference:+.2f} ({low:+.2f} to {high:+.2f})"
    ratio = lines[:, 8].sum() / lines[:, 9].sum()
    same = sum(o == p for o, p in zip(outputs, plain, strict=True))
    cells = [name, layers, f"{corpus_bleu(lines):.2f}", change, f"{ratio:.3f}"]
    cells += [f"{repeated(outputs, n):.2f}" for n in (2, 4)] + [f"{same}"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description="What attaching a rule does to a model never trained with one."
    )
    parser.add_argument("model", type=Path, help="a local folder")
    parser.add_argument("pairs", type=Path, help="source, tab, reference on each line")
    parser.add_argument("--rules", nargs="*", default=RULES, help="rules, or whole-row:G")
    parser.add_argument("--layers", nargs="*", default=["last", "all"], choices=["last", "all"])
    parser.add_argument("--beams", nargs="*", type=int, default=[2, 4])
    parser.add_argument("--limit", type=int, help="only the first so many pairs")
    parser.add_argument("--join", action="store_true", help="3 to 6 lines become one source")
    parser.add_argument("--outputs", type=Path, required=True, help="folder for the translations")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--longest", type=int, default=256, help="most tokens of one output")
    parser.add_argument("--resamples", type=int, default=1000)
    given = parser.parse_args()

    pairs = read(given.pairs)[: given.limit]
    pairs = joined(pairs) if given.join else pairs
    sources, references = [s for s, _ in pairs], [r for _, r in pairs]
    given.outputs.mkdir(parents=True, exist_ok=True)
    transformers.utils.logging.set_verbosity_error()
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.model)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(given.model).eval()

    def outputs(setting: Setting, beam: int) -> list[str]:
        file = given.outputs / setting.file(beam)
        if not file.exists():
            setting.attach(model)
            written = translate(model, tokenizer, sources, beam, given.batch, given.longest)
            if setting != PLAIN:
                dwindle.detach(model)
            file.write_text("\n".join(written) + "\n", encoding="utf-8")
        return file.read_text(encoding="utf-8").split("\n")[:-1]

    settings = [PLAIN, *(Setting(rule, layers) for rule in given.rules for layers in given.layers)]
    print(
        f"{len(sources)} sources; python {platform.python_version()}, torch {torch.__version__}, ",
        end="",
    )
    print(
        f"transformers {transformers.__version__}, BLEU "
        f"{BLEU(references=[references]).get_signature()}"
    )
    for beam in given.beams:
        plain = outputs(PLAIN, beam)
        print(
            f"\nBeam {beam}; the references repeat {repeated(references, 2):.2f} / "
            f"{repeated(references, 4):.2f}.\n"
        )
        print(
            "| rule | layers | BLEU | against plain (95 %) | length | repeated 2-grams % | "
            "4-grams % | as plain |"
        )
        print("|---" * 8 + "|")
        for setting in settings:
            written = outputs(setting, beam)
            print(
                row(setting.rule, setting.layers, written, references, plain, given.resamples),
                flush=True,
            )


if __name__ == "__main__":
    main()
