"""Additive attention: the kernel and the plain path against a slow twin that lets autograd keep
everything."""

import pytest
import torch

import dwindle
from dwindle.core.additive import energies as paths
from dwindle.core.additive.source import Source
from dwindle.core.coverage import Coverage

B, S, D, T = 3, 7, 5, 4
LENGTHS = (7, 5, 2)


@pytest.fixture(params=["kernel", "plain"])
def path(request, monkeypatch):
    if request.param == "plain":
        monkeypatch.setattr(paths.KERNEL, "do", lambda _: False)
    elif not paths.KERNEL.do(torch.empty(0)):
        pytest.skip("there is no compiler")


def drawn(columns=19, group=1, dtype=torch.float64):
    """Keys, values, score, covered and T queries, all with gradients; and the mask."""
    generator = torch.Generator().manual_seed(columns + group)
    shapes = [(B, S, columns), (B, S, D), (columns,), (columns,), *[(B * group, columns)] * T]
    given = [
        torch.randn(shape, generator=generator, dtype=dtype).requires_grad_() for shape in shapes
    ]
    mask = torch.arange(S) < torch.tensor(LENGTHS)[:, None]
    return given, mask


def twin(given, mask, rule, covers):
    """Contexts, log-attention of T steps: everything repeated for each query, nothing shared."""
    keys, values, score, covered, *queries = given
    group = len(queries[0]) // B
    keys, values, mask = (x.repeat_interleave(group, 0) for x in (keys, values, mask))
    coverage = Coverage.none(keys.new_empty(len(keys), 1, 0, S))
    steps = []
    for query in queries:
        inner = keys + query.unsqueeze(1)
        if covers:
            inner = inner + coverage.total[:, 0].unsqueeze(-1) * covered
        log_attention = (inner.tanh() @ score).masked_fill(~mask, -torch.inf).log_softmax(-1)
        weights, coverage = rule(log_attention.exp()[:, None, None], coverage)
        steps += [(weights[:, 0] @ values).squeeze(1), log_attention.masked_fill(~mask, 0)]
    return [*steps, *coverage]


def fast(given, mask, rule, covers):
    keys, values, score, covered, *queries = given
    source = Source(keys, values, mask, score, covered if covers else None)
    group = len(queries[0]) // B
    mask = mask.repeat_interleave(group, 0)
    coverage = Coverage.none(keys.new_empty(len(mask), 1, 0, S))
    steps = []
    for query in queries:
        looked = source.look(source.energies(query, coverage.total[:, 0]), rule, coverage)
        coverage = looked.coverage
        steps += [looked.context, looked.log_attention.masked_fill(~mask, 0)]
    return [*steps, *coverage]


def gradients(outputs, given):
    generator = torch.Generator().manual_seed(7)
    total = sum(
        (x * torch.randn(x.shape, generator=generator, dtype=torch.float64)).sum() for x in outputs
    )
    return torch.autograd.grad(total, given, allow_unused=True)


@pytest.mark.parametrize(
    "rule", ["plain", "dim:log", "dydim:log,power(0.5)+renormalise", "dim:power(0.5)+protect(0)"]
)
@pytest.mark.parametrize("covers", [False, True])
@pytest.mark.parametrize(("columns", "group"), [(19, 1), (32, 3), (1, 2)])
def test_steps_are_those_of_the_twin(path, rule, covers, columns, group):
    given, mask = drawn(columns, group)
    rule = dwindle.rule(rule)
    ours, theirs = fast(given, mask, rule, covers), twin(given, mask, rule, covers)
    torch.testing.assert_close(ours, theirs)
    for mine, slow in zip(gradients(ours, given), gradients(theirs, given), strict=True):
        assert (mine is None) == (slow is None)
        if slow is not None:
            torch.testing.assert_close(mine, slow)


@pytest.mark.parametrize("covers", [False, True])
def test_float32_is_exact_to_a_few_digits_of_its_last(path, covers):
    """Far out too, where a tanh is 1 or -1."""
    given, mask = drawn(67)
    with torch.no_grad():
        given[0][0, 0] *= 50
        given[0][0, 1, 0] = 1e30
    exact = twin(given, mask, dwindle.rule("dim:log"), covers)
    narrow = [x.detach().float().requires_grad_() for x in given]
    ours = fast(narrow, mask, dwindle.rule("dim:log"), covers)
    for mine, slow in zip(ours, exact, strict=True):
        torch.testing.assert_close(mine.double(), slow, rtol=1e-5, atol=1e-5)
    for mine, slow in zip(gradients(ours, narrow), gradients(exact, given), strict=True):
        if slow is not None:
            torch.testing.assert_close(mine.double(), slow, rtol=1e-4, atol=1e-4)


def test_a_tanh_is_right_everywhere(path):
    z = torch.linspace(-30, 30, 200_001)
    keys = z.view(1, -1, 1)
    source = Source(keys, keys, torch.ones(1, len(z), dtype=torch.bool), torch.ones(1))
    energy = source.energies(torch.zeros(1, 1), torch.zeros(1, len(z)))
    assert (energy[0].double() - z.double().tanh()).abs().max() < 2e-7


@pytest.mark.parametrize(
    ("keys", "query"), [(19.9, -19.9), (-19.9, 19.9), (21.0, -20.9), (3.0, 40.0), (19.0, -60.0)]
)
def test_large_keys_and_queries_are_right_together(path, keys, query):
    """On both sides of where the kernel stops multiplying exponentials."""
    given, mask = drawn(67)
    with torch.no_grad():
        given[0][:, :, ::3] += keys
        given[5][:, ::3] += query
    exact = twin(given, mask, dwindle.rule("dim:log"), covers=False)
    narrow = [x.detach().float().requires_grad_() for x in given]
    ours = fast(narrow, mask, dwindle.rule("dim:log"), covers=False)
    for mine, slow in zip(ours, exact, strict=True):
        torch.testing.assert_close(mine.double(), slow, rtol=2e-5, atol=2e-5)
    for mine, slow in zip(gradients(ours, narrow), gradients(exact, given), strict=True):
        if slow is not None:
            torch.testing.assert_close(mine.double(), slow, rtol=1e-4, atol=1e-4)


def test_a_backward_pass_may_be_repeated_or_take_a_part(path):
    """What one pass added up and nobody took is not in the next."""
    given, mask = drawn()
    outputs = fast(given, mask, dwindle.rule("dim:log"), True)
    loss = sum(x.square().sum() for x in outputs)
    first = torch.autograd.grad(loss, given, retain_graph=True)
    torch.autograd.grad(loss, given[4], retain_graph=True)
    again = torch.autograd.grad(loss, given)
    torch.testing.assert_close(first, again, rtol=0, atol=0)


def test_half_precision_takes_the_plain_path():
    given, mask = drawn(dtype=torch.float32)
    exact = fast(given, mask, dwindle.rule("dim:log"), True)
    half = [x.detach().bfloat16().requires_grad_() for x in given]
    ours = fast(half, mask, dwindle.rule("dim:log"), True)
    for mine, slow in zip(ours, exact, strict=True):
        torch.testing.assert_close(mine.float(), slow, rtol=0.1, atol=0.3)
    assert all(x.isfinite().all() and x.dtype == torch.bfloat16 for x in gradients(ours, half))


def test_no_step_keeps_a_tanh(path):
    """What a backward pass keeps of a step is of size (B, S) or (B, A), never (B, S, A)."""
    given, mask = drawn(64)
    sizes = []

    def pack(x):
        sizes.append((x.data_ptr(), x.numel()))
        return x

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        fast(given, mask, dwindle.rule("dim:log"), True)
    large = {pointer for pointer, size in sizes if size >= B * S * 64}
    assert large <= {given[0].data_ptr()}
