"""The settings, names of weights and dictionaries that fairseq's checkpoints of all years share."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors
from torch import Tensor
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from dwindle.checkpoints import safe
from dwindle.checkpoints.format import Checkpoint, layers, text

SPECIAL = {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>"}
"""The first symbols of every dictionary, in the order of their numbers."""
TOKENS = {"bos_token_id": 0, "pad_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
"""Their ids in a model's config: writing begins with the end token."""
_NORMS = {
    "encoder": ("self_attn_layer_norm", "final_layer_norm"),
    "decoder": ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm"),
}
"""Names of a layer's norms, by the number that older files have instead."""
_OLD_NORM = re.compile(r"^(encoder|decoder)(\.layers\.\d+)\.layer_norms\.(\d)\.(weight|bias)$")
_NORMED = 2
"""First version of encoders and decoders with a norm after the last layer."""
_NOT_LEARNED = re.compile(
    r"^(encoder|decoder)\.(version|embed_positions\.(_float_tensor|weights))$"
)


def is_fairseq(checkpoint: Checkpoint) -> bool:
    """True if this is a model of fairseq that reads and writes."""
    weights = checkpoint.content.get("model")
    said = "args" in checkpoint.content or "cfg" in checkpoint.content
    return (
        said
        and isinstance(weights, Mapping)
        and {"encoder.embed_tokens.weight", "decoder.embed_tokens.weight"} <= (weights.keys())
    )


def settings(checkpoint: Checkpoint) -> dict[str, Any]:
    """The model's settings: ``args`` until 2020, then the ``model`` of ``cfg``."""
    content = checkpoint.content
    found = safe.settings(content.get("args")) or safe.settings(
        safe.settings(content.get("cfg")).get("model")
    )
    if not found:
        raise ValueError(
            f"{checkpoint.file} does not say how its model was set up: it has no args and no cfg"
        )
    return found


def weights(stored: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The learned weights, under the names of today."""
    found: dict[str, Tensor] = {}
    for name, value in stored.items():
        if _NOT_LEARNED.search(name):
            continue
        if old := _OLD_NORM.match(name):
            part, layer, number, kind = old.groups()
            name = f"{part}{layer}.{_NORMS[part][int(number)]}.{kind}"
        head, joined, kind = name.partition("in_proj_")  # queries, keys and values were one matrix
        if joined:
            found |= {
                f"{head}{x}_proj.{kind}": third
                for x, third in zip("qkv", value.chunk(3), strict=True)
            }
        elif name == "decoder.embed_out":
            found["decoder.output_projection.weight"] = value
        else:
            found[name] = value
    return found


def final_norm(checkpoint: Checkpoint, part: str) -> bool:
    """True if a norm follows the last layer of the ``part``, whose norms stand first in each layer.

    Encoders and decoders that do so have had that norm since their version 2 (August 2018); a file
    without a version is older. fairseq 0.6 to 0.8 wrote version 2 and used whatever norm they
    stored; later ones leave the decoder's out, which was not so in training.
    """
    given, version = settings(checkpoint), _version(checkpoint, part)
    if not given.get(f"{part}_normalize_before") or version < _NORMED:
        return False
    if part == "encoder":
        return True
    if version == _NORMED:
        return "decoder.layer_norm.weight" in checkpoint.content["model"]
    return not given.get("no_decoder_final_norm")


def unused_norms(checkpoint: Checkpoint) -> list[str]:
    """Names of norms that are stored and that fairseq does not use, because the version beside them
    is older than such norms."""
    given, stored = settings(checkpoint), checkpoint.content["model"]
    return [
        name
        for part in _NORMS
        if given.get(f"{part}_normalize_before") and _version(checkpoint, part) < _NORMED
        for name in (f"{part}.layer_norm.weight", f"{part}.layer_norm.bias")
        if name in stored
    ]


def _version(checkpoint: Checkpoint, part: str) -> float:
    stored = checkpoint.content["model"].get(f"{part}.version")
    if stored is None:
        return 1.0
    if not isinstance(stored, Tensor) or stored.numel() != 1:
        raise ValueError(
            f"{checkpoint.file}: its {part}.version is not one number: get the file again"
        )
    return float(stored)


def shape(given: dict[str, Any], weights: Mapping[str, Tensor], file: Path) -> dict[str, Any]:
    """The sizes of a model as `transformers` names them: heads and dropout are settings, the rest
    is in the weights."""
    sides: dict[str, Any] = {}
    for part in ("encoder", "decoder"):
        heads = given.get(f"{part}_attention_heads")
        if not heads:
            raise ValueError(
                f"this checkpoint does not say how many heads its {part} has "
                f"({part}_attention_heads)"
            )
        ffn = weights[f"{part}.layers.0.fc1.weight"].shape[0]
        count = layers(weights, f"{part}.layers.", file)
        sides |= {f"{part}_layers": count, f"{part}_attention_heads": heads, f"{part}_ffn_dim": ffn}
    return {
        **sides,
        "d_model": weights["encoder.embed_tokens.weight"].shape[1],
        "dropout": given.get("dropout", 0.1),
        "attention_dropout": given.get("attention_dropout", 0.0),
        "activation_dropout": given.get("activation_dropout") or given.get("relu_dropout") or 0.0,
        "activation_function": given.get("activation_fn", "relu"),
    }


def dictionary(file: Path) -> list[str]:
    """The symbols of a dictionary, special ones first."""
    symbols = list(SPECIAL.values())
    for number, line in enumerate(text(file).split("\n"), 1):
        if line.strip():
            symbol, space, _ = line.removesuffix(" #fairseq:overwrite").rpartition(" ")
            if not space:
                raise ValueError(
                    f"{file}, line {number} is not a symbol and its count: get the dictionary again"
                )
            symbols.append(symbol)
    return symbols


def dictionaries(checkpoint: Checkpoint) -> tuple[Path, Path]:
    """The files of the source's and the target's dictionary.

    The checkpoint says its two languages, or the caller does. Where nobody says them, the
    dictionaries in the folder must all be the same: which of two different ones the model reads
    cannot be known from its weights.
    """
    source, target = languages(checkpoint)
    if source and target:
        files = (
            checkpoint.beside(f"dict.{name}.txt", what="the dictionary")
            for name in (source, target)
        )
        return next(files), next(files)
    first = checkpoint.beside("dict.txt", "dict.*.txt", what="the dictionary")
    found = sorted(file for file in checkpoint.file.parent.glob("dict.*.txt") if file.is_file())
    if any(file.read_bytes() != first.read_bytes() for file in found):
        names = ", ".join(file.name for file in found)
        raise ValueError(
            f"{checkpoint.file} does not say its languages, and its dictionaries differ ({names}): "
            "name them with --source-lang and --target-lang"
        )
    return first, first


def languages(checkpoint: Checkpoint) -> tuple[str | None, str | None]:
    """The source and the target language: of the checkpoint's settings, else of the caller."""
    task = safe.settings(safe.settings(checkpoint.content.get("cfg")).get("task"))
    stored = settings(checkpoint)
    found = []
    for name in ("source_lang", "target_lang"):
        said, asked = stored.get(name) or task.get(name), getattr(checkpoint, name)
        if said and asked and said != asked:
            option = f"--{name.replace('_', '-')}"
            raise ValueError(
                f"{checkpoint.file} says {name}={said}, not {asked}: leave {option} out"
            )
        found.append(said or asked)
    return found[0], found[1]


def check(file: Path, symbols: list[str], rows: int) -> None:
    """A dictionary must have as many symbols as the embedding has ``rows``."""
    if len(symbols) != rows:
        raise ValueError(
            f"{file} makes {len(symbols)} symbols, but the model has {rows}: put the model's own "
            "there"
        )


def wrapped(tokenizer: Tokenizer, template: str) -> PreTrainedTokenizerBase:
    """For `transformers`, with special tokens where ``template`` has them."""
    tokenizer.add_special_tokens(list(SPECIAL.values()))
    ends = [(token, number) for number, token in enumerate(SPECIAL.values())]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=ends)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **SPECIAL)
