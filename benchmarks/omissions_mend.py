"""How many paragraphs of which a sentence was dropped does `dwindle.repair` mend?

    python benchmarks/omissions_mend.py MODEL REVERSE CHOOSE SOURCES REFERENCES --save RESULT.json

Paragraphs of two, three and five short sentences are made of SOURCES and REFERENCES, as in
dropped_sentences.py. MODEL translates each; `repair` gets listeners chosen on CHOOSE, by attention
only. The judge had no part in that: REVERSE, a translator of the other direction, says of each
source sentence what share of its surprise is left, given the output (mean over its words, beside
that given nothing). More than half is left: the sentence is gone. Beside it chrF and BLEU of all
paragraphs, and how many healthy outputs were changed. --engine as in omissions_pairs.py.
"""

import argparse
import json
import random
from pathlib import Path

import sacrebleu
from dropped_sentences import SIZES, is_short
from omissions_pairs import drawn, hasten, lines, load, written

import dwindle
from dwindle.auditing.text import TextReader
from dwindle.runfiles import whole

GONE = 0.5


def paragraphs(
    sources: list[str], references: list[str], count: int, seed: int
) -> list[tuple[list[str], str]]:
    """Short sentences (6 to 14 words, the one end mark at the end) drawn without replacement, with
    their references."""
    short = [
        (source, reference)
        for source, reference in zip(sources, references, strict=True)
        if is_short(source)
    ]
    pool = list(dict(short).items())
    random.Random(seed).shuffle(pool)
    made = []
    for size in SIZES:
        for _ in range(count):
            some = [pool.pop() for _ in range(size)]
            made.append(
                ([source for source, _ in some], " ".join(reference for _, reference in some))
            )
    return made


def gone(
    judge: dwindle.Reverse, reader: TextReader, sentences: list[str], output: str
) -> list[bool]:
    """Whether more than half of the surprise of each sentence is left, given the output."""
    text, spans = reader.join(sentences)
    source = reader.read(text)
    (surprise,) = judge.surprise([source], [text], [output])
    told = []
    for start, end in spans:
        inside = [n for n, part in enumerate(source.parts) if start <= part.middle < end]
        given, nothing = surprise[inside].sum(0).tolist()
        told.append(given > GONE * nothing)
    return told


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("model", "reverse", "choose", "sources", "references"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--save", type=Path, required=True)
    parser.add_argument("--count", type=int, default=40, help="paragraphs of each size")
    parser.add_argument("--choose-items", type=int, default=160)
    parser.add_argument("--engine")
    asked = parser.parse_args()
    model, tokenizer = load(asked.model)
    hasten(asked.engine)
    reader, judge = TextReader(model, tokenizer), dwindle.Reverse(*load(asked.reverse))
    choose = lines(asked.choose)
    ordinary = [source for source, _ in drawn(choose, choose, asked.choose_items, seed=3)]
    listeners = dwindle.listeners(model, tokenizer, ordinary)
    made = paragraphs(lines(asked.sources), lines(asked.references), asked.count, seed=1)
    sources = [" ".join(sentences) for sentences, _ in made]
    before = written(reader, sources)
    after = dwindle.repair(model, tokenizer, sources, listeners, before)
    rows = []
    for size in SIZES:
        these = [n for n, (sentences, _) in enumerate(made) if len(sentences) == size]
        first, then = (
            {n: any(gone(judge, reader, made[n][0], text[n])) for n in these}
            for text in (before, after)
        )
        dropped = [n for n in these if first[n]]
        healthy = [n for n in these if not first[n]]
        rows.append(
            {
                "sentences": size,
                "paragraphs": len(these),
                "a sentence is gone": len(dropped),
                "mended": sum(not then[n] for n in dropped),
                "healthy outputs changed": sum(before[n] != after[n] for n in healthy),
                "newly gone": sum(then[n] for n in healthy),
            }
        )
    references = [[reference for _, reference in made]]
    scores = {
        name: {
            "chrF": sacrebleu.corpus_chrf(texts, references).score,
            "BLEU": sacrebleu.corpus_bleu(texts, references).score,
        }
        for name, texts in (("before", before), ("after", after))
    }
    result = {
        "model": asked.model.name,
        "judge": asked.reverse.name,
        "of": asked.sources.name,
        "rows": rows,
    } | scores
    whole.write_text(asked.save, json.dumps(result, indent=1) + "\n")
    print(asked.save.read_text())


if __name__ == "__main__":
    main()
