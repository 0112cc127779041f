"""fairseq's Transformer and BART as slow loops, from the equations of its ``modules``, with its
names of weights."""

import math

import torch
from torch.nn import functional as F

from tests.checkpoints.kit import affine, attend, norm

PAD, END = 1, 2
EPSILON = 1e-5


def sinusoid(position, width):
    """One row of SinusoidalPositionalEmbedding."""
    half = width // 2
    rates = [math.exp(-i * math.log(10000) / (half - 1)) for i in range(half)]
    return torch.tensor(
        [math.sin(position * r) for r in rates] + [math.cos(position * r) for r in rates]
    )


def embedded(w, part, ids, scale):
    """The first token stands at the padding's number + 1."""
    table = w[f"{part}.embed_tokens.weight"]
    learned = w.get(f"{part}.embed_positions.weight")
    rows = [
        table[i] * scale
        + (sinusoid(PAD + 1 + t, table.shape[1]) if learned is None else learned[PAD + 1 + t])
        for t, i in enumerate(ids)
    ]
    x = torch.stack(rows)
    after = f"{part}.layernorm_embedding"
    return norm(w, after, x, EPSILON) if f"{after}.weight" in w else x


def attention(w, name, x, memory, heads, causal=False):
    q, k, v = (
        affine(w, f"{name}.{p}_proj", y) for p, y in zip("qkv", (x, memory, memory), strict=True)
    )
    return affine(w, f"{name}.out_proj", attend(q, k, v, heads, causal))


def fed(w, layer, x, act):
    return affine(w, f"{layer}.fc2", act(affine(w, f"{layer}.fc1", x)))


def first(given, layer):
    """True if norms stand before the parts of this encoder's or decoder's layers."""
    return getattr(given, f"{layer.split('.')[0]}_normalize_before", False)


def before(w, given, layer, name, x):
    """What a part of a layer reads."""
    return norm(w, f"{layer}.{name}_layer_norm", x, EPSILON) if first(given, layer) else x


def after(w, given, layer, name, x):
    """What follows from ``x``, the sum of what a part read and made."""
    return x if first(given, layer) else norm(w, f"{layer}.{name}_layer_norm", x, EPSILON)


def last(w, part, x):
    """The norm after the last layer, where one is stored."""
    return norm(w, f"{part}.layer_norm", x, EPSILON) if f"{part}.layer_norm.weight" in w else x


def logits(w, given, source, read):
    """(T, V): the logits after each token that is read."""
    bart = "encoder.layernorm_embedding.weight" in w
    act = F.gelu if bart else F.relu
    scale = 1.0 if bart else math.sqrt(w["encoder.embed_tokens.weight"].shape[1])
    memory = embedded(w, "encoder", source, scale)
    for n in range(given.encoder_layers):
        p = f"encoder.layers.{n}"
        x = before(w, given, p, "self_attn", memory)
        y = attention(w, f"{p}.self_attn", x, x, given.encoder_attention_heads)
        memory = after(w, given, p, "self_attn", memory + y)
        y = fed(w, p, before(w, given, p, "final", memory), act)
        memory = after(w, given, p, "final", memory + y)
    memory = last(w, "encoder", memory)
    x = embedded(w, "decoder", read, scale)
    for n in range(given.decoder_layers):
        p, heads = f"decoder.layers.{n}", given.decoder_attention_heads
        y = before(w, given, p, "self_attn", x)
        y = attention(w, f"{p}.self_attn", y, y, heads, True)
        x = after(w, given, p, "self_attn", x + y)
        y = before(w, given, p, "encoder_attn", x)
        x = after(
            w, given, p, "encoder_attn", x + attention(w, f"{p}.encoder_attn", y, memory, heads)
        )
        x = after(w, given, p, "final", x + fed(w, p, before(w, given, p, "final", x), act))
    x = last(w, "decoder", x)
    return x @ w.get("decoder.embed_out", w["decoder.embed_tokens.weight"]).T


def searched(twin, beams=3, penalty=0.6, shortest=4, longest=30, first=None):
    """fairseq's SequenceGenerator for one source: (tokens) -> logits (T, V) -> the best hypothesis.

    Padding is never chosen; an end counts if it is among the first ``beams`` candidates; ``beams``
    finished hypotheses end the search; they are ranked by log-probability over length^penalty,
    their end counted. ``first`` is written first, whatever the model says of it (as BART's <s>;
    fairseq counts its log-probability, about 0 after training).
    """
    running, finished = [([END], 0.0)], []
    for step in range(longest):
        candidates = []
        for tokens, total in running:
            row = twin(tokens)[-1].log_softmax(-1)
            row[PAD] = -math.inf
            if step < shortest:
                row[END] = -math.inf
            if step == 0 and first is not None:
                row = torch.full_like(row, -math.inf).index_fill(0, torch.tensor(first), 0.0)
            candidates += [(total + p, [*tokens, i]) for i, p in enumerate(row.tolist())]
        top = sorted(candidates, key=lambda c: -c[0])[: 2 * beams]
        ended = [
            (p / (step + 1) ** penalty, tokens) for p, tokens in top[:beams] if tokens[-1] == END
        ]
        finished += ended[: beams - len(finished)]
        if len(finished) == beams:
            return max(finished)[1]
        running = [(tokens, p) for p, tokens in top if tokens[-1] != END][:beams]
    raise AssertionError("draw weights that end sooner")


def weights(draw, given, source, target, width=8, ffn=12):
    """Drawn, under the names of 2020; embeddings of ``source`` and ``target`` words."""
    w = {
        f"{part}.embed_tokens.weight": draw(n, width)
        for part, n in (("encoder", source), ("decoder", target))
    }
    for part, blocks in (("encoder", ["self_attn"]), ("decoder", ["self_attn", "encoder_attn"])):
        for n in range(getattr(given, f"{part}_layers")):
            p = f"{part}.layers.{n}"
            for block in blocks:
                for projection in ("q_proj", "k_proj", "v_proj", "out_proj"):
                    w |= draw.linear(f"{p}.{block}.{projection}", width, width)
                w |= draw.norm(f"{p}.{block}_layer_norm", width)
            w |= draw.linear(f"{p}.fc1", ffn, width) | draw.linear(f"{p}.fc2", width, ffn)
            w |= draw.norm(f"{p}.final_layer_norm", width)
        if getattr(given, f"{part}_normalize_before", False):
            w |= draw.norm(f"{part}.layer_norm", width)
    for name, value in w.items():
        if "proj.weight" in name or "fc" in name:
            value *= 6  # sharp attention
        if "decoder" in name and name.endswith(("encoder_attn.out_proj.weight", "fc2.weight")):
            value *= 6  # what is written depends on what is read
    return w


def ending(w, last, strength):
    """Let texts end: the decoder's ``last`` norm leans to the end token."""
    out = w.get("decoder.embed_out", w["decoder.embed_tokens.weight"])[END]
    w[f"{last}.bias"] += strength * out / out.norm()
