"""What a model looked at, from the texts it wrote: the same as a record of its decoding."""

import pytest
import torch

from dwindle.attaching.carrier import attended
from dwindle.attaching.handle import handle_of
from dwindle.attaching.record import record
from tests.models.library_kit import PAIRS, built, spread


@pytest.mark.parametrize("kind", ["transformer", "bart", "bertsum"])
@pytest.mark.parametrize("rule", ["plain", "dim:log"])
def test_as_a_record_of_generate(kind, rule):
    model, codec = built(kind, rule=rule)
    spread(model)
    batch = codec.collate([codec.encode(*pair) for pair in PAIRS[:3]])
    source = {name: x for name, x in batch.items() if name != "labels"}
    how = {"num_beams": 4, "num_return_sequences": 2, "max_new_tokens": 9, "do_sample": False}
    with record(model.eval()) as records:
        sequences = model.generate(**source, **how)
    found = attended(model, batch, sequences)  # labels in the batch have no say
    assert found.layers == records[-1].layers
    assert len(found.layers) == (2 if rule == "plain" or kind == "bart" else 1)
    assert found.attention.shape[1:] == (6, sequences.shape[1] - 1, batch["input_ids"].shape[1])
    torch.testing.assert_close(found.attention, records[-1].attention)
    torch.testing.assert_close(found.weights, records[-1].weights)
    assert torch.equal(found.attention, found.weights) == (rule == "plain")
    assert (handle_of(model) is not None) == (rule != "plain")


def test_segments_are_seen():
    """A pair of models hands the segments of a source on to its encoder: a record without them
    would be another's."""
    model, codec = built("bertsum", rule="dim:log")
    spread(model)
    batch = codec.collate([codec.encode(*pair) for pair in PAIRS[:2]])
    sequences = torch.tensor([[1, 300, 301, 2], [1, 302, 2, 0]])
    found = attended(model, batch, sequences)
    with torch.no_grad():
        model.set_attn_implementation("eager")
        output = model.eval()(
            **{k: v for k, v in batch.items() if k != "labels"},
            decoder_input_ids=sequences[:, :-1],
            output_attentions=True,
        )
    torch.testing.assert_close(found.weights[0, 0], output.cross_attentions[1][0].mean(0))
    blind = {k: v for k, v in batch.items() if k != "token_type_ids"}
    assert not torch.allclose(attended(model, blind, sequences).weights, found.weights)


def test_rows_after_the_end_are_zero():
    model, codec = built("transformer", rule="dim:log")
    batch = codec.collate([codec.encode(*pair) for pair in PAIRS[:2]])
    found = attended(model, batch, torch.tensor([[0, 300, 301, 2], [0, 302, 2, 0]]))
    assert (found.weights[0, 1, 2] == 0).all()
    torch.testing.assert_close(found.attention[0, :, :2].sum(-1), torch.ones(2, 2))
