"""A rule in the prompt: what is protected, and what is refused in a sentence."""

import pytest
import torch
import transformers
from transformers import StaticCache

import dwindle
from tests.attaching.prompts import EAGER, RULE, TOKENS, batch, close, made, stepped


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


def test_protected_tokens_keep_their_weight() -> None:
    model, (ids, mask) = made("Llama", num_hidden_layers=1, attn_implementation="eager"), batch()
    ids[0, 3] = ids[1, 2] = 1  # bos, inside the source
    plain = model(ids, output_attentions=True).attentions[0]
    kept = {}
    for protect in ("special", "0,-1"):
        dwindle.attach(model, f"dim:log(2.2)+renormalise+protect({protect})", source="prompt")
        with dwindle.source_span(model, mask):
            weights = model(ids, output_attentions=True).attentions[0]
            logits = model(ids).logits
            close(stepped(model, ids, [3, 3, 1, 7]), logits)
        changed = (weights - plain).abs().amax((1, 2)) > 1e-6
        kept[protect] = [(mask[b] & ~changed[b]).nonzero().flatten().tolist() for b in range(2)]
        close(weights.sum(-1), plain.sum(-1), EAGER)
    # first and last of 1..4 and of 2..6
    assert kept == {"special": [[3], [2]], "0,-1": [[1, 4], [2, 6]]}


def test_training_free_protects_the_beginning() -> None:
    model, (ids, _) = made("Llama", torch.float32), batch()
    ids[:, 0] = 1
    dwindle.attach(model, "training-free", source="prompt")
    settings = {"max_new_tokens": 8, "do_sample": False}
    written = model.generate(ids, **settings)
    assert torch.equal(model.generate(ids, use_cache=False, **settings), written)
    with (
        dwindle.source_span(model, torch.ones_like(ids)),
        pytest.raises(ValueError, match="with input_ids"),
    ):
        model(inputs_embeds=model.get_input_embeddings()(ids))


@pytest.mark.parametrize("family", ["Mistral", "Gemma2", "Gemma3"])
def test_a_window_that_drops_the_source_is_refused(family: str) -> None:
    model, (ids, mask) = made(family, sliding_window=8), batch()
    mask[0, 0], mask[:, 6:] = True, False
    handle = dwindle.attach(model, RULE, source="prompt", layers=[0])
    settings = {"max_new_tokens": 12, "do_sample": False}
    with dwindle.source_span(model, mask):
        with pytest.raises(ValueError, match="sliding window of 8 tokens"):
            model(ids, use_cache=False)
        for more in ({}, {"use_cache": False}, {"cache_implementation": "static"}):
            with pytest.raises(ValueError, match="sliding window of 8 tokens"):
                model.generate(ids[:, :6], **settings, **more)
    handle.detach()
    if family == "Mistral":
        return
    dwindle.attach(model, RULE, source="prompt", layers=[1])  # the layer with full attention
    with dwindle.source_span(model, mask):
        written = model.generate(ids, **settings)
        for more in ({"use_cache": False}, {"cache_implementation": "static"}):
            assert torch.equal(model.generate(ids, **settings, **more), written)


@pytest.mark.parametrize("family", ["Mistral", "Gemma3"])
def test_a_window_may_drop_what_is_no_source(family: str) -> None:
    model, (ids, mask) = made(family, sliding_window=8), batch()
    plain = model(ids).logits
    mask = torch.zeros_like(mask)
    mask[:, 7:9] = True  # 0..6 leave the window, the source does not
    dwindle.attach(model, RULE, source="prompt")
    with dwindle.source_span(model, mask):
        logits = model(ids, use_cache=False).logits
        assert (logits - plain).abs().max() > 1e-3
        close(stepped(model, ids, [1] * TOKENS), logits)
        close(stepped(model, ids, [9, 3, 1, 1]), logits)
        close(
            stepped(model, ids, [11, 1, 1, 1], StaticCache(config=model.config, max_cache_len=20)),
            logits,
        )


def test_packed_batches_are_refused() -> None:
    model, (ids, mask) = made("Llama"), batch(1)
    dwindle.attach(model, RULE, source="prompt")
    positions = torch.cat([torch.arange(9), torch.arange(5)])[None]
    block = torch.block_diag(torch.ones(9, 9).tril(), torch.ones(5, 5).tril()).bool()[None, None]
    with dwindle.source_span(model, mask):
        for packed in (
            {"position_ids": positions},
            {"position_ids": positions, "attention_mask": torch.ones_like(ids)},
            {"cu_seq_lens_q": torch.tensor([0, 9, 14])},
        ):
            with pytest.raises(ValueError, match="packed batches cannot have a rule"):
                model(ids, **packed)
        with pytest.raises(ValueError, match="put one text in each row"):
            model(ids, attention_mask=block)
        # Padding has any position, and is no restart.
        real = (torch.arange(TOKENS) < 11).long()[None]
        padded = {
            "attention_mask": real,
            "position_ids": (real.cumsum(1) - 1).masked_fill(real == 0, 1),
        }
        close(model(ids, **padded).logits[:, :11], model(ids[:, :11]).logits)


def test_bad_input_is_said_in_a_sentence() -> None:
    model, (ids, mask) = made("Llama"), batch()
    with pytest.raises(ValueError, match="pass source='prompt'"):
        dwindle.attach(model, RULE)
    with (
        pytest.raises(ValueError, match="attach a rule with source='prompt' first"),
        dwindle.source_span(model, mask),
    ):
        pass
    with pytest.raises(ValueError, match="'document' is unknown"):
        dwindle.attach(model, RULE, source="document")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has 3 attention layers"):
        dwindle.attach(model, RULE, layers=4, source="prompt")

    dwindle.attach(model, RULE, source="prompt")
    for training in (False, True):
        with pytest.raises(ValueError, match="mark the source"):
            model.train(training)(ids, labels=ids)
    model.eval()
    with pytest.raises(ValueError, match="was called by itself: call the"):
        model.model(ids)
    with pytest.raises(ValueError, match="batch, prompt"), dwindle.source_span(model, mask[0]):
        pass
    with (
        dwindle.source_span(model, torch.ones(3, 5)),
        pytest.raises(ValueError, match="3 rows, but the batch has 2"),
    ):
        model(ids)
    with (
        dwindle.source_span(model, torch.ones(2, 20)),
        pytest.raises(ValueError, match="only 14 tokens"),
    ):
        model(ids, use_cache=False)
    real = (torch.arange(TOKENS) >= 3).long().expand(2, -1)
    with dwindle.source_span(model, mask), pytest.raises(ValueError, match="leave padding out"):
        model(ids, attention_mask=real)


def test_other_models_are_refused() -> None:
    tiny = {"vocab_size": 9, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    bart = transformers.BartConfig(d_model=32, encoder_layers=1, decoder_layers=1, vocab_size=9)
    with pytest.raises(ValueError, match="is in its encoder"):
        dwindle.attach(transformers.BartForConditionalGeneration(bart), RULE, source="prompt")
    with pytest.raises(ValueError, match="does not use the library's registry"):
        dwindle.attach(
            transformers.BloomForCausalLM(transformers.BloomConfig(**tiny)), RULE, source="prompt"
        )
    experts = {
        "num_local_experts": 2,
        "num_experts_per_tok": 1,
        "num_key_value_heads": 1,
        "intermediate_size": 8,
    }
    model = transformers.GptOssForCausalLM(transformers.GptOssConfig(**tiny, **experts))
    dwindle.attach(model, RULE, source="prompt")
    with pytest.raises(ValueError, match="not a softmax over all its keys"):
        model.generate(torch.tensor([[3, 4, 5]]), max_new_tokens=3)


def test_a_cache_of_an_untouched_model_is_refused() -> None:
    model, (ids, mask) = made("Llama"), batch()
    cache = model(ids[:, :6], use_cache=True).past_key_values
    dwindle.attach(model, RULE, source="prompt")
    with (
        dwindle.source_span(model, mask),
        pytest.raises(ValueError, match="start from an empty cache"),
    ):
        model(ids[:, 6:], past_key_values=cache)
