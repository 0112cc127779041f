"""A tiny random encoder and pairs of texts for MoverScore: the same for our code and for its
authors'."""

from pathlib import Path
from random import Random

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

WIDTH, LENGTH = 16, 32
STOP = ("the", "a")
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = """the mayor closed bridge ferry went child ##ren ##s a river town clerk open ##ed
##ing road storm under ##water . , ! ( ) -""".split()  # noqa: SIM905
WHOLE = """the mayor closed bridge bridges ferry went children a river towns clerk opened
opening road storms underwater . , ! ( ) nowhere The MAYOR é""".split()  # noqa: SIM905
"""What texts are made of: whole words, words of pieces, signs, and words that the vocabulary
lacks."""
EMPTY = 5
"""The last pairs, whose output is empty. (An empty reference is refused.)"""


def write(folder: Path) -> None:
    """A BERT of random weights and its WordPiece tokenizer, in the files of both the old and the
    new library."""
    vocabulary = {piece: i for i, piece in enumerate([*SPECIAL, *WORDS])}
    (folder / "vocab.txt").write_text("\n".join(vocabulary) + "\n", encoding="utf-8")
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, **names, model_max_length=LENGTH
    ).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=WIDTH,
        num_hidden_layers=6,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
    )
    BertModel(config).save_pretrained(folder)


def pairs() -> list[tuple[str, str]]:
    """135 pairs of output and reference: drawn ones, of one word, repeated, equal, longer than the
    encoder, empty."""
    random = Random(5)

    def text(least: int, most: int) -> str:
        return " ".join(random.choices(WHOLE, k=random.randint(least, most)))

    drawn = [(text(3, 14), text(3, 14)) for _ in range(80)]
    drawn += [(word, text(1, 5)) for word in WHOLE[:15]]
    drawn += [(" ".join(["the ferry"] * n), text(2, 6)) for n in range(1, 9)]
    drawn += [(same := text(2, 9), same) for _ in range(7)]
    drawn += [drawn[i] for i in (0, 0, 0, 1, 90)]  # texts that are there several times
    drawn += [(text(40, 60), text(40, 60)) for _ in range(5)] + [
        (". , !", text(2, 5)),
        (text(2, 5), ". ( ) !"),
    ]
    drawn += [(text(1, 2), text(1, 2)) for _ in range(8)]
    return [*drawn, *(("", text(2, 5)) for _ in range(EMPTY))]
