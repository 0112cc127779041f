"""A codec for the tiny model of ``slow``: words are numbers. And a corpus of them."""

import json
import random

import torch

from dwindle.data.example import Example
from dwindle.generation.settings import DecodingSettings
from tests.generation import slow

SETTINGS = DecodingSettings(beams=3, max_length=8, batch_size=4)


class Numbers:
    """Sources of up to ``longest`` numbers."""

    def __init__(self, longest=10):
        self.longest = longest

    def encode(self, source, target=None):
        words = [int(word) for word in source.split()]
        return {"input_ids": words[: self.longest], "cut": len(words) > self.longest}

    def collate(self, rows):
        width = max(len(row["input_ids"]) for row in rows)
        ids = torch.tensor(
            [row["input_ids"] + [slow.PAD] * (width - len(row["input_ids"])) for row in rows]
        )
        return {"input_ids": ids, "attention_mask": (ids != slow.PAD).long()}

    def decode(self, sequences, batch):
        return [
            " ".join(str(i) for i in row[1:] if i not in (slow.PAD, slow.END))
            for row in sequences.tolist()
        ]

    def source_tokens(self, source):
        return [str(i) for i in self.encode(source)["input_ids"]]

    def save_pretrained(self, folder):
        (folder / "numbers.json").write_text(json.dumps(self.longest))


def corpus(count=11, seed=0):
    """The lengths differ, and lie in no order."""
    draw = random.Random(seed)
    texts = [
        " ".join(str(draw.randrange(4, slow.WORDS)) for _ in range(draw.randrange(2, 13)))
        for _ in range(count)
    ]
    return [
        Example(
            f"n{i}", text, ("4 5",) if i % 2 else ("4", "5"), {"world": "x"} if i == 1 else None
        )
        for i, text in enumerate(texts)
    ]
