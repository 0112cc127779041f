"""How often a translator leaves a whole sentence out of a paragraph.

    python benchmarks/dropped_sentences.py MODEL SENTENCES.txt --save RESULT.json
    python benchmarks/dropped_sentences.py --show RESULT.json

MODEL is a folder or a hub name of a text-to-text model; SENTENCES.txt (or .gz) has one sentence a
line in the language that it reads. Short sentences (6 to 14 words, one end mark, at its end) are
drawn without replacement and joined to paragraphs of 2, 3 and 5. The model translates each
paragraph (with --beams), and each sentence by itself (greedily).

Two counts, because either alone could mislead:

- *fewer sentences*: the output has fewer end marks than the paragraph has sentences. It counts two
  sentences that were joined by a comma as one.
- *a sentence is gone*: of the words of more than three letters in the translation of some sentence
  by itself, the translation of the paragraph has at most a quarter. It misses a sentence that
  shares its words with another, and counts one that is said in quite different words.

The results hold the counts and the settings, not the texts: those belong to their publishers.
"""

import argparse
import json
import platform
import random
import re
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from dwindle.runfiles import whole
from dwindle.runfiles.text_lines import texts

SIZES = (2, 3, 5)
KEPT = 0.25
"""At most this share of a sentence's longer words in the output: it is gone."""
_END = re.compile(r"[.!?…]+[\"'»”)]*(?=\s|$)")
_WORD = re.compile(r"\w+")


def short_sentences(path: Path) -> list[str]:
    """Lines of 6 to 14 words that end with the one end mark in them."""
    return list(dict.fromkeys(line for line in map(str.strip, texts(path)) if is_short(line)))


def is_short(line: str) -> bool:
    return 6 <= len(line.split()) <= 14 and bool(re.fullmatch(r"[A-Z][^.!?:;…\"]*[.!?]", line))


def sentences(text: str) -> int:
    """How many end marks a text has."""
    return len(_END.findall(text))


def is_gone(alone: str, output: str) -> bool:
    """Whether the output has at most a quarter of the longer words of a sentence's own
    translation."""
    words = {word for word in _WORD.findall(alone.lower()) if len(word) > 3}
    return bool(words) and len(words & set(_WORD.findall(output.lower()))) <= KEPT * len(words)


def translated(model: Any, tokenizer: Any, texts: list[str], beams: int, batch: int) -> list[str]:
    """The model's outputs; texts of like length go together."""
    order = sorted(range(len(texts)), key=lambda n: len(texts[n]))
    found: dict[int, str] = {}
    start = time.monotonic()
    for k in range(0, len(order), batch):
        some = order[k : k + batch]
        inputs = tokenizer([texts[n] for n in some], return_tensors="pt", padding=True)
        outputs = model.generate(**inputs, num_beams=beams, max_length=512)
        found.update(
            zip(some, tokenizer.batch_decode(outputs, skip_special_tokens=True), strict=True)
        )
        print(
            f"\r{len(found)} of {len(texts)}, {time.monotonic() - start:.0f} s", end="", flush=True
        )
    print()
    return [found[n] for n in range(len(texts))]


def measure(
    name: str, file: Path, beams: int, paragraphs: int, seed: int, batch: int
) -> dict[str, Any]:
    """Counts for paragraphs of each size."""
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(name).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    pool = short_sentences(file)
    drawn = random.Random(seed).sample(pool, paragraphs * sum(SIZES))
    groups: list[list[str]] = []
    for size in SIZES:
        groups += [[drawn.pop() for _ in range(size)] for _ in range(paragraphs)]
    alone = iter(translated(model, tokenizer, [s for group in groups for s in group], 1, batch))
    singles = [[next(alone) for _ in group] for group in groups]
    written = translated(model, tokenizer, [" ".join(group) for group in groups], beams, batch)
    rows = []
    for size in SIZES:
        these = [n for n, group in enumerate(groups) if len(group) == size]
        fewer = [sentences(written[n]) < size for n in these]
        gone = [[is_gone(one, written[n]) for one in singles[n]] for n in these]
        rows.append(
            {
                "sentences": size,
                "paragraphs": len(these),
                "fewer_sentences": sum(fewer),
                "a_sentence_gone": sum(map(any, gone)),
                "both": sum(any(g) and f for g, f in zip(gone, fewer, strict=True)),
                "last_sentence_gone": sum(g[-1] for g in gone),
            }
        )
    return {
        "model": Path(name).name,
        "file": file.name,
        "pool": len(pool),
        "beams": beams,
        "seed": seed,
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "tf": transformers.__version__,
        },
        "rows": rows,
    }


def table(result: dict[str, Any]) -> str:
    """The counts as Markdown."""
    lines = [
        "| sentences in the paragraph | paragraphs | fewer sentences in the output | a sentence "
        "is gone | both | the last one is gone |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [
        "| " + " | ".join(str(value) for value in row.values()) + " |" for row in result["rows"]
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?")
    parser.add_argument("sentences", nargs="?", type=Path)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--paragraphs", type=int, default=40, help="of each size")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--save", type=Path)
    parser.add_argument(
        "--show", type=Path, help="print the table of saved results, and measure nothing"
    )
    given = parser.parse_args()
    if given.show:
        result = json.loads(given.show.read_text(encoding="utf-8"))
    elif given.model and given.sentences:
        result = measure(
            given.model, given.sentences, given.beams, given.paragraphs, given.seed, given.batch
        )
        if given.save:
            whole.write_json(given.save, result)
    else:
        parser.error("name a model and a file of sentences, or saved results with --show")
    print(table(result))
