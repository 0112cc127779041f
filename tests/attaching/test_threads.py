"""One attached model, many threads: every call gives what it gives alone, and nobody changes the
rule meanwhile."""

import sys
import threading
from collections.abc import Callable

import pytest
import torch
import transformers as hf
from torch import Tensor

import dwindle
from tests.attaching.small import RULE, bart, padded, source, t5, target, words

LLAMA = hf.LlamaConfig(
    vocab_size=40,
    hidden_size=16,
    intermediate_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    initializer_range=0.4,
    pad_token_id=0,
    eos_token_id=None,
)
SOURCES = [source((7, 4)), source((5,), seed=7), source((9, 3, 6), seed=11)]
PROMPTS = [padded([words(n, seed)], "left") for n, seed in ((7, 1), (5, 2), (9, 3))]
Job = Callable[[], list[Tensor]]


@pytest.fixture(autouse=True)
def _impatient():
    """Threads change places all the time."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def llama() -> hf.LlamaForCausalLM:
    torch.manual_seed(3)
    return hf.LlamaForCausalLM(LLAMA).eval()


def written(model, inputs, **settings) -> Tensor:
    with torch.no_grad():
        return model.generate(
            **inputs, max_new_tokens=6, min_new_tokens=6, do_sample=False, **settings
        )


def together(jobs: list[Job], times: int = 3) -> list[list[Tensor]]:
    """What each thread got from its jobs, one thread a job; all begin at once."""
    found: list = [[] for _ in jobs]
    gate = threading.Barrier(len(jobs))

    def work(i: int) -> None:
        try:
            gate.wait()
            for _ in range(times):
                found[i].append(jobs[i]())
        except Exception as error:
            found[i].append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def holds(jobs: list[Job]) -> None:
    alone = [job() for job in jobs]
    for right, results in zip(alone, together(jobs), strict=True):
        for got in results:
            assert not isinstance(got, Exception), got
            assert [x.tolist() for x in got] == [x.tolist() for x in right]


def test_special_tokens():
    model = bart()
    dwindle.attach(model, "training-free")
    holds([lambda s=s: [written(model, s, num_beams=2)] for s in SOURCES])


def test_left_padded_prompts_of_a_decoder():
    model = t5()
    dwindle.attach(model, "dim:log")
    jobs = []
    for seed, given in enumerate(SOURCES):
        prompt = padded(
            [words(4 - i % 2 + seed, i) for i in range(len(given["input_ids"]))], "left"
        )
        prompt = {f"decoder_{name}": x for name, x in prompt.items()}
        jobs.append(
            lambda given=given, prompt=prompt: [written(model, {**given, **prompt}, num_beams=2)]
        )
    holds(jobs)


def test_spans_and_whole_prompts():
    model = llama()
    dwindle.attach(model, "dim:log", source="prompt")

    def spanned(prompt) -> list[Tensor]:
        mask = torch.zeros_like(prompt["input_ids"]).bool()
        mask[:, 1:4] = True
        with dwindle.source_span(model, mask):
            return [written(model, prompt)]

    holds(
        [
            *(lambda p=p: spanned(p) for p in PROMPTS[:2]),
            *(lambda p=p: [written(model, p)] for p in PROMPTS),
        ]
    )


def recorded(model, given) -> list[Tensor]:
    with dwindle.record(model) as records:
        out = written(model, given)
    (record,) = records
    return [out, record.attention, record.weights]


@pytest.mark.parametrize("rule", [None, "training-free"])
def test_records(rule):
    model = bart(encoder_layers=1, decoder_layers=2)
    handle = dwindle.attach(model, rule) if rule else None
    holds([*(lambda s=s: recorded(model, s) for s in SOURCES), lambda: recorded(model, SOURCES[0])])
    assert dwindle.handle_of(model) is handle


def test_records_of_prompts():
    model = llama()
    dwindle.attach(model, "dim:log", source="prompt")
    holds([lambda p=p: recorded(model, p) for p in PROMPTS])


def test_hand_written_attention():
    torch.manual_seed(0)
    shape = {
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
    }
    sizes = {
        "vocab_size": 40,
        "d_model": 16,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "init_std": 0.4,
    }
    model = hf.MvpForConditionalGeneration(
        hf.MvpConfig(**sizes, **shape, max_position_embeddings=32)
    ).eval()
    model.config.forced_eos_token_id = model.generation_config.forced_eos_token_id = None
    dwindle.attach(model, "training-free")
    holds([lambda s=s: [written(model, s)] for s in SOURCES])


def test_training_steps():
    """Gradients go to the weights of one model: each thread takes those of its own loss."""
    model = bart(encoder_layers=1, decoder_layers=1)
    dwindle.attach(model, "training-free")

    def step(given) -> list[Tensor]:
        loss = (
            model(**given, decoder_input_ids=target(5, len(given["input_ids"])))
            .logits.square()
            .mean()
        )
        return list(
            torch.autograd.grad(loss, model.model.decoder.layers[0].encoder_attn.k_proj.weight)
        )

    holds([lambda s=s: step(s) for s in SOURCES])


class Waiting(hf.LogitsProcessor):
    """Holds a ``generate`` after its first step until somebody lets it go on."""

    def __init__(self):
        self.inside, self.go_on = threading.Event(), threading.Event()

    def __call__(self, input_ids, scores):
        self.inside.set()
        assert self.go_on.wait(60)
        return scores


@pytest.mark.parametrize("rule", [None, RULE])
def test_no_change_while_another_thread_is_inside(rule):
    model = bart()
    if rule:
        dwindle.attach(model, rule)
    right = written(model, SOURCES[0])
    hold = Waiting()
    found = []
    thread = threading.Thread(
        target=lambda: found.append(written(model, SOURCES[0], logits_processor=[hold]))
    )
    thread.start()
    assert hold.inside.wait(60)
    before = list(model.model.decoder.layers[0].encoder_attn._forward_pre_hooks)
    changes = [
        lambda: dwindle.attach(model, "dim:log"),
        *([lambda: dwindle.detach(model)] if rule else []),
    ]
    for change in changes:
        with pytest.raises(
            ValueError, match="another thread is inside a call of this BartForConditionalGeneration"
        ):
            change()
    assert list(model.model.decoder.layers[0].encoder_attn._forward_pre_hooks) == before
    hold.go_on.set()
    thread.join()
    assert torch.equal(found[0], right)
    dwindle.attach(model, "dim:log")


def test_a_rule_that_comes_and_goes():
    """Calls of other threads have it or have it not, never a part of it."""
    model = bart(encoder_layers=1)
    rows = {"decoder_input_ids": target(), "use_cache": False}
    refused: list[str] = []

    def logits() -> list[Tensor]:
        with torch.no_grad():
            return [model(**SOURCES[0], **rows).logits]

    def change() -> list[Tensor]:
        for _ in range(10):
            try:
                dwindle.detach(model) if dwindle.handle_of(model) else dwindle.attach(model, RULE)
            except ValueError as error:
                refused.append(str(error))
        return []

    plain = logits()[0]
    with dwindle.attach(model, RULE):
        ruled = logits()[0]
    assert not torch.allclose(plain, ruled)
    for results in together([logits, change, logits], times=8):
        for got in results:
            assert not isinstance(got, Exception), got
            assert not got or torch.equal(got[0], plain) or torch.equal(got[0], ruled)
    assert all("another thread is inside" in said for said in refused)
