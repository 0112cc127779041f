"""A tiny captioner with sharp attention, three images, and the model's equations in loops."""

import torch

from dwindle.core.notation import rule
from dwindle.core.reference import dim, dydim
from dwindle.models.top_down import TopDown, TopDownConfig

V, D, H, E, A = 11, 3, 5, 4, 6
LENGTHS = (7, 5, 4)
RULES = ["plain", "dim:log(1.9)", "dydim:log,power(0.5)"]


def tiny(rule="plain", dtype=torch.float64, **settings):
    """In eval mode, weights wide and attention sharp: on a nearly uniform one a forgotten reorder
    passes unseen."""
    sizes = {
        "vocab_size": V,
        "feature_size": D,
        "hidden_size": H,
        "embedding_size": E,
        "attention_size": A,
    }
    model = TopDown(TopDownConfig(**sizes, rule=rule, **settings))
    generator = torch.Generator().manual_seed(32)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator))
        for sharpened, times in (
            (model.decoder.query, 3),
            (model.decoder.score, 3),
            (model.output, 2),
        ):
            sharpened.weight.mul_(times)
        # special words are rare
        model.output.bias.copy_(torch.tensor([-6.0, -6, -6, -3, 0, 0, 0, 0, 0, 0, 0]))
    return model.eval().to(dtype)


def images(dtype=torch.float64):
    """features (3, 7, 3) with rubbish in the padding, attention_mask (3, 7)."""
    features = torch.randn(3, 7, D, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    mask = (torch.arange(7) < torch.tensor(LENGTHS)[:, None]).long()
    return {"features": features.to(dtype), "attention_mask": mask}


def read():
    """decoder_input_ids (3, 5)."""
    return torch.tensor([[2, 10, 5, 9, 6], [2, 9, 5, 8, 4], [2, 6, 10, 5, 5]])


def labels():
    """(3, 5), padded."""
    return torch.tensor([[10, 5, 9, 6, 3], [9, 5, 10, 3, -100], [6, 3, -100, -100, -100]])


def told(model, features, words):
    """The equations of Anderson et al. (2018, section 3.2) for one image (S, D) and words (T,):
    logits (T, V), attention and weights (T, S). One region and one gate at a time."""
    w = dict(model.named_parameters())

    def linear(name, x):
        return w[f"{name}.weight"] @ x + w[f"{name}.bias"]

    def lstm(name, x, h, c):
        gates = (
            w[f"{name}.weight_ih"] @ x
            + w[f"{name}.bias_ih"]
            + w[f"{name}.weight_hh"] @ h
            + w[f"{name}.bias_hh"]
        )
        i, f, g, o = gates[:H], gates[H : 2 * H], gates[2 * H : 3 * H], gates[3 * H :]
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c

    regions = [torch.relu(linear("encoder.regions.0", v)) for v in features]
    mean = torch.relu(linear("encoder.pooled.0", sum(features) / len(features)))
    h1 = c1 = h2 = c2 = torch.zeros(H, dtype=features.dtype)
    attention, weights, logits = [], [], []
    for word in words:
        embedded = torch.relu(w["decoder.embed.0.weight"][word])
        h1, c1 = lstm("decoder.attention_lstm", torch.cat([h2, embedded, mean]), h1, c1)
        scores = [
            linear(
                "decoder.score", torch.tanh(linear("encoder.keys", v) + linear("decoder.query", h1))
            )[0]
            for v in regions
        ]
        exps = [torch.exp(s) for s in scores]
        attention.append(torch.stack([e / sum(exps) for e in exps]))
        weights.append(diminished(model.config.rule, torch.stack(attention)))
        seen = sum(weight * v for weight, v in zip(weights[-1], regions, strict=True))
        h2, c2 = lstm("decoder.language_lstm", torch.cat([seen, h1]), h2, c2)
        logits.append(linear("output", h2))
    return torch.stack(logits), torch.stack(attention), torch.stack(weights)


def diminished(text, attention):
    """The last row of attention (T, S), diminished by the paper's equations: (S,)."""
    named, last = rule(text), len(attention) - 1
    if not named.functions:
        return attention[-1]
    slow = dim if len(named.functions) == 1 else dydim
    return torch.stack(
        [slow(*named.functions, attention, i, last) for i in range(attention.shape[1])]
    )
