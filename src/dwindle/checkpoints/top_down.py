"""The Top-Down captioner of self-critical.pytorch and image-paragraph-captioning: ``model.pth`` and
``infos_ID.pkl``.

There the number 0 starts, ends and pads a text; here each has a word of its own, so its row is
taken three times.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from dwindle.checkpoints import safe
from dwindle.checkpoints.format import Checkpoint, Format, Opened, made, weight
from dwindle.models.top_down import TopDown, TopDownConfig
from dwindle.models.top_down_codec import RegionCodec
from dwindle.models.vocabulary import END, PAD, SPECIAL, START, UNK, Vocabulary

_ZERO = 0
_UNKNOWN = "UNK"
_NEVER = -1e4
"""The logit of a word that is never written."""
_LAYERS = {
    "att_embed.0": "encoder.regions.0",
    "fc_embed.0": "encoder.pooled.0",
    "ctx2att": "encoder.keys",
    "core.attention.h2att": "decoder.query",
    "core.attention.alpha_net": "decoder.score",
    "logit": "output",
}
_CELLS = {"core.att_lstm": "decoder.attention_lstm", "core.lang_lstm": "decoder.language_lstm"}


def _fits(checkpoint: Checkpoint) -> bool:
    return "core.att_lstm.weight_ih" in checkpoint.content


def _open(checkpoint: Checkpoint) -> Opened:
    infos = checkpoint.beside("infos*.pkl", "*infos*.pkl", what="the settings and the vocabulary")
    given, vocabulary = _infos(infos)
    if given.get("use_bn") or given.get("logit_layers", 1) != 1:
        raise ValueError(
            f"{checkpoint.file} has batch norms or several output layers, which is not known here"
        )
    words = [vocabulary[str(i)] for i in range(1, len(vocabulary) + 1)]
    weights = _weights(checkpoint.content, words, checkpoint.file)
    features = weights["encoder.regions.0.weight"].shape[1]
    config = TopDownConfig(
        vocab_size=len(weights["output.bias"]),
        feature_size=features,
        hidden_size=len(weights["encoder.regions.0.bias"]),
        embedding_size=weights["decoder.embed.0.weight"].shape[1],
        attention_size=len(weights["encoder.keys.bias"]),
        dropout=given.get("drop_prob_lm", 0.5),
    )
    model = made(TopDown, config, weights, checkpoint)
    kept = Vocabulary([word for word in words if word != _UNKNOWN])
    codec = RegionCodec(kept, features, config.max_regions, given.get("seq_length") or 175)
    return Opened(model, codec, f"a Top-Down captioner of {len(words):,} words")


def _infos(file: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The settings, and the words by their numbers as text."""
    infos = safe.pickle_file(file)
    vocabulary = infos.get("vocab") if isinstance(infos, dict) else None
    if not isinstance(vocabulary, dict) or set(map(str, vocabulary)) != {
        str(i + 1) for i in range(len(vocabulary))
    }:
        raise ValueError(
            f"{file} has no vocabulary with the numbers 1, 2, 3, ...: name the infos of this model"
        )
    return safe.settings(infos.get("opt")), {
        str(number): word for number, word in vocabulary.items()
    }


def _weights(stored: Mapping[str, Tensor], words: list[str], file: Path) -> dict[str, Tensor]:
    weights = {
        f"{ours}.{kind}": weight(stored, f"{theirs}.{kind}", file)
        for theirs, ours in _LAYERS.items()
        for kind in ("weight", "bias")
    }
    for theirs, ours in _CELLS.items():
        for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            weights[f"{ours}.{kind}"] = weight(stored, f"{theirs}.{kind}", file)
    embedding = weight(stored, "embed.0.weight", file)
    if len(embedding) != len(words) + 1:
        raise ValueError(
            f"{file} has {len(embedding) - 1} words, but its infos {len(words)}: put its own "
            "infos beside it"
        )
    hidden = len(weights["encoder.regions.0.bias"])
    # There (written, mean, word), here (written, word, mean).
    widths = [hidden, hidden, embedding.shape[1]]
    columns = torch.split(weights["decoder.attention_lstm.weight_ih"], widths, 1)
    weights["decoder.attention_lstm.weight_ih"] = torch.cat([columns[0], columns[2], columns[1]], 1)
    rows = _rows(words)
    weights["decoder.embed.0.weight"] = embedding[rows]
    weights["output.weight"] = weights["output.weight"][rows]
    weights["output.bias"] = weights["output.bias"][rows]
    never = [PAD, START] if _UNKNOWN in words else [PAD, START, UNK]
    weights["output.weight"][never], weights["output.bias"][never] = 0, _NEVER
    return weights


def _rows(words: list[str]) -> list[int]:
    """For each of our words, the index of its row in their table."""
    special = [_ZERO] * len(SPECIAL)
    if _UNKNOWN in words:
        special[UNK] = words.index(_UNKNOWN) + 1
    assert special[START] == special[END] == _ZERO
    return special + [i for i, word in enumerate(words, 1) if word != _UNKNOWN]


FORMAT = Format("a Top-Down captioner", _fits, _open)
