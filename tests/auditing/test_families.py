"""The whole way, from sources to findings, with a tiny untrained model of every family and its own
tokenizer."""

import inspect
import string
from dataclasses import replace

import pytest
import torch
import transformers as hf

import dwindle
from dwindle.auditing.text import TextReader
from tests.attaching.makers import BART, T5
from tests.auditing import small

LETTERS = ["▁", *string.ascii_lowercase]


def trained():
    return small.tokenizer()


def nllb():
    if "vocab" not in inspect.signature(hf.NllbTokenizer).parameters:
        pytest.skip("this release makes such a tokenizer from a file of SentencePiece only")
    vocabulary = {token: n for n, token in enumerate(["<s>", "<pad>", "</s>", "<unk>", *LETTERS])}
    return hf.NllbTokenizer(vocab=vocabulary, merges=[], src_lang="deu_Latn", tgt_lang="eng_Latn")


def mbart():
    if "vocab" not in inspect.signature(hf.MBartTokenizer).parameters:
        pytest.skip("this release makes such a tokenizer from a file of SentencePiece only")
    vocabulary = [(token, -1.0) for token in ["<s>", "<pad>", "</s>", "<unk>", *LETTERS]]
    return hf.MBartTokenizer(vocab=vocabulary, src_lang="de_DE", tgt_lang="en_XX")


FAMILIES = {
    "marian": (hf.MarianMTModel, hf.MarianConfig, BART, trained),
    "bart": (hf.BartForConditionalGeneration, hf.BartConfig, BART, trained),
    "t5": (hf.T5ForConditionalGeneration, hf.T5Config, T5, trained),
    "nllb": (hf.M2M100ForConditionalGeneration, hf.M2M100Config, BART, nllb),
    "mbart": (hf.MBartForConditionalGeneration, hf.MBartConfig, BART, mbart),
}


@pytest.fixture(params=FAMILIES)
def family(request):
    network, config, settings, make = FAMILIES[request.param]
    tokenizer = make()
    special = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    torch.manual_seed(0)
    model = network(
        config(
            **settings | special | {"vocab_size": len(tokenizer), "max_position_embeddings": 128}
        )
    )
    model.generation_config.max_new_tokens = 6
    return model.eval(), tokenizer


def test_from_sources_to_findings(family):
    model, tokenizer = family
    sources = small.TEXTS[:28]
    found = dwindle.listeners(model, tokenizer, sources)
    assert found.heads
    assert set(found.auroc) == {"sentences", "words", "sentences, all heads", "words, all heads"}
    # What was never trained may tell nothing, and then what is fitted to it means nothing.
    simple = {"head_weights": (), "weights": (0.0, 1.0), "threshold": 0.0, "part_threshold": 0.0}
    ears = replace(found, tells=True, **simple)
    whole, empty = dwindle.omissions(
        model, tokenizer, [(sources[0], sources[1]), (sources[0], "")], ears
    )
    assert [part.name for part in whole.parts] == sources[0].split()
    assert [span.text for span in empty.spans] == [sources[0]]
    (repaired,) = dwindle.repair(model, tokenizer, sources[:1], ears, [""])
    assert repaired  # an empty output is alarmed, and anything is better


def test_rows_are_those_that_read_a_token_of_the_text(family):
    model, tokenizer = family
    reader = TextReader(model, tokenizer)
    _, read, rows = reader.batch([reader.read("mayor ferry")], ["ship"])
    assert tokenizer.decode(read[0][rows[0]]).strip() == "ship"
    assert not set(tokenizer.all_special_ids) & set(read[0][rows[0]].tolist())
