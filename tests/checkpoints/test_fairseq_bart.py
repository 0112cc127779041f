"""BART of fairseq: learned positions, a norm after embeddings, GPT-2's tokens under the
dictionary's numbers."""

import json

import pytest
import torch

from dwindle.checkpoints.opening import opened
from tests.checkpoints import fairseq_twin as twin
from tests.checkpoints.kit import BEAM, Draw, namespace, same_beams, same_rows

GPT2 = {"a": 0, "b": 1, "Ġ": 2, "c": 3, "ab": 4, "Ġa": 5, "<|endoftext|>": 6}
MERGES = "#version: 0.2\na b\nĠ a\n"
SYMBOLS = ["4", "1", "5", "2", "3", "madeupword0000"]
"""Of GPT-2's tokens the dictionary has no 'a'."""
IDS = [[0, 4, 5, 9, 2], [0, 6, 2], [0, 8, 7, 7, 2]]


def write(folder, masked=False, seed=7, ending=3.0, **more):
    """``masked``: with the mask's row, as before fine-tuning, and a dictionary without it."""
    heads = {"encoder_attention_heads": 2, "decoder_attention_heads": 2, "activation_fn": "gelu"}
    given = namespace(
        **heads,
        encoder_layers=2,
        decoder_layers=2,
        no_scale_embedding=True,
        arch="bart_large",
        **more,
    )
    draw, rows = Draw(seed), 4 + len(SYMBOLS)
    weights = twin.weights(draw, given, rows, rows)
    weights["decoder.embed_tokens.weight"] = weights["encoder.embed_tokens.weight"]
    for part in ("encoder", "decoder"):
        weights[f"{part}.embed_positions.weight"] = draw(40 + 2, 8)
        weights |= draw.norm(f"{part}.layernorm_embedding", 8)
    twin.ending(weights, "decoder.layers.1.final_layer_norm", ending)
    stored = {
        **weights,
        "encoder.version": torch.tensor([3.0]),
        "decoder.version": torch.tensor([3.0]),
    }
    stored["decoder.output_projection.weight"] = weights["decoder.embed_tokens.weight"]
    head = "classification_heads.mnli"
    stored[f"{head}.dense.weight"] = draw(8, 8)
    stored |= {f"{head}.{name}": torch.zeros(8) for name in ("dense.bias", "out_proj.bias")}
    stored[f"{head}.out_proj.weight"] = torch.zeros(8, 8)
    if masked:
        for name in [
            name for name in stored if "embed_tokens" in name or "output_projection" in name
        ]:
            stored[name] = torch.cat([stored[name], draw(1, 8)])
    torch.save({"args": given, "model": stored}, folder / "model.pt")
    (folder / "dict.txt").write_text("".join(f"{symbol} 1\n" for symbol in SYMBOLS))
    (folder / "encoder.json").write_text(json.dumps(GPT2))
    (folder / "vocab.bpe").write_text(MERGES)
    return weights, given


@pytest.mark.parametrize("masked", [False, True])
def test_the_twins_numbers(masked, tmp_path):
    weights, given = write(tmp_path, masked)
    weights = {name: value.double() for name, value in weights.items()}
    model = opened(tmp_path).model.double()
    ids = torch.nn.utils.rnn.pad_sequence([torch.tensor(i) for i in IDS], True, twin.PAD)
    batch = {"input_ids": ids, "attention_mask": (ids != twin.PAD).long()}
    read = torch.tensor([[2, 0, 4, 5], [2, 0, 6, 8], [2, 0, 9, 4]])
    told = [twin.logits(weights, given, s, r) for s, r in zip(IDS, read.tolist(), strict=True)]
    same_rows(model(**batch, decoder_input_ids=read).logits, told)
    # fairseq's BART writes <s> first, whatever it thinks of it.
    best = [twin.searched(lambda h, s=s: twin.logits(weights, given, s, h), first=0) for s in IDS]
    same_beams(model, batch, best, BEAM)


def test_texts(tmp_path):
    write(tmp_path)
    codec = opened(tmp_path).codec
    assert codec.encode("ab ac")["input_ids"] == [0, 4, 6, 8, 2]
    assert codec.encode("ab\nac")["input_ids"] == [0, 4, 6, 8, 2]  # it never saw a newline
    assert codec.encode("a")["input_ids"] == [0, 3, 2]
    assert codec.encode("b", "ab")["labels"] == [0, 4, 2]
    assert codec.decode(torch.tensor([[2, 0, 4, 6, 8, 2, 1]]), {}) == ["ab ac"]


def test_what_is_missing_or_other(tmp_path):
    for part in ("encoder", "decoder"):
        write(tmp_path, **{f"{part}_normalize_before": True})
        with pytest.raises(ValueError, match="is an mBART"):
            opened(tmp_path)
    write(tmp_path)
    (tmp_path / "vocab.bpe").unlink()
    with pytest.raises(ValueError, match=r"has no vocab\.bpe, GPT-2's vocabulary"):
        opened(tmp_path)
    (tmp_path / "vocab.bpe").write_text(MERGES)
    (tmp_path / "encoder.json").write_text("[1, 2]")
    with pytest.raises(ValueError, match="not GPT-2's"):
        opened(tmp_path)
