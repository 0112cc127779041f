"""The picture of the README: a paragraph whose last sentence a published translator leaves out,
with that marked.

    python docs/demo/omission.py Helsinki-NLP/opus-mt-en-fr  # everything, some minutes
    python docs/demo/omission.py                             # only draw, from the findings there

Writes ``letters.jsonl``, three paragraphs, and ``sentences.jsonl``, 48 ordinary sentences, each
with the model's translation (4 beams); lets ``dwindle omissions`` choose heads on the sentences and
mark what the letters leave out, by the command that the README shows; and draws the letter with the
highest score. The English texts were written for this project.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from dwindle.report.still import still
from dwindle.runfiles import whole
from dwindle.runfiles.run import ears_of

HERE = Path(__file__).parent
LETTERS, SENTENCES, FINDINGS = "letters.jsonl", "sentences.jsonl", "letters.omissions.jsonl"
BEAMS = 4


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", nargs="?", help="a folder or a name on the hub")
    given = parser.parse_args()
    if given.model:
        translate(given.model)
        audit(given.model)
    letters, findings = _read(HERE / LETTERS), _read(HERE / FINDINGS)
    worst = max(findings, key=lambda found: found["score"])
    letter = next(one for one in letters if one["id"] == worst["id"])
    whole.write_text(HERE / "omission.svg", drawn(letter, worst))


def audit(name: str) -> None:
    """The command of the README, with heads that are chosen anew."""
    ears_of(HERE / FINDINGS).unlink(missing_ok=True)
    command = [
        sys.executable,
        "-m",
        "dwindle.cli.main",
        "omissions",
        str(HERE / LETTERS),
        "--model",
        name,
    ]
    subprocess.run([*command, "--intact", str(HERE / SENTENCES)], check=True)


def translate(name: str) -> None:
    """Write both files, with what the model writes of their texts."""
    from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

    model, tokenizer = (
        AutoModelForSeq2SeqLM.from_pretrained(name).eval(),
        AutoTokenizer.from_pretrained(name),
    )
    sentences = (HERE / "sentences.txt").read_text(encoding="utf-8").splitlines()
    letters = {file: (HERE / f"{file}.txt").read_text(encoding="utf-8").strip() for file in TEXTS}
    for file, texts in ((LETTERS, letters), (SENTENCES, dict(enumerate(sentences, 1)))):
        lines = []
        for id, source in texts.items():
            outputs = model.generate(
                **tokenizer([source], return_tensors="pt"), num_beams=BEAMS, max_length=512
            )
            output = tokenizer.decode(outputs[0], skip_special_tokens=True)
            lines.append(
                json.dumps(
                    {"id": str(id), "source": source, "hypothesis": output}, ensure_ascii=False
                )
                + "\n"
            )
        whole.write_text(HERE / file, "".join(lines))


TEXTS = ("tenancy", "leaflet", "patient")


def drawn(letter: dict[str, Any], found: dict[str, Any]) -> str:
    """The source with its marks on the left, the output on the right, as SVG."""
    said = "Alarm: something is missing" if found["alarm"] else "No alarm"
    spans = [(span["start"], span["end"]) for span in found["spans"]]
    names = ("The English source", "What the translator wrote")
    return still(
        letter["source"],
        letter["hypothesis"],
        spans,
        f"{said} (score {found['score']:.1f})",
        names,
        found["alarm"],
    )


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    main()
