"""A tiny translator that copies, with one head that looks at the token it reads, and others that
look anywhere."""

import torch
import transformers as hf

from dwindle.models.subword import trained

WORDS = [
    "mayor",
    "bridge",
    "ferry",
    "ship",
    "child",
    "school",
    "river",
    "storm",
    "train",
    "market",
    "letter",
    "garden",
]
TEXTS = [" ".join(WORDS[(n + k * (1 + n % 4)) % len(WORDS)] for k in range(5)) for n in range(60)]
GOOD = (1, 0)
"""The head that looks where it should."""


def tokenizer():
    return trained(TEXTS, 320, "transformer")


def copier(vocabulary: int, listens: bool = True) -> hf.PreTrainedModel:
    """T5 whose states are its embeddings; with ``listens``, one head of its second layer matches
    equal tokens."""
    torch.manual_seed(0)
    config = hf.T5Config(
        **{
            "vocab_size": vocabulary,
            "d_model": 64,
            "d_kv": 64,
            "d_ff": 16,
            "num_layers": 2,
            "num_decoder_layers": 2,
        },
        **{"num_heads": 2, "decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 2},
    )
    model = hf.T5ForConditionalGeneration(config).eval()
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.endswith(("SelfAttention.o.weight", "EncDecAttention.o.weight", "wo.weight")):
                weight.zero_()  # nothing is added to the embeddings
        for block in model.decoder.block:
            block.layer[1].EncDecAttention.q.weight.normal_(std=0.02)
        if listens:
            cross = model.decoder.block[GOOD[0]].layer[1].EncDecAttention
            cross.q.weight[:64] = 0.5 * torch.eye(64)
            cross.k.weight[:64] = torch.eye(64)
    model.generate = lambda input_ids, **more: input_ids  # copies
    return model


def writer(vocabulary: int) -> hf.PreTrainedModel:
    """BART of random weights, large enough to write something else for each source."""
    torch.manual_seed(1)
    sizes = {"encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "max_position_embeddings": 32}
    sizes |= {f"{side}_{what}": n for side in ("encoder", "decoder") for what, n in HEADS.items()}
    special = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 2}
    config = hf.BartConfig(
        vocab_size=vocabulary, **sizes, **special, forced_eos_token_id=None, init_std=0.6
    )
    return hf.BartForConditionalGeneration(config).eval()


HEADS = {"attention_heads": 2, "ffn_dim": 16}
