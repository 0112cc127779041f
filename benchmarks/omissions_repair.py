"""Whether choosing among hypotheses by what they leave out helps, judged by heads that had no part in the choice.

    python benchmarks/omissions_repair.py MODEL NEWSTEST LISTENERS ENGINE --year 2019 --items 150

ENGINE is a folder of the same translator for CTranslate2, which finds the hypotheses. The listeners' heads are dealt
out to two halves: one chooses, the other judges, and the other way round. Prints a table in Markdown: what is left out
by the judge, chrF and BLEU (sacrebleu), and differences to the first hypothesis with 95 % intervals over sentences.
"""

import argparse
from dataclasses import replace
from pathlib import Path

import ctranslate2
import numpy as np
import sacrebleu
import torch
from omissions import RESAMPLES, pairs_of
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import dwindle

BEAMS, WEIGHTS = 8, (0.05, 0.1, 0.2, 0.4)


def hypotheses(engine, tokenizer, sources: list[str]) -> list[list[tuple[str, float]]]:
    """The best of a beam search with their log-probabilities per token."""
    pieces = [tokenizer.convert_ids_to_tokens(tokenizer(source)["input_ids"][:-1]) for source in sources]
    how = {"beam_size": BEAMS, "num_hypotheses": BEAMS, "return_scores": True, "max_decoding_length": 200}
    told = engine.translate_batch(pieces, max_batch_size=8, **how)
    ids = [[tokenizer.convert_tokens_to_ids(tokens) for tokens in one.hypotheses] for one in told]
    texts = [tokenizer.batch_decode(some, skip_special_tokens=True) for some in ids]
    return [list(zip(some, one.scores, strict=True)) for some, one in zip(texts, told, strict=True)]


def scores(model, tokenizer, sources, found, listeners) -> np.ndarray:
    """(sources, BEAMS): what each hypothesis leaves out."""
    pairs = [(source, text) for source, some in zip(sources, found, strict=True) for text, _ in some]
    told = [one.score or 0.0 for one in dwindle.omissions(model, tokenizer, pairs, listeners)]
    return np.array(told).reshape(len(sources), BEAMS)


def line(name: str, picked: np.ndarray, found, judged: np.ndarray, references: list[str]) -> None:
    rows = np.arange(len(picked))
    texts = [found[n][k][0] for n, k in enumerate(picked)]
    left = judged[rows, picked] - judged[:, 0]
    gains = [
        sacrebleu.sentence_chrf(text, [reference]).score - sacrebleu.sentence_chrf(found[n][0][0], [reference]).score
        for n, (text, reference) in enumerate(zip(texts, references, strict=True))
    ]
    chrf = sacrebleu.corpus_chrf(texts, [references]).score
    bleu = sacrebleu.corpus_bleu(texts, [references]).score
    told = with_interval(left), f"{chrf:.2f}", with_interval(np.array(gains)), f"{bleu:.2f}"
    print(f"| {name} | {(picked > 0).mean():.2f} | {' | '.join(told)} |")


def with_interval(values: np.ndarray) -> str:
    drawn = np.random.default_rng(1).choice(values, (RESAMPLES, len(values))).mean(1)
    low, high = np.quantile(drawn, [0.025, 0.975])
    return f"{values.mean():+.2f} ({low:+.2f} to {high:+.2f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("model", "newstest", "listeners", "engine"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--year", type=int, default=2019)
    parser.add_argument("--items", type=int, default=150)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(asked.model)
    model = AutoModelForSeq2SeqLM.from_pretrained(asked.model).eval()
    listeners = dwindle.Listeners.load(asked.listeners)
    pairs = pairs_of(asked.newstest, asked.year, asked.items)
    sources, references = [source for source, _ in pairs], [reference for _, reference in pairs]
    engine = ctranslate2.Translator(str(asked.engine), compute_type="int8", intra_threads=1)
    found = hypotheses(engine, tokenizer, sources)
    likely = np.array([[score for _, score in some] for some in found])
    halves = [replace(listeners, heads=listeners.heads[k::2]) for k in (0, 1)]
    told = [scores(model, tokenizer, sources, found, half) for half in halves]
    columns = ("chosen by", "changed", "left out, by the other heads", "chrF", "chrF of a sentence", "BLEU")
    print(f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}")
    for choice, judge, half in ((0, 1, halves[0]), (1, 0, halves[1])):
        by = f"heads {list(half.heads)}"
        line(f"log-probability (beside {by})", likely.argmax(1) * 0, found, told[judge], references)
        for weight in WEIGHTS:
            picked = (likely - weight * told[choice]).argmax(1)
            line(f"{by}, weight {weight}", picked, found, told[judge], references)
        line(f"{by} alone", told[choice].argmin(1), found, told[judge], references)
    lengths = np.array([[len(text) for text, _ in some] for some in found])
    line("the longest", lengths.argmax(1), found, told[0], references)


if __name__ == "__main__":
    main()
