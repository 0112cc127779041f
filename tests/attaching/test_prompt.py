"""A rule in the prompt of decoder-only models: tiny random models with sharp attention, in float64 unless said."""

import copy
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel, StaticCache

import dwindle
from dwindle.attaching.cache import CoveredLayer
from dwindle.attaching.prompt import GenerateFromPrompt, _mask, _visible
from dwindle.core import reference
from dwindle.core.concave import Log

RULE = "dydim:log(2.2),power(0.4)"
TOKENS = 14
EAGER = 1e-5  # the library's own eager attention has a float32 softmax
WIDE = {"vocab_size": 40, "hidden_size": 24, "intermediate_size": 32, "num_hidden_layers": 3, "head_dim": 6}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64, "initializer_range": 0.4}
IDS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": None}
LLAMA = WIDE | HEADS | IDS
SLIDING = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "query_pre_attn_scalar": 6,
    "tie_word_embeddings": False,  # else a random model repeats its last token whatever it attends to
}
GPT2 = {"vocab_size": 40, "n_embd": 24, "n_layer": 3, "n_head": 4, "n_positions": 64, "initializer_range": 0.4} | IDS
OLD = {"vocab_size": 40, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4} | IDS

FAMILIES: dict[str, dict[str, Any]] = {
    "Llama": LLAMA,
    "Qwen2": LLAMA,
    "Qwen3": LLAMA,
    "Mistral": LLAMA | {"sliding_window": 60},
    "Gemma2": LLAMA | SLIDING | {"sliding_window": 60, "attn_logit_softcapping": 20.0},
    "Gemma3": LLAMA | SLIDING | {"sliding_window": 60},
    "GPT2": GPT2,
}
OTHERS: dict[str, dict[str, Any]] = {
    "Gemma": LLAMA,
    "Olmo2": LLAMA,
    "Phi3": LLAMA | {"head_dim": None},
    "Cohere": LLAMA | {"head_dim": None},
    "Starcoder2": LLAMA | {"head_dim": None},
    "GPTNeoX": OLD | {"intermediate_size": 32, "initializer_range": 0.4},
    "OPT": OLD | {"ffn_dim": 32, "word_embed_proj_dim": 24, "init_std": 0.4, "max_position_embeddings": 64},
}


def made(family: str, dtype: torch.dtype = torch.float64, **changes: Any) -> Any:
    """A tiny model whose attention is far from uniform: else a coverage that is not reordered goes unseen."""
    torch.manual_seed(3)
    settings = (FAMILIES | OTHERS)[family] | changes
    settings = {k: v for k, v in settings.items() if k != "head_dim" or v is not None}
    names = {"GPT2": ("GPT2Config", "GPT2LMHeadModel"), "Gemma3": ("Gemma3TextConfig", "Gemma3ForCausalLM")}
    config, model = names.get(family, (f"{family}Config", f"{family}ForCausalLM"))
    made = getattr(transformers, model)(getattr(transformers, config)(**settings)).eval().to(dtype)
    for name, parameter in made.named_parameters():
        if "q_norm" in name or "k_norm" in name:
            parameter.data += 1.5
    return made


def batch(rows: int = 2) -> tuple[Tensor, Tensor]:
    """Tokens (B, T), and a source of another place and length in each row."""
    torch.manual_seed(5)
    ids = torch.randint(3, 40, (rows, TOKENS))
    mask = torch.zeros(rows, TOKENS, dtype=torch.bool)
    for i in range(rows):
        mask[i, 1 + i % 3 : 5 + 2 * (i % 3)] = True
    return ids, mask


def stepped(model: Any, ids: Tensor, pieces: list[int], cache: Any = None) -> Tensor:
    """The logits of ids fed in pieces of these lengths, through a cache."""
    cache = DynamicCache(config=model.config) if cache is None else cache
    parts = ids.split(pieces, dim=1)
    return torch.cat([model(part, past_key_values=cache, use_cache=True).logits for part in parts], dim=1)


def close(a: Tensor, b: Tensor, tolerance: float = 1e-6) -> None:  # RMS norms are float32 in a float64 model too
    torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


def configs(model: Any) -> list[Any]:
    return [m.config for m in model.modules() if hasattr(m, "config")]


@pytest.fixture(autouse=True)
def _no_grad():
    with torch.no_grad():
        yield


families = pytest.mark.parametrize("family", FAMILIES)


# --- the matrix ---


@families
def test_identity_changes_nothing(family: str) -> None:
    model, (ids, mask) = made(family), batch()
    plain = model(ids).logits
    dwindle.attach(model, "dim:identity", source="prompt")
    with dwindle.source_span(model, mask):
        close(model(ids, use_cache=False).logits, plain, EAGER)
        close(stepped(model, ids, [6, 1, 1, 6]), plain, EAGER)


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_all_at_once_is_step_by_step_is_in_pieces(family: str, implementation: str) -> None:
    if (family, implementation) == ("Gemma2", "sdpa"):
        implementation = "eager"  # the library has no soft cap in sdpa
    model, (ids, mask) = made(family, attn_implementation=implementation), batch()
    plain = model(ids).logits
    dwindle.attach(model, RULE, source="prompt")
    with dwindle.source_span(model, mask):
        logits = model(ids, use_cache=False).logits
        close(stepped(model, ids, [1] * TOKENS), logits)
        close(stepped(model, ids, [3, 4, 5, 2]), logits)
        close(stepped(model, ids, [TOKENS]), logits)
        close(stepped(model, ids, [8, 1, 5], StaticCache(config=model.config, max_cache_len=20)), logits)
    for i, row in enumerate(mask):
        last = int(row.nonzero().max())
        close(logits[i, : last + 1], plain[i, : last + 1], EAGER)  # the prompt is as it was
        assert (logits[i, last + 1 :] - plain[i, last + 1 :]).abs().amax(-1).min() > 1e-4  # and what follows is not


@families
def test_generating_with_a_cache_is_without(family: str) -> None:
    model, (ids, mask) = made(family), batch()
    ids, mask = ids[:, :10], mask[:, :10]
    settings = {"max_new_tokens": 8, "do_sample": False}
    before = model.generate(ids, **settings)
    dwindle.attach(model, RULE, source="prompt")
    with dwindle.source_span(model, mask):
        greedy = model.generate(ids, **settings)
        assert not torch.equal(greedy, before)
        assert torch.equal(model.generate(ids, use_cache=False, **settings), greedy)
        assert torch.equal(model.generate(ids, cache_implementation="static", **settings), greedy)
        assert torch.equal(model.generate(ids, prefill_chunk_size=4, **settings), greedy)
        beams = model.generate(ids, num_beams=4, **settings)
        assert torch.equal(model.generate(ids, num_beams=4, use_cache=False, **settings), beams)


@families
def test_left_padding_changes_nothing(family: str) -> None:
    # In float64 the library's own eager attention turns padding into NaN.
    model, (ids, mask) = made(family, torch.float32 if family == "Gemma2" else torch.float64), batch()
    dwindle.attach(model, RULE + "+renormalise", source="prompt", layers=2)
    padded = torch.cat([torch.zeros(2, 3, dtype=torch.long), ids], dim=1)
    real = (torch.arange(TOKENS + 3) >= 3).long().expand(2, -1)
    wider = torch.cat([torch.zeros(2, 3, dtype=torch.bool), mask], dim=1)
    settings = {"max_new_tokens": 6, "do_sample": False, "num_beams": 2}
    with dwindle.source_span(model, mask):
        wanted = model.generate(ids, attention_mask=torch.ones_like(ids), **settings)
    for more in ({}, {"cache_implementation": "static"}, {"use_cache": False}):
        with dwindle.source_span(model, wider):
            written = model.generate(padded, attention_mask=real, **settings, **more)
        assert torch.equal(written[:, 3:], wanted)


@families
def test_saved_and_loaded_with_the_rule(family: str, tmp_path) -> None:
    model, (ids, mask) = made(family, torch.float32), batch()
    dwindle.attach(model, RULE, source="prompt", layers=2)
    model.save_pretrained(tmp_path)
    loaded = dwindle.from_pretrained(tmp_path)
    assert loaded.config.dwindle == {"rule": RULE, "layers": [1, 2], "source": "prompt"}
    with dwindle.source_span(model, mask), dwindle.source_span(loaded, mask):
        assert torch.equal(loaded(ids).logits, model(ids).logits)


@families
def test_detached_without_a_trace(family: str) -> None:
    model, (ids, mask) = made(family), batch()
    before, plain = copy.deepcopy(model.__dict__), model(ids).logits
    had = configs(model)
    with dwindle.attach(model, RULE, source="prompt"), dwindle.source_span(model, mask):
        assert not torch.equal(model(ids).logits, plain)
    assert torch.equal(model(ids).logits, plain)
    assert model.__dict__.keys() == before.keys()
    assert model.config.to_dict() == before["config"].to_dict()
    assert all(a is b for a, b in zip(had, configs(model), strict=True))


# --- the equations ---


def looped(attention: Tensor, source: Tensor, real: Tensor, weight: Callable[..., Tensor]) -> Tensor:
    """The same as loops over one (T, T) attention: what is after the source, is diminished on the source."""
    weights = attention.clone()
    last = max(i for i, marked in enumerate(source) if marked)
    rows = [t for t in range(len(attention)) if t > last and real[t]]
    columns = [i for i, marked in enumerate(source) if marked]
    diminished = reference.rows(weight, attention[rows][:, columns])
    for t, row in zip(rows, diminished, strict=True):
        for i, w in zip(columns, row, strict=True):
            weights[t, i] = w
    return weights


@pytest.mark.parametrize(
    ("rule", "weight"),
    [
        ("dim:log", partial(reference.dim, Log())),
        ("dydim:log,log(3)", partial(reference.dydim, Log(), Log(3.0))),
    ],
)
def test_weights_are_those_of_the_loops(rule: str, weight: Callable[..., Tensor]) -> None:
    model, (ids, mask) = made("Llama", num_hidden_layers=1, attn_implementation="eager"), batch(3)
    real = torch.ones_like(ids)
    real[1, 12:] = 0  # right padding, as in training
    plain = model(ids, attention_mask=real, output_attentions=True).attentions[0]
    dwindle.attach(model, rule, source="prompt")
    with dwindle.source_span(model, mask):
        weights = model(ids, attention_mask=real, output_attentions=True).attentions[0]
    for b in range(3):
        for h in range(4):
            t = slice(None, int(real[b].sum()))
            close(weights[b, h, t], looped(plain[b, h], mask[b], real[b], weight)[t], EAGER)


def test_renormalised_rows_keep_the_mass_on_the_source() -> None:
    model, (ids, mask) = made("Qwen2", num_hidden_layers=1, attn_implementation="eager"), batch()
    plain = model(ids, output_attentions=True).attentions[0]
    dwindle.attach(model, "dim:log+renormalise+share_heads", source="prompt")
    with dwindle.source_span(model, mask):
        weights = model(ids, output_attentions=True).attentions[0]
    assert not torch.allclose(weights, plain)
    close(weights.sum(-1), plain.sum(-1), EAGER)
    here = mask[:, None, None, :]
    close((weights * here).sum(-1), (plain * here).sum(-1), EAGER)
    close(weights * ~here, plain * ~here, EAGER)


def test_training_starts_where_the_source_of_each_example_ends() -> None:
    """A padded batch gives every example the logits and leaves the coverage it has alone: padding adds nothing."""
    model, (ids, mask) = made("Llama"), batch(3)
    dwindle.attach(model, RULE, source="prompt")
    lengths = [14, 11, 12]
    real = (torch.arange(TOKENS) < torch.tensor(lengths)[:, None]).long()
    with dwindle.source_span(model, mask):
        together = model(ids, attention_mask=real, use_cache=False).logits
        cached = model(ids, attention_mask=real, use_cache=True)
    for i, n in enumerate(lengths):
        with dwindle.source_span(model, mask[i : i + 1]):
            alone = model(ids[i : i + 1, :n], use_cache=True)
        close(together[i, :n], alone.logits[0])
        close(cached.logits[i, :n], alone.logits[0])
        for layer, own in zip(cached.past_key_values.layers, alone.past_key_values.layers, strict=True):
            width = own.source.shape[1]
            close(layer.coverage.total[i, :, :width], own.coverage.total[0])


def gradients(model: Any, ids: Tensor, masks: list[Tensor]) -> list[Tensor]:
    """Of a loss over two passes with spans of their own, taken after both spans are closed."""
    model.zero_grad()
    with torch.enable_grad():
        losses = []
        for mask in masks:
            with dwindle.source_span(model, mask):
                losses.append(model(ids, labels=ids, use_cache=False).loss)
        sum(losses).backward()
    return [p.grad.clone() for p in model.parameters() if p.grad is not None]


@pytest.mark.parametrize("family", ["Llama", "Gemma2", "GPT2"])
@pytest.mark.parametrize("reentrant", [True, False])
def test_gradient_checkpointing(family: str, reentrant: bool) -> None:
    quiet = {"resid_pdrop": 0, "embd_pdrop": 0, "attn_pdrop": 0} if family == "GPT2" else {}
    model, (ids, mask) = made(family, **quiet).train(), batch()
    dwindle.attach(model, RULE, source="prompt")
    masks = [mask, mask.roll(2, dims=1)]
    wanted = gradients(model, ids, masks)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    model.enable_input_require_grads()
    for found, expected in zip(gradients(model, ids, masks), wanted, strict=True):
        close(found, expected)


def test_the_gradient_is_that_of_differences() -> None:
    model, (ids, mask) = made("GPT2"), batch()
    dwindle.attach(model, "dim:log+renormalise", source="prompt", layers=1)
    weight = model.transformer.h[2].attn.c_attn.weight

    def loss() -> Tensor:
        with dwindle.source_span(model, mask):
            return model(ids, use_cache=False).logits.log_softmax(-1)[..., 7].mean()  # the library's loss is float32

    with torch.enable_grad():
        slope = torch.autograd.grad(loss(), weight)[0][2, 3]
    values = []
    for step in (1e-5, -2e-5):
        weight[2, 3] += step
        values.append(loss())
    assert float((values[0] - values[1]) / 2e-5) == pytest.approx(float(slope), rel=1e-4)


# --- decoding ---


def test_without_a_span_the_whole_prompt_is_the_source() -> None:
    model, (ids, _) = made("Qwen3"), batch()
    dwindle.attach(model, RULE, source="prompt", layers=[0, -1])
    real = torch.ones_like(ids)
    real[0, :3] = 0  # left padding
    settings = {"max_new_tokens": 8, "do_sample": False, "attention_mask": real}
    with dwindle.source_span(model, real.bool()):
        wanted = model.generate(ids, **settings)
    for more in ({}, {"use_cache": False}, {"cache_implementation": "static"}, {"prefill_chunk_size": 5}):
        assert torch.equal(model.generate(ids, **settings, **more), wanted)
        assert torch.equal(model.generate(input_ids=ids, **settings, **more), wanted)


def test_sampling_with_a_cache_is_without() -> None:
    model, (ids, mask) = made("Mistral"), batch()
    dwindle.attach(model, RULE, source="prompt")
    written = []
    for use_cache in (True, False):
        torch.manual_seed(0)
        with dwindle.source_span(model, mask):
            settings = {"do_sample": True, "num_return_sequences": 3, "max_new_tokens": 10, "use_cache": use_cache}
            written.append(model.generate(ids, **settings))
    assert written[0].shape[0] == 6
    assert torch.equal(*written)


def test_prompt_lookup_and_an_assistant_take_drafts_back() -> None:
    model, (ids, mask) = made("Llama"), batch(1)
    assistant = made("Llama", num_hidden_layers=1)
    ids = torch.cat([ids, ids], dim=1)
    settings = {"max_new_tokens": 12, "do_sample": False}
    dwindle.attach(model, RULE, source="prompt")
    with dwindle.source_span(model, mask):
        wanted = model.generate(ids, **settings)
        assert torch.equal(model.generate(ids, prompt_lookup_num_tokens=3, **settings), wanted)
        assert torch.equal(model.generate(ids, assistant_model=assistant, **settings), wanted)
    wanted = model.generate(ids, **settings)
    assert torch.equal(model.generate(ids, prompt_lookup_num_tokens=3, **settings), wanted)


def test_beams_need_the_coverage_reordered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without the reorder the test above it would fail."""
    model, (ids, mask) = made("Llama"), batch(4)
    dwindle.attach(model, RULE, source="prompt")
    settings = {"max_new_tokens": 16, "do_sample": False, "num_beams": 4}
    with dwindle.source_span(model, mask):
        wanted = model.generate(ids, **settings)
        monkeypatch.setattr(CoveredLayer, "_move", lambda *_: None)
        assert not torch.equal(model.generate(ids, **settings), wanted)


def test_a_cache_keeps_the_source_it_began_with() -> None:
    model, (ids, mask) = made("Llama"), batch()
    dwindle.attach(model, RULE, source="prompt")
    with dwindle.source_span(model, mask):
        logits = model(ids, use_cache=False).logits
        cache = model(ids[:, :10], use_cache=True).past_key_values
    twin = copy.deepcopy(cache)
    close(model(ids[:, 10:], past_key_values=cache).logits, logits[:, 10:])  # no span is open
    twin.batch_repeat_interleave(2)
    twin.batch_select_indices(torch.tensor([3, 0]))
    close(model(ids[[1, 0], 10:], past_key_values=twin).logits, logits[[1, 0], 10:])


def test_a_cache_that_was_reset_begins_anew() -> None:
    model, (ids, mask) = made("Llama"), batch()
    dwindle.attach(model, RULE + "+protect(special)", source="prompt")
    for cache in (DynamicCache(config=model.config), StaticCache(config=model.config, max_cache_len=20)):
        for tokens, marked in ((ids, mask), (ids.flip(0), mask.roll(1, dims=1))):
            with dwindle.source_span(model, marked):
                close(stepped(model, tokens, [8, 1, 5], cache), model(tokens, use_cache=False).logits)
            cache.reset()


@pytest.mark.slow
def test_compiled() -> None:
    model, (ids, mask) = made("Llama", torch.float32), batch()
    dwindle.attach(model, RULE, source="prompt")
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    cache = StaticCache(config=model.config, max_cache_len=20)
    with dwindle.source_span(model, mask):
        logits = model(ids, use_cache=False).logits
        close(compiled(ids, use_cache=False).logits, logits, 1e-4)
        done = model(ids[:, :8], past_key_values=cache).logits  # a prefill is not compiled
        rest = [compiled(ids[:, t : t + 1], past_key_values=cache).logits for t in range(8, TOKENS)]
    close(torch.cat([done, *rest], dim=1), logits, 1e-4)


def test_every_form_of_the_library_s_masks() -> None:
    """None, bool and float (B, 1, T, K), and (B, K) say the same."""
    padding = torch.tensor([[0, 0, 1, 1, 1, 1], [1, 1, 1, 1, 1, 1]])
    rows = torch.tensor([3, 4, 5])  # three rows on three keys of the past
    whole = (torch.arange(6) <= rows[:, None])[None, None] & padding.bool()[:, None, None, :]
    assert torch.equal(_mask(padding, rows, 6), whole)
    assert torch.equal(_mask(None, rows, 6)[0], whole[1])
    assert torch.equal(_mask(whole, rows, 6), whole)
    added = torch.zeros(whole.shape).masked_fill(~whole, torch.finfo(torch.float32).min)
    assert torch.equal(_visible(_mask(added, rows, 6)), whole)
    with pytest.raises(ValueError, match="flex attention masks"):
        _mask(object(), rows, 6)  # type: ignore[arg-type]


@pytest.mark.parametrize("moved", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_have_a_rule_of_their_own(moved: Callable[[PreTrainedModel], Any]) -> None:
    model, (ids, mask) = made("Llama"), batch()
    dwindle.attach(model, RULE, source="prompt")
    twin = moved(model)
    with dwindle.source_span(model, mask), dwindle.source_span(twin, mask):
        assert torch.equal(twin(ids).logits, model(ids).logits)
        assert torch.equal(twin.generate(ids, max_new_tokens=3), model.generate(ids, max_new_tokens=3))
    dwindle.detach(model)
    with pytest.raises(ValueError, match="mark the source"):
        twin(ids)


def test_a_span_reaches_a_wrapped_model() -> None:
    model, (ids, mask) = made("Llama"), batch()
    dwindle.attach(model, RULE, source="prompt")
    with dwindle.source_span(model, mask):
        wanted = model(ids).logits
    with dwindle.source_span(nn.ModuleDict({"base": model}), mask.long()):
        assert torch.equal(model(ids).logits, wanted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_lower_precision(dtype: torch.dtype) -> None:
    """Steps agree with one pass as closely as those of the untouched model do."""
    model, (ids, mask) = made("Llama", dtype), batch()
    untouched = (stepped(model, ids, [1] * TOKENS) - model(ids).logits).abs().max()
    dwindle.attach(model, RULE, source="prompt")
    with dwindle.source_span(model, mask):
        logits = model(ids, use_cache=False).logits
        difference = (stepped(model, ids, [1] * TOKENS) - logits).abs().max()
    assert logits.dtype == dtype
    assert difference <= 3 * untouched + 1e-5


@pytest.mark.parametrize("family", ["Llama", "GPT2"])
@pytest.mark.parametrize("marked", [True, False])
def test_a_record_is_what_the_decoding_used(family: str, marked: bool) -> None:
    """Rows and tokens are aligned, and the sum of the rows is the coverage that step-by-step decoding left."""
    model, (ids, mask) = made(family), batch()
    real = torch.ones_like(ids)
    real[0, :1] = 0
    handle = dwindle.attach(model, RULE, source="prompt", layers=2)
    settings = {"attention_mask": real, "max_new_tokens": 7, "do_sample": False}
    with dwindle.source_span(model, mask) if marked else nullcontext():
        wanted = model.generate(ids, return_dict_in_generate=True, **settings)
        with dwindle.record(model, heads="all") as records:
            written = model.generate(ids, **settings)
    assert torch.equal(written, wanted.sequences)
    (record,) = records
    assert torch.equal(record.tokens, written[:, TOKENS:])
    assert record.attention.shape == (2, 2, 4, 7, mask.any(0).nonzero().max() + 1 if marked else TOKENS)
    if not marked:  # every row after the prompt was decoded: the cache has them all but the last, which is not fed
        left = torch.stack([wanted.past_key_values.layers[i].coverage.total for i in (1, 2)])
        close(record.coverage.double(), left, EAGER)
        assert (record.attention[..., 0, :] == 0).all()  # the first token came from the prompt itself
    assert isinstance(model.generate, GenerateFromPrompt)
    assert model.generate.link is handle


# --- protection ---


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
    assert kept == {"special": [[3], [2]], "0,-1": [[1, 4], [2, 6]]}  # first and last of 1..4 and of 2..6


def test_training_free_protects_the_beginning() -> None:
    model, (ids, _) = made("Llama", torch.float32), batch()
    ids[:, 0] = 1
    dwindle.attach(model, "training-free", source="prompt")
    settings = {"max_new_tokens": 8, "do_sample": False}
    written = model.generate(ids, **settings)
    assert torch.equal(model.generate(ids, use_cache=False, **settings), written)
    with dwindle.source_span(model, torch.ones_like(ids)), pytest.raises(ValueError, match="with input_ids"):
        model(inputs_embeds=model.get_input_embeddings()(ids))


# --- what is refused ---


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
        close(stepped(model, ids, [11, 1, 1, 1], StaticCache(config=model.config, max_cache_len=20)), logits)


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
        padded = {"attention_mask": real, "position_ids": (real.cumsum(1) - 1).masked_fill(real == 0, 1)}
        close(model(ids, **padded).logits[:, :11], model(ids[:, :11]).logits)


def test_bad_input_is_said_in_a_sentence() -> None:
    model, (ids, mask) = made("Llama"), batch()
    with pytest.raises(ValueError, match="pass source='prompt'"):
        dwindle.attach(model, RULE)
    with pytest.raises(ValueError, match="attach a rule with source='prompt' first"), dwindle.source_span(model, mask):
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
    with pytest.raises(ValueError, match="call that one"):
        model.model(ids)
    with pytest.raises(ValueError, match="batch, prompt"), dwindle.source_span(model, mask[0]):
        pass
    with dwindle.source_span(model, torch.ones(3, 5)), pytest.raises(ValueError, match="3 rows, but the batch has 2"):
        model(ids)
    with dwindle.source_span(model, torch.ones(2, 20)), pytest.raises(ValueError, match="only 14 tokens"):
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
        dwindle.attach(transformers.BloomForCausalLM(transformers.BloomConfig(**tiny)), RULE, source="prompt")
    experts = {"num_local_experts": 2, "num_experts_per_tok": 1, "num_key_value_heads": 1, "intermediate_size": 8}
    model = transformers.GptOssForCausalLM(transformers.GptOssConfig(**tiny, **experts))
    dwindle.attach(model, RULE, source="prompt")
    with pytest.raises(ValueError, match="no softmax over all its keys"):
        model.generate(torch.tensor([[3, 4, 5]]), max_new_tokens=3)


def test_a_cache_of_an_untouched_model_is_refused() -> None:
    model, (ids, mask) = made("Llama"), batch()
    cache = model(ids[:, :6], use_cache=True).past_key_values
    dwindle.attach(model, RULE, source="prompt")
    with dwindle.source_span(model, mask), pytest.raises(ValueError, match="start from an empty cache"):
        model(ids[:, 6:], past_key_values=cache)
