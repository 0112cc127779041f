"""How well omissions are told in transcripts of read speech.

    python benchmarks/omissions_speech.py MODEL CLIPS TRANSCRIPTS --save RESULT.json

MODEL is a folder of Whisper, CLIPS a folder of WAV files, TRANSCRIPTS a file of lines "name|text",
as LJ Speech has them. Listeners are chosen and calibrated on half of the clips, as
`dwindle.listeners` does, once with the model's own transcripts and once with those of people. Cases
are made of the other half:

- *word*: a stretch as long as a word is cut out of the sound before MODEL wrote, held against the
  whole sound.
- *sentence*: one of two joined clips is not written.
- *own*, *reference*, *joined*: nothing taken out.

What is scored is each fifth of a second. Intervals are 95 %, over clips.
"""

import argparse
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import transformers
from omissions_pairs import Case, finish, measured, table, told, written

import dwindle
from dwindle.auditing.sound import SoundReader, read_wave

CALIBRATED = ("own transcripts", "people's transcripts")
LONGEST = 14.0
"""Seconds of a clip: two of them fit into what Whisper reads."""


def clips_of(folder: Path, transcripts: Path) -> list[tuple[torch.Tensor, str]]:
    texts = dict(
        line.split("|")[:2] for line in transcripts.read_text(encoding="utf-8").splitlines() if line
    )
    found = [
        (read_wave(path), texts[path.stem])
        for path in sorted(folder.glob("*.wav"))
        if path.stem in texts
    ]
    return [(sound, text) for sound, text in found if len(sound) <= LONGEST * 16_000]


def cases_of(
    reader: SoundReader, clips: list[tuple[torch.Tensor, str]], rng: random.Random
) -> Iterator[Case]:
    own = written(reader, [sound for sound, _ in clips])  # type: ignore[arg-type]
    for n, ((sound, text), output) in enumerate(zip(clips, own, strict=True)):
        yield Case(n, "own", sound, output)  # type: ignore[arg-type]
        yield Case(n, "reference", sound, text)  # type: ignore[arg-type]
    for n in range(0, len(clips) - 1, 2):
        sound, spans = reader.join([clips[n][0], clips[n + 1][0]])
        left = rng.randrange(2)
        yield Case(n, "joined", sound, reader.join_outputs(own[n : n + 2]))  # type: ignore[arg-type]
        yield Case(n, "sentence", sound, own[n + 1 - left], spans[left])  # type: ignore[arg-type]
    less = [
        (n, sound, cut) for n, (sound, _) in enumerate(clips) if (cut := reader.shorten(sound, rng))
    ]
    rests = written(reader, [cut[0] for _, _, cut in less])  # type: ignore[misc]
    for (n, sound, (_, gone)), output in zip(less, rests, strict=True):
        yield Case(n, "word", sound, output, gone)  # type: ignore[arg-type]


def measure(asked: argparse.Namespace) -> dict[str, Any]:
    model = transformers.AutoModelForSpeechSeq2Seq.from_pretrained(asked.model).eval()
    processor = transformers.AutoProcessor.from_pretrained(asked.model)
    clips = clips_of(asked.clips, asked.transcripts)
    random.Random(1).shuffle(clips)
    half = len(clips) // 2
    sources, texts = ([clip[n] for clip in clips[:half]] for n in (0, 1))
    cases = list(cases_of(SoundReader(model, processor), clips[half:], random.Random(2)))
    result: dict[str, Any] = {
        "model": asked.model.name,
        "clips": [half, len(clips) - half],
        "cases": dict(Counter(case.kind for case in cases)),
        "dwindle": dwindle.__version__,
    }
    for name, outputs in zip(CALIBRATED, (None, texts), strict=True):
        listeners = dwindle.listeners(
            model,
            processor,
            sources,
            outputs,  # type: ignore[arg-type]
            intact=outputs is not None,
        )
        found = dwindle.omissions(
            model, processor, [(c.source, c.output) for c in cases], listeners
        )
        every = [
            told(one, case, listeners.part_threshold)
            for one, case in zip(found, cases, strict=True)
        ]
        result[name] = {
            "heads": [list(head) for head in listeners.heads],
            "held out": listeners.auroc,
            "measured": measured([one for one in every if one.score is not None]),
        }
    return result


def show(result: dict[str, Any]) -> None:
    columns = {
        "word AUROC": "AUROC of fifths of a second",
        "item AUROC": "of items",
        "alarmed": "alarmed",
    }
    for name in CALIBRATED:
        table(f"{result['model']}, calibrated on {name}", columns, result[name]["measured"])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("model", "clips", "transcripts"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--save", type=Path, required=True)
    asked = parser.parse_args()
    finish(measure(asked), asked.save, show)


if __name__ == "__main__":
    main()
