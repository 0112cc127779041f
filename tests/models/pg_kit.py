"""A tiny pointer-generator with sharp attention, and a batch of three sources with words that it
does not know."""

import torch

from dwindle.models.pointer_generator.config import PointerGeneratorConfig
from dwindle.models.pointer_generator.model import PointerGenerator

V, H, E = 11, 5, 4
LENGTHS = (7, 5, 4)
SETTINGS = {
    "plain": {},
    "coverage": {"coverage": True},
    "temporal": {"temporal": True},
    "dim": {"rule": "dim:log"},
    "dydim": {"rule": "dydim:log,power(0.5)", "coverage": True},
    "bounded": {"rule": "dydim:boxcox(-2),boxcox(0.5)", "copy": "renormalised"},
    "renormalised": {
        "rule": "dim:boxcox(0)",
        "copy": "renormalised",
        "coverage": True,
        "temporal": True,
    },
}


def tiny(spread=0.8, dtype=torch.float64, **settings):
    """In eval mode, every weight drawn wide: on a nearly uniform attention a forgotten reorder
    passes unseen."""
    model = PointerGenerator(
        PointerGeneratorConfig(vocab_size=V, hidden_size=H, embedding_size=E, **settings)
    )
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * spread)
        model.decoder.score.weight.mul_(3)
    return model.eval().to(dtype)


def sources():
    """input_ids, attention_mask, extended_ids (3, 7). The first two sources have words outside the
    vocabulary."""
    extended = torch.tensor(
        [[5, 11, 6, 12, 11, 7, 5], [8, 9, 11, 9, 8, 0, 0], [6, 6, 10, 7, 0, 0, 0]]
    )
    mask = (torch.arange(7) < torch.tensor(LENGTHS)[:, None]).long()
    return {
        "input_ids": extended.where(extended < V, 1),
        "attention_mask": mask,
        "extended_ids": extended,
    }


def read():
    """decoder_input_ids (3, 5), copied words among them."""
    return torch.tensor([[2, 11, 5, 12, 6], [2, 9, 11, 8, 4], [2, 6, 10, 5, 5]])


def labels():
    """(3, 5), padded: copied words, words of vocabulary and source, of the vocabulary only, and the
    one of padding."""
    return torch.tensor([[11, 5, 12, 6, 3], [9, 11, 10, 3, -100], [6, 0, 3, -100, -100]])


def alone(batch, row, length):
    """One source of the batch, without its padding."""
    return {name: x[row : row + 1, :length] for name, x in batch.items()}
