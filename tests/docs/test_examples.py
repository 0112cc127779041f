"""The public names: each has an example in its docstring, and it gives what it says."""

import doctest
import inspect

import pytest
import torch
import transformers as hf

import dwindle
from tests.auditing import small

# What a reader is told in one sentence when a rule is put into a model that was not trained with
# it.
pytestmark = pytest.mark.filterwarnings("ignore:.*was not trained with")
FUNCTIONS = [name for name in dwindle.__all__ if inspect.isfunction(getattr(dwindle, name))]


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    """What the examples take for granted: small models, and listeners and a trainer of a translator
    that copies."""
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    shape = {
        "vocab_size": 20,
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 2,
        "max_position_embeddings": 32,
    }
    shape |= {
        f"{side}_{what}": 2
        for side in ("encoder", "decoder")
        for what in ("attention_heads", "ffn_dim")
    }
    torch.manual_seed(1)
    bart = hf.BartConfig(**shape, **ends, decoder_start_token_id=2, forced_eos_token_id=None)
    sizes = {
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
    }
    llama = hf.LlamaForCausalLM(hf.LlamaConfig(vocab_size=20, **sizes, **ends)).eval()
    tokenizer = small.tokenizer()
    translator = small.copier(len(tokenizer))
    arguments = hf.Seq2SeqTrainingArguments(
        str(tmp_path_factory.mktemp("trained")), use_cpu=True, report_to=[]
    )
    return {
        "dwindle": dwindle,
        "torch": torch,
        "llama": llama,
        "translator": translator,
        "tokenizer": tokenizer,
        "model": hf.BartForConditionalGeneration(bart).eval(),
        "sources": small.TEXTS,
        "source": small.TEXTS[0],
        "inputs": {"input_ids": torch.tensor([[5, 6, 7, 2]])},
        "ears": dwindle.listeners(translator, tokenizer, small.TEXTS),
        # sets the seed: last
        "trainer": hf.Seq2SeqTrainer(translator, arguments, processing_class=tokenizer),
    }


@pytest.mark.parametrize("name", dwindle.__all__)
def test_an_example_gives_what_it_says(name, space, tmp_path):
    text = inspect.getdoc(getattr(dwindle, name))
    example = doctest.DocTestParser().get_doctest(
        text, space | {"folder": tmp_path}, name, None, None
    )
    assert example.examples, f"{name} has no example"
    told = []
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.DocTestRunner(optionflags=flags).run(example, out=told.append)
    assert not result.failed, "".join(told)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_says_what_it_takes_and_gives(name):
    function = getattr(dwindle, name)
    text = inspect.getdoc(function)
    assert "Args:" in text
    assert [
        one
        for one in inspect.signature(function).parameters
        if f"{one}:" not in text and f"{one}," not in text
    ] == []
    returns = inspect.signature(function).return_annotation
    assert returns in (None, "None") or "Returns:" in text or "Yields:" in text
