"""Which heads of a decoder-only model tell what an output left out of a source that stands in the
prompt.

    python benchmarks/omissions_prompt.py MODEL SOURCES [--ask "Repeat the following text."]

MODEL is a folder of a causal language model with a chat template, SOURCES a text file (or .gz), a
sentence a line. The model is asked to do something with a text; what it writes is its output.
Omissions are made as `dwindle.listeners` makes them: a word is taken out of the source before the
model writes, or one of two or three joined sources is not written. A head's peak is the most
attention that any row of the output pays to a source word. Heads are chosen and weighed on half of
the sources, as there; all figures are of the other half, with 95 % intervals over sources. There is
no command for such models yet: this tells whether one would be worth it.
"""

import argparse
import random
from pathlib import Path

import numpy as np
import torch
import transformers
from omissions_pairs import bootstrapped, drawn, interval, lines

from dwindle.auditing.odds import item_score
from dwindle.auditing.roc import auroc
from dwindle.auditing.source import ReadSource, words
from dwindle.auditing.weighing import Heard, weighed


class Prompted:
    """A causal language model, and what it is asked to do."""

    def __init__(self, folder: Path, ask: str) -> None:
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, attn_implementation="eager"
        ).eval()
        self.ask = ask

    def prompt(self, source: str) -> tuple[list[int], ReadSource]:
        """The ids of a prompt, and the source in it: each position's word, if it has one."""
        talk = [{"role": "user", "content": f"{self.ask}\n\n{source}"}]
        text = self.tokenizer.apply_chat_template(talk, add_generation_prompt=True, tokenize=False)
        start = text.rindex(source)
        read = self.tokenizer(text, return_offsets_mapping=True, add_special_tokens=False)
        inside = [
            (max(a, start) - start, min(b, start + len(source)) - start)
            if a < start + len(source) and b > start
            else (0, 0)
            for a, b in read["offset_mapping"]
        ]
        parts, owner = words(source, inside)
        return read["input_ids"], ReadSource({}, parts, owner, len(source), len(source))

    @torch.inference_mode()
    def write(self, source: str) -> str:
        ids, _ = self.prompt(source)
        given = torch.tensor([ids])
        most = len(self.tokenizer(source)["input_ids"]) * 3 // 2 + 20
        out = self.model.generate(
            given, attention_mask=torch.ones_like(given), max_new_tokens=most, do_sample=False
        )
        return str(self.tokenizer.decode(out[0, len(ids) :], skip_special_tokens=True)).strip()

    @torch.inference_mode()
    def heard(self, source: str, output: str, gone: tuple[float, float] | None) -> Heard:
        """The peaks of all heads, layer by layer, (heads, S)."""
        ids, read = self.prompt(source)
        said = self.tokenizer(output, add_special_tokens=False)["input_ids"]
        # The last position of the prompt writes the first token of the output.
        found = self.model(
            torch.tensor([ids + said]), output_attentions=True, use_cache=False
        ).attentions
        rows = [layer[0, :, len(ids) - 1 :, : len(ids)].amax(1) for layer in found]
        first, last = gone or (0, 0)
        missing = np.array([first <= part.middle < last for part in read.parts], dtype=bool)
        return Heard(read, torch.cat(rows), missing)


def trials(prompted: Prompted, sources: list[str], rng: random.Random) -> dict[str, list[Heard]]:
    own = {source: prompted.write(source) for source in sources}
    made: dict[str, list[Heard]] = {"own": [], "words": [], "joined": [], "sentences": []}
    for source in sources:
        parts = [part for part in prompted.prompt(source)[1].parts if part.end - part.start > 2]
        if not own[source] or not parts:
            continue
        made["own"].append(prompted.heard(source, own[source], None))
        part = rng.choice(parts)
        rest = source[: int(part.start)].rstrip() + " " + source[int(part.end) :].lstrip()
        made["words"].append(prompted.heard(source, prompted.write(rest), (part.start, part.end)))
        others = rng.sample(
            [other for other in sources if other != source and own[other]], rng.choice((1, 2))
        )
        some = [source, *others]
        rng.shuffle(some)
        joined = " ".join(some)
        at = joined.index(source)
        made["joined"].append(prompted.heard(joined, " ".join(own[one] for one in some), None))
        left = " ".join(own[one] for one in some if one != source)
        made["sentences"].append(prompted.heard(joined, left, (at, at + len(source))))
    return made


def scores(item: Heard, weights: np.ndarray) -> np.ndarray:
    """(P,), from the weight of every head."""
    return -weights @ item.source.of_parts(item.peaks).clamp(min=1e-4).log().numpy()


def of_words(some: list[Heard], weights: np.ndarray) -> float:
    return auroc(
        np.concatenate([i.missing for i in some]),
        np.concatenate([scores(i, weights) for i in some]),
    )


def of_items(some: list[tuple[Heard, Heard]], weights: np.ndarray) -> float:
    """Outputs that left something out, told from whole ones."""
    told = [[item_score(torch.from_numpy(scores(item, weights))) for item in pair] for pair in some]
    return auroc(np.tile([True, False], len(told)), np.array(told).ravel())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("sources", type=Path)
    parser.add_argument("--ask", default="Repeat the following text.")
    parser.add_argument("--items", type=int, default=100)
    asked = parser.parse_args()
    prompted = Prompted(asked.model, asked.ask)
    every = lines(asked.sources)
    sources = [source for source, _ in drawn(every, every, asked.items, seed=1)]
    rng = random.Random(1)
    half = len(sources) // 2
    practice, test = (trials(prompted, some, rng) for some in (sources[:half], sources[half:]))
    kept, found = weighed({kind: practice[kind] for kind in ("words", "sentences")})
    every_head = np.ones(len(test["own"][0].peaks), dtype=np.float32)
    chosen = np.zeros_like(every_head)
    chosen[kept] = found
    count = prompted.model.config.num_attention_heads
    print(
        f"asked: {asked.ask} heads {[(n // count, n % count) for n in kept]} of {len(every_head)}"
    )
    print("| | AUROC of words, chosen heads | all heads | AUROC of items |\n|---|---|---|---|")
    for kind, beside in (("words", "own"), ("sentences", "joined")):
        both = list(zip(test[kind], test[beside], strict=True))
        cells = [
            bootstrapped(test[kind], lambda some: of_words(some, chosen)),
            bootstrapped(test[kind], lambda some: of_words(some, every_head)),
            bootstrapped(both, lambda some: of_items(some, chosen)),
        ]
        print(f"| {kind} | {' | '.join(map(interval, cells))} |")


if __name__ == "__main__":
    main()
