"""The pointer-generator as slow loops, straight from the equations of See et al. (2017): what the
tests compare with.

One source at a time, one step at a time, no padding, no logarithms. Takes the weights of a model in
float64.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from dwindle.core import reference
from dwindle.core.rules import Dim, DyDim, Plain


@dataclass
class Told:
    """T steps over one source of S words."""

    distribution: Tensor
    """(T, W)."""
    attention: Tensor
    """(T, S)."""
    weights: Tensor
    """(T, S)."""
    coverage_losses: Tensor
    """(T,)."""


def lstm(x, h, c, from_input, from_hidden, bias):
    """One step of Hochreiter and Schmidhuber's cell; the gates stand as input, forget, candidate,
    output."""
    z = from_input @ x + from_hidden @ h + bias
    i, f, g, o = z.split(len(z) // 4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def encode(model, ids):
    """h_i (S, 2H), and the decoder's first state."""
    encoder, size = model.encoder, model.config.hidden_size
    words = [encoder.embedding.weight[i] for i in ids]
    passes = []
    for suffix, order in (("", range(len(ids))), ("_reverse", reversed(range(len(ids))))):
        from_input = getattr(encoder.lstm, f"weight_ih_l0{suffix}")
        from_hidden = getattr(encoder.lstm, f"weight_hh_l0{suffix}")
        h = c = words[0].new_zeros(size)
        states = [h] * len(ids)
        for i in order:
            h, c = lstm(words[i], h, c, from_input[:, :-1], from_hidden, from_input[:, -1])
            states[i] = h
        passes.append((torch.stack(states), h, c))
    (forwards, h1, c1), (backwards, h2, c2) = passes
    h = torch.relu(encoder.reduce_hidden.weight @ torch.cat([h1, h2]) + encoder.reduce_hidden.bias)
    c = torch.relu(encoder.reduce_cell.weight @ torch.cat([c1, c2]) + encoder.reduce_cell.bias)
    return torch.cat([forwards, backwards], dim=1), h, c


def diminished(rule, attention, i, t):
    """The weight of position i at step t, from the attention (t + 1, S) up to it."""
    match rule:
        case Plain():
            return attention[t, i]
        case Dim():
            return reference.dim(rule.g, attention, i, t)
        case DyDim():
            return reference.dydim(rule.g1, rule.g2, attention, i, t)


def tell(model, ids, extended, read, width) -> Told:
    """The decoder over the words ``read``, by the equations."""
    config, decoder = model.config, model.decoder
    memory, h, c = encode(model, ids)
    context = torch.zeros_like(memory[0])
    attentions, weights, distributions, losses, energies = [], [], [], [], []
    for t, word in enumerate(read):
        known = word if word < config.vocab_size else config.unk_token_id
        x = (
            decoder.feed.weight @ torch.cat([model.encoder.embedding.weight[known], context])
            + decoder.feed.bias
        )
        size = len(x)
        h, c = lstm(
            x,
            h,
            c,
            decoder.gates.weight[:, :size],
            decoder.gates.weight[:, size:],
            decoder.gates.bias,
        )
        coverage = sum(attentions, start=torch.zeros_like(memory[:, 0]))  # c^t, Eq. 10
        energy = []
        for i in range(len(ids)):  # Eq. 1 and 11
            z = (
                model.encoder.keys.weight @ memory[i]
                + decoder.query.weight @ torch.cat([c, h])
                + decoder.query.bias
            )
            if config.coverage:
                z = z + decoder.covered.weight[:, 0] * coverage[i]
            energy.append(decoder.score.weight[0] @ torch.tanh(z))
        energy = torch.stack(energy)
        lifted = torch.exp(energy)
        if config.temporal and t:  # Paulus et al., Eq. 3
            lifted = lifted / sum(torch.exp(e) for e in energies)
        energies.append(energy)
        attentions.append(lifted / lifted.sum())  # Eq. 2
        losses.append(torch.minimum(attentions[-1], coverage).sum())  # Eq. 12
        so_far = torch.stack(attentions)
        weights.append(
            torch.stack([diminished(decoder.rule, so_far, i, t) for i in range(len(ids))])
        )
        # Eq. 3
        context = sum(weight * state for weight, state in zip(weights[-1], memory, strict=True))
        merged = model.merge.weight @ torch.cat([h, context]) + model.merge.bias
        # Eq. 4
        vocabulary = torch.softmax(model.vocabulary.weight @ merged + model.vocabulary.bias, 0)
        # Eq. 8
        p_gen = torch.sigmoid(
            model.switch.weight[0] @ torch.cat([context, c, h, x]) + model.switch.bias[0]
        )
        pointing = attentions[-1] if config.copy == "plain" else weights[-1] / weights[-1].sum()
        mixed = [p_gen * p for p in vocabulary] + [torch.zeros_like(p_gen)] * (
            width - len(vocabulary)
        )
        for i, id in enumerate(extended):  # Eq. 9
            mixed[id] = mixed[id] + (1 - p_gen) * pointing[i]
        distributions.append(torch.stack(mixed))
    return Told(*map(torch.stack, (distributions, attentions, weights, losses)))
