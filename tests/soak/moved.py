"""Encoder outputs that were reordered, repeated or overwritten: special tokens follow, or the call
is refused."""

from pathlib import Path
from random import Random

import torch
from transformers.modeling_outputs import BaseModelOutput

import dwindle
from tests.attaching import small

RULES = ["training-free", "dim:log+protect(special)", "dydim:log,power(0.5)+protect(special)"]


def trial(random: Random, folder: Path) -> int:
    # rounding is no excuse
    model = random.choice([small.bart, small.t5])(random.randrange(1000)).double()
    dwindle.attach(model, random.choice(RULES))
    items, width = random.randint(1, 4), random.randint(2, 8)
    ids = torch.tensor(
        [[random.choice([small.END, 0, *range(4, 12)]) for _ in range(width)] for _ in range(items)]
    )
    order = [random.randrange(items) for _ in range(random.randint(1, 6))]
    with torch.no_grad():
        encoded = model.get_encoder()(input_ids=ids, return_dict=True)
        rows = small.target(5, len(order), seed=random.randrange(1000))
        right = model(input_ids=ids[order], decoder_input_ids=rows, use_cache=False).logits
        moved = encoded.last_hidden_state[order]
        kind = random.choice(["put back", "all", "storage", "unknown"])
        if kind == "put back":
            encoded["last_hidden_state"] = moved
        elif kind == "all":
            for name in encoded:
                encoded[name] = encoded[name][order]
        elif kind == "storage":
            buffer = encoded.last_hidden_state
            order = [random.randrange(items) for _ in range(items)]
            buffer.copy_(buffer[order].clone())
            rows = small.target(5, items, seed=random.randrange(1000))
            right = model(input_ids=ids[order], decoder_input_ids=rows, use_cache=False).logits
            encoded = BaseModelOutput(buffer)
        else:
            encoded["last_hidden_state"] = moved + 0.25
        found = _logits(model, encoded, rows)
    if kind == "unknown":
        assert found is None, "states that no encoder gave were taken for a source"
        return 1
    assert found is not None, f"{kind}: refused"
    torch.testing.assert_close(found, right, rtol=0, atol=1e-9 * float(right.abs().max()))
    return 1


def _logits(model, encoded, rows) -> torch.Tensor | None:
    """None if the model refuses the states."""
    try:
        return model(encoder_outputs=encoded, decoder_input_ids=rows, use_cache=False).logits
    except ValueError:
        return None
