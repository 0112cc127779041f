"""Spans and records across ``await``, ``yield``, threads and executors: each caller gets what it
gets alone."""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager

import pytest
import torch
import transformers as hf
from torch import Tensor

import dwindle
from tests.attaching.prompts import batch
from tests.attaching.test_threads import llama, written

IDS, FIRST = batch()
SECOND = FIRST.roll(3, dims=1)
GIVEN = {"input_ids": IDS, "attention_mask": torch.ones_like(IDS)}


@pytest.fixture(scope="module")
def model() -> hf.LlamaForCausalLM:
    model = llama()
    dwindle.attach(model, "dim:log", source="prompt")
    return model


@pytest.fixture(autouse=True)
def _nothing_stays_open(model):
    yield
    scopes = dwindle.handle_of(model).scopes
    assert scopes.span is None
    assert scopes.listener is None
    assert scopes.here.span is None
    assert not scopes.here.unclear


def logits(model) -> Tensor:
    with torch.no_grad():
        return model(IDS, use_cache=False).logits


def alone(model, mask: Tensor, call: Callable = logits) -> Tensor:
    with dwindle.source_span(model, mask):
        return call(model)


def tokens(model) -> Tensor:
    return written(model, GIVEN)


def test_the_spans_of_tasks_across_an_await(model):
    async def task(mask: Tensor, opened: asyncio.Event, other: asyncio.Event) -> Tensor:
        with dwindle.source_span(model, mask):
            opened.set()
            await other.wait()
            return logits(model)

    async def without(other: asyncio.Event) -> Tensor:
        await other.wait()
        return tokens(model)

    async def main() -> list[Tensor]:
        one, two = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(task(FIRST, one, two), task(SECOND, two, one), without(two))

    first, second, whole = asyncio.run(main())
    assert torch.equal(first, alone(model, FIRST))
    assert torch.equal(second, alone(model, SECOND))
    assert torch.equal(whole, tokens(model))
    assert not torch.equal(first, second)


def test_tasks_and_threads_that_begin_inside_a_span(model):
    async def main() -> list[Tensor]:
        with dwindle.source_span(model, FIRST):
            child = asyncio.create_task(asyncio.to_thread(logits, model))
            thread = asyncio.to_thread(tokens, model)
            return [*await asyncio.gather(child, thread), logits(model)]

    child, thread, own = asyncio.run(main())
    right = alone(model, FIRST)
    assert torch.equal(child, right)
    assert torch.equal(own, right)
    assert torch.equal(thread, alone(model, FIRST, tokens))


def test_a_child_that_outlives_the_span_keeps_it(model):
    """As every context variable: a copy of the context is not that context."""

    async def main() -> Tensor:
        gate = asyncio.Event()

        async def late() -> Tensor:
            await gate.wait()
            return tokens(model)

        with dwindle.source_span(model, FIRST):
            child = asyncio.create_task(late())
            await asyncio.sleep(0)
        gate.set()
        return await child

    assert torch.equal(asyncio.run(main()), alone(model, FIRST, tokens))


def test_executors_take_a_copy_of_the_context(model):
    """A thread of one's own has no span, unless it gets the context."""
    with ThreadPoolExecutor(1) as pool, dwindle.source_span(model, FIRST):
        bare = pool.submit(tokens, model).result()
        copied = pool.submit(contextvars.copy_context().run, tokens, model).result()
    assert torch.equal(bare, tokens(model))
    assert torch.equal(copied, alone(model, FIRST, tokens))


def test_a_streamer(model):
    """The library's way to stream: ``generate`` in a thread, tokens here, other calls meanwhile."""

    class Queue(hf.generation.streamers.BaseStreamer):
        def __init__(self) -> None:
            self.seen: list[Tensor] = []
            self.inside, self.go_on = threading.Event(), threading.Event()

        def put(self, value: Tensor) -> None:
            self.seen.append(value.reshape(-1))
            self.inside.set()
            assert self.go_on.wait(60)

        def end(self) -> None:
            pass

    one = {name: x[:1] for name, x in GIVEN.items()}
    streamer = Queue()

    def streamed() -> Tensor:
        return written(model, one, streamer=streamer)

    with dwindle.source_span(model, FIRST[:1]):
        right = written(model, one)
        thread = threading.Thread(target=contextvars.copy_context().run, args=(streamed,))
        thread.start()
    assert streamer.inside.wait(60)
    between = alone(model, SECOND)
    streamer.go_on.set()
    thread.join()
    assert torch.equal(torch.cat(streamer.seen), right[0])
    assert torch.equal(between, alone(model, SECOND))


def spanned(model, mask: Tensor) -> Iterator[Tensor]:
    with dwindle.source_span(model, mask):
        while True:
            yield logits(model)


def test_generators_that_take_turns(model):
    one, two = spanned(model, FIRST), spanned(model, SECOND)
    rounds = [(next(one), next(two)) for _ in range(2)]
    with dwindle.source_span(model, SECOND):  # a span of our own, while two others wait
        inside = logits(model)
    one.close()  # not the last that was opened
    again = next(two)
    two.close()
    for first, second in rounds:
        assert torch.equal(first, alone(model, FIRST))
        assert torch.equal(second, alone(model, SECOND))
    assert torch.equal(inside, alone(model, SECOND))
    assert torch.equal(again, alone(model, SECOND))


def test_a_generator_that_was_left_in_the_middle(model):
    half = spanned(model, FIRST)
    next(half)
    with pytest.raises(ValueError, match="left in the middle has a source_span open"):
        tokens(model)
    half.close()
    assert torch.equal(tokens(model), tokens(model))


def test_an_asynchronous_generator(model):
    async def agen() -> Iterator[Tensor]:
        with dwindle.source_span(model, FIRST):
            yield await asyncio.to_thread(logits, model)
            yield await asyncio.create_task(asyncio.to_thread(tokens, model))

    async def main() -> list[Tensor]:
        half = agen()
        found = [await anext(half)]
        with pytest.raises(ValueError, match="left in the middle"):
            tokens(model)
        found.append(await anext(half))
        await half.aclose()
        return [*found, tokens(model)]

    first, second, whole = asyncio.run(main())
    assert torch.equal(first, alone(model, FIRST))
    assert torch.equal(second, alone(model, FIRST, tokens))
    assert torch.equal(whole, tokens(model))


def test_context_managers_made_of_generators(model):
    """They yield inside a span because their caller wants it open."""

    @contextmanager
    def mine() -> Iterator[None]:
        with dwindle.source_span(model, FIRST):
            yield

    @asynccontextmanager
    async def ours() -> Iterator[None]:
        with mine():
            yield

    async def main() -> Tensor:
        async with ours():
            return logits(model)

    with mine():
        found = [logits(model)]
    with ExitStack() as stack:
        stack.enter_context(mine())
        found.append(logits(model))
    found.append(asyncio.run(main()))
    right = alone(model, FIRST)
    assert all(torch.equal(each, right) for each in found)


def test_records_of_tasks(model):
    """Each hears its own calls, also those in other threads, and nobody else's."""

    async def task(mask: Tensor, opened: asyncio.Event, other: asyncio.Event) -> list[Tensor]:
        with dwindle.record(model) as records, dwindle.source_span(model, mask):
            opened.set()
            await other.wait()
            logits(model)
            await asyncio.gather(*(asyncio.to_thread(logits, model) for _ in range(2)))
        return [record.weights for record in records]

    async def main() -> list[list[Tensor]]:
        one, two = asyncio.Event(), asyncio.Event()
        return await asyncio.gather(task(FIRST, one, two), task(SECOND, two, one))

    for mask, found in zip((FIRST, SECOND), asyncio.run(main()), strict=True):
        with dwindle.record(model) as right:
            alone(model, mask)
        assert len(found) == 3
        assert all(torch.equal(weights, right[0].weights) for weights in found)


@pytest.mark.slow
def test_what_a_compiled_graph_cannot_know_is_refused(model):
    """A graph reads no context: a span of a task is seen by ``generate`` only."""
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="eager", fullgraph=True)

    def run() -> Tensor:
        with torch.no_grad():
            return compiled(IDS, use_cache=False).logits

    async def main() -> None:
        with dwindle.source_span(model, FIRST):
            await asyncio.sleep(0)
            with pytest.raises(Exception, match="spans of tasks and generators"):
                run()

    torch.testing.assert_close(alone(model, FIRST, lambda _: run()), alone(model, FIRST))
    asyncio.run(main())
    torch.testing.assert_close(alone(model, SECOND, lambda _: run()), alone(model, SECOND))
    torch._dynamo.reset()


def test_an_asynchronous_generator_that_is_closed_by_another_task(model):
    """What it had open does not stay open in the task that it was used in."""

    async def agen() -> Iterator[Tensor]:
        with dwindle.source_span(model, FIRST):
            yield logits(model)

    async def main() -> Tensor:
        half = agen()
        await anext(half)
        await asyncio.create_task(half.aclose())
        return tokens(model)

    assert torch.equal(asyncio.run(main()), tokens(model))
