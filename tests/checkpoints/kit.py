"""What the tests of all formats share: weights that are drawn wide, and a model against a slow twin
of the original."""

import argparse
import io
import math
import pickle
import pickletools

import torch
from torch.nn import functional as F

from dwindle.generation.generate import generate
from dwindle.generation.settings import DecodingSettings
from tests.generation import slow

BEAM = DecodingSettings(beams=3, max_length=30, min_length=4, length_norm="alpha", alpha=0.6)


class Draw:
    """Random weights, from a seed."""

    def __init__(self, seed=0):
        self.generator = torch.Generator().manual_seed(seed)

    def __call__(self, *shape, by=0.5):
        return torch.randn(shape, generator=self.generator) * by

    def linear(self, name, rows, columns):
        return {f"{name}.weight": self(rows, columns), f"{name}.bias": self(rows)}

    def norm(self, name, width):
        return {f"{name}.weight": 1 + self(width, by=0.2), f"{name}.bias": self(width, by=0.2)}


def namespace(**given):
    """As the projects store their settings."""
    return argparse.Namespace(**given)


def python2(content, file):
    """Save as PyTorch under Python 2: texts are byte strings, numbers beyond 32 bits the text of
    opcode INT."""
    stored = io.BytesIO()
    torch.save(content, stored, _use_new_zipfile_serialization=False)
    whole, stored = stored.getvalue(), io.BytesIO(stored.getvalue())
    made, numbers = [], 0
    # a number, the protocol, the machine, the content, the keys of the storages
    for part in range(5):
        begin = stored.tell()
        found = list(pickletools.genops(stored))
        ends = [at for _, _, at in found[1:]] + [stored.tell()]
        for (opcode, value, at), end in zip(found, ends, strict=True):
            if opcode.name == "BINUNICODE":
                text = value.encode()
                short = len(text) < 256
                head = pickle.SHORT_BINSTRING if short else pickle.BINSTRING
                made.append(head + len(text).to_bytes(1 if short else 4, "little") + text)
            # the first is longer than 64 bits, which Python 2 writes like this
            elif opcode.name == "LONG1" and part:
                made.append(f"I{value}\n".encode())
                numbers += 1
            else:
                made.append(whole[at:end])
        assert begin < stored.tell()
    assert numbers, "no number beyond 32 bits"
    file.write_bytes(b"".join(made) + whole[stored.tell() :])


def affine(w, name, x):
    return F.linear(x, w[f"{name}.weight"], w[f"{name}.bias"])


def norm(w, name, x, epsilon):
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred / torch.sqrt(centred.square().mean(-1, keepdim=True) + epsilon)
    return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]


def attend(query, key, value, heads, causal):
    """(T, D) and (S, D), one head at a time."""
    size, out = query.shape[1] // heads, []
    for h in range(heads):
        q, k, v = (x[:, h * size : (h + 1) * size] for x in (query, key, value))
        scores = (q / math.sqrt(size)) @ k.T
        if causal:
            scores = scores.masked_fill(torch.ones_like(scores).triu(1).bool(), -math.inf)
        out.append(scores.softmax(-1) @ v)
    return torch.cat(out, 1)


def same_rows(logits, told, tolerance=1e-5):
    """Log-probabilities (N, T, V) of a padded batch against those of each item alone, (T', V)
    each."""
    for found, right in zip(logits, told, strict=True):
        found, right = found[: len(right), : right.shape[1]].log_softmax(-1), right.log_softmax(-1)
        torch.testing.assert_close(found, right, rtol=tolerance, atol=tolerance)


def same_beams(model, batch, expected, settings):
    """Decoded as a batch, against what slow searches found for each source."""
    found = generate(model, batch, settings).tolist()
    for row, right in zip(found, expected, strict=True):
        assert row[: len(right)] == right
    assert len({tuple(row) for row in found}) > 1


def searched(twin, settings, start, end):
    """The slow search of these settings over a twin: (tokens) -> logits (T, V)."""

    def look(hypotheses):
        return torch.stack([twin(h)[-1] for h in hypotheses]), torch.zeros(len(hypotheses), 1)

    return slow.best(look, settings, start, end)
