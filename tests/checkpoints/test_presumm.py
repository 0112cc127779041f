"""PreSumm's abstractive checkpoints: the twin's numbers, sentences as it reads them, settings and
optimisers unread."""

import collections
import math
import sys
import types
from unittest import mock

import pytest
import torch
from torch.nn import functional as F

from dwindle.checkpoints.opening import opened
from dwindle.checkpoints.presumm import _renamed
from dwindle.generation.settings import DecodingSettings
from dwindle.models.subword import SubwordCodec
from tests.checkpoints.kit import (
    Draw,
    affine,
    attend,
    namespace,
    norm,
    same_beams,
    same_rows,
    searched,
)

WORDS = [
    "[PAD]",
    "[unused0]",
    "[unused1]",
    "[unused2]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "a",
    "cat",
    "sat",
    "##s",
    ".",
]
START, END = 1, 2
WIDTH, HEADS = 8, 2
SETTINGS = DecodingSettings(
    beams=3, max_length=20, min_length=4, length_norm="gnmt", alpha=0.95, stopping="top"
)
SOURCES = ["a cat sat .\ncats sat", "sat cat", "a a a .\na\ncat sat ."]


class Optimizer:
    """Stands for models.optimizers.Optimizer, which PreSumm stores whole."""

    __module__ = "models.optimizers"

    def __init__(self, weights):
        self.betas = [0.9, 0.999]
        self.params = [(name, torch.nn.Parameter(w)) for name, w in weights]
        self.optimizer = Adam([w for _, w in self.params])


class Adam:
    """Stands for torch.optim.Adam of PyTorch 1.1: its state goes by the parameters themselves."""

    __module__ = "torch.optim.adam"

    def __init__(self, parameters):
        self.defaults = {"lr": 0.002, "betas": (0.9, 0.999), "amsgrad": False}
        self.state = collections.defaultdict(dict)
        for p in parameters:
            self.state[p] = {
                "step": 3,
                "exp_avg": torch.zeros_like(p),
                "exp_avg_sq": torch.ones_like(p),
            }
        self.param_groups = [{**self.defaults, "params": parameters}]


def weights(draw, positions=24, words=None):
    rows, w = len(words or WORDS), {}
    w["bert.model.embeddings.word_embeddings.weight"] = draw(rows, WIDTH)
    w["bert.model.embeddings.position_embeddings.weight"] = draw(positions, WIDTH)
    w["bert.model.embeddings.token_type_embeddings.weight"] = draw(2, WIDTH)
    w |= draw.norm("bert.model.embeddings.LayerNorm", WIDTH)
    for n in range(2):
        p = f"bert.model.encoder.layer.{n}"
        for name in ("query", "key", "value"):
            w |= draw.linear(f"{p}.attention.self.{name}", WIDTH, WIDTH)
        w |= draw.linear(f"{p}.attention.output.dense", WIDTH, WIDTH) | draw.norm(
            f"{p}.attention.output.LayerNorm", WIDTH
        )
        w |= draw.linear(f"{p}.intermediate.dense", 12, WIDTH) | draw.linear(
            f"{p}.output.dense", WIDTH, 12
        )
        w |= draw.norm(f"{p}.output.LayerNorm", WIDTH)
    w |= draw.linear("bert.model.pooler.dense", WIDTH, WIDTH)
    w["decoder.embeddings.weight"] = draw(rows, WIDTH)
    w["decoder.pos_emb.pe"] = torch.zeros(1, 5000, WIDTH)
    for n in range(2):
        p = f"decoder.transformer_layers.{n}"
        w[f"{p}.mask"] = torch.ones(1, 9, 9).triu(1).byte()
        for block in ("self_attn", "context_attn"):
            for name in ("linear_keys", "linear_values", "linear_query", "final_linear"):
                w |= draw.linear(f"{p}.{block}.{name}", WIDTH, WIDTH)
        w |= draw.linear(f"{p}.feed_forward.w_1", 12, WIDTH) | draw.linear(
            f"{p}.feed_forward.w_2", WIDTH, 12
        )
        for name in ("feed_forward.layer_norm", "layer_norm_1", "layer_norm_2"):
            w |= draw.norm(f"{p}.{name}", WIDTH)
    w |= draw.norm("decoder.layer_norm", WIDTH)
    for name, value in w.items():
        if value.dim() > 1 and "embeddings" not in name and "mask" not in name:
            value *= 3
    w["generator.0.weight"], w["generator.0.bias"] = w["decoder.embeddings.weight"], draw(rows)
    w["generator.0.bias"][END] += 2
    return w


def write(folder, w=None, words=None, longest=10):
    """A folder as PreSumm's training leaves it; the weights, new ones if ``w`` is None."""
    w = weights(Draw(2)) if w is None else w
    opt = namespace(encoder="bert", dec_heads=HEADS, dec_dropout=0.2, max_tgt_len=longest)
    theirs = {
        "models": types.ModuleType("models"),
        "models.optimizers": types.ModuleType("models.optimizers"),
    }
    theirs["models.optimizers"].Optimizer = Optimizer
    names = ("bert.model.embeddings.LayerNorm.weight", "decoder.layer_norm.weight")
    optims = [Optimizer([(name, w[name].clone())]) for name in names]
    with mock.patch.dict(sys.modules, theirs), mock.patch("torch.optim.adam.Adam", Adam):
        torch.save(
            {"model": w, "opt": opt, "optims": optims},
            folder / "model_step_148000.pt",
            _use_new_zipfile_serialization=False,
        )
    (folder / "vocab.txt").write_text("\n".join(words or WORDS) + "\n")
    return w


def encoded(w, ids, segments):
    """BERT, one text: norms after the residuals, the exact GELU."""
    p = "bert.model.embeddings"
    tables = [w[f"{p}.{name}_embeddings.weight"] for name in ("word", "position", "token_type")]
    x = norm(
        w, f"{p}.LayerNorm", tables[0][ids] + tables[1][: len(ids)] + tables[2][segments], 1e-12
    )
    for n in range(2):
        p = f"bert.model.encoder.layer.{n}"
        q, k, v = (affine(w, f"{p}.attention.self.{name}", x) for name in ("query", "key", "value"))
        # Heads of a BERT are 64 wide; this one is narrower than that, so it has one.
        y = affine(w, f"{p}.attention.output.dense", attend(q, k, v, 1, False))
        x = norm(w, f"{p}.attention.output.LayerNorm", x + y, 1e-12)
        y = affine(w, f"{p}.output.dense", F.gelu(affine(w, f"{p}.intermediate.dense", x)))
        x = norm(w, f"{p}.output.LayerNorm", x + y, 1e-12)
    return x


def position(t):
    out = torch.zeros(WIDTH)
    for i in range(0, WIDTH, 2):
        rate = math.exp(-i * math.log(10000.0) / WIDTH)
        out[i], out[i + 1] = math.sin(t * rate), math.cos(t * rate)
    return out


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def logits(w, memory, read):
    """models/decoder.py for one text: (T, V)."""

    def attention(name, query, key, causal):
        q, k, v = (
            affine(w, f"{name}.linear_{kind}", x)
            for kind, x in (("query", query), ("keys", key), ("values", key))
        )
        return affine(w, f"{name}.final_linear", attend(q, k, v, HEADS, causal))

    x = torch.stack(
        [
            w["decoder.embeddings.weight"][i] * math.sqrt(WIDTH) + position(t)
            for t, i in enumerate(read)
        ]
    )
    for n in range(2):
        p = f"decoder.transformer_layers.{n}"
        inner = norm(w, f"{p}.layer_norm_1", x, 1e-6)
        query = attention(f"{p}.self_attn", inner, inner, True) + x
        mid = (
            attention(f"{p}.context_attn", norm(w, f"{p}.layer_norm_2", query, 1e-6), memory, False)
            + query
        )
        inner = norm(w, f"{p}.feed_forward.layer_norm", mid, 1e-6)
        x = (
            affine(w, f"{p}.feed_forward.w_2", gelu(affine(w, f"{p}.feed_forward.w_1", inner)))
            + mid
        )
    return affine(w, "generator.0", norm(w, "decoder.layer_norm", x, 1e-6))


def test_the_twins_numbers(tmp_path):
    w = write(tmp_path)
    found = opened(tmp_path)
    rows = [found.codec.encode(source) for source in SOURCES]
    batch = found.codec.collate(rows)
    memories = [encoded(w, row["input_ids"], row["token_type_ids"]) for row in rows]
    read = torch.tensor([[1, 8, 9, 3, 8], [1, 9, 11, 0, 0], [1, 12, 10, 10, 8]])
    told = [logits(w, m, r[:n]) for m, r, n in zip(memories, read.tolist(), (5, 3, 5), strict=True)]
    same_rows(found.model(**batch, decoder_input_ids=read).logits, told)
    best = [searched(lambda h, m=m: logits(w, m, h), SETTINGS, START, END) for m in memories]
    same_beams(found.model, batch, best, SETTINGS)


def test_the_twins_gradients(tmp_path):
    """Of every weight: the shared embedding has those of both its uses."""
    w = {
        name: value.double().requires_grad_()
        for name, value in write(tmp_path).items()
        if value.is_floating_point()
    }
    w["generator.0.weight"] = w["decoder.embeddings.weight"]
    found = opened(tmp_path)
    row = found.codec.encode(SOURCES[0])
    read = [1, 8, 9, 3, 8]
    told = logits(w, encoded(w, row["input_ids"], row["token_type_ids"]), read)
    model = found.model.double()
    output = model(**found.codec.collate([row]), decoder_input_ids=torch.tensor([read])).logits[0]
    weigh = Draw(5)(*output.shape).double()
    for x in (told, output):
        (x * weigh).sum().backward()
    own = dict(model.named_parameters())
    learned = [name for name in w if w[name].grad is not None and name != "generator.0.weight"]
    assert len(learned) == sum(p.requires_grad for p in own.values())
    for name in learned:
        torch.testing.assert_close(own[_renamed(name)].grad, w[name].grad, rtol=1e-4, atol=1e-5)


def test_a_text_as_presumm_reads_it(tmp_path):
    write(tmp_path)
    codec = opened(tmp_path).codec
    row = codec.encode("A cats .\nsat", "cat .\nsat dog")
    assert row["input_ids"] == [5, 8, 9, 11, 12, 6, 5, 10, 6]
    assert row["token_type_ids"] == [0] * 6 + [1] * 3
    assert row["labels"] == [9, 12, 3, 10, 4, END]
    # of 10 with its start; cut, it still ends
    assert codec.encode("a", "a " * 20)["labels"] == [8] * 8 + [END]
    assert len(codec.encode("a cat sat .\n" * 9)["input_ids"]) == 24


def test_words_end_at_spaces_only(tmp_path, monkeypatch):
    """others/tokenization.py without use_bert_basic_tokenizer: u.s. is one word, accents stay; so
    is it when saved."""
    monkeypatch.setattr(f"{__name__}.WORDS", [*WORDS, "u", "##.", "do", "not", "é", "e"])
    write(tmp_path)
    codec = opened(tmp_path).codec
    codec.save_pretrained(tmp_path / "saved")
    for one in (codec, SubwordCodec.from_pretrained(tmp_path / "saved")):
        row = one.encode("U.S. é\ncat, .", "U.S.")
        # "cat," has no ##, and is unknown
        assert row["input_ids"] == [5, 13, 14, 11, 14, 17, 6, 5, 4, 12, 6]
        assert row["labels"] == [13, 14, 11, 14, END]
        assert one.decode(torch.tensor([[13, 14, 11, 14, 15, 16, 9, 12, END]]), {}) == [
            "u.s. do not cat ."
        ]


def test_what_is_missing_or_other(tmp_path):
    write(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    with pytest.raises(ValueError, match=r"has no vocab\.txt, the vocabulary of BERT"):
        opened(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS[:-1]))
    with pytest.raises(ValueError, match="has 12 words, but the model 13"):
        opened(tmp_path)
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS).replace("[unused2]", "x"))
    with pytest.raises(ValueError, match=r"has no \[unused2\]"):
        opened(tmp_path)
    w = weights(Draw(2))
    extractive = {name: value for name, value in w.items() if name.startswith("bert.")}
    extractive |= Draw(1).linear("ext_layer.wo", 1, WIDTH)
    torch.save({"model": extractive, "opt": namespace()}, tmp_path / "model_step_148000.pt")
    with pytest.raises(ValueError, match="extractive"):
        opened(tmp_path)
