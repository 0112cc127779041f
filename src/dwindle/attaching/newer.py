"""The self-check of a `transformers` release that is newer than any tested: a tiny model tries it
before yours does.

It takes about a second, once a process, and only where the installed release is newer than
``library.KNOWN``. A rule is put into a tiny model that uses the same registry of attention
functions. Rows fed at once and one by one must give the same logits, also after beams were
reordered; the rule must change something; and without it the model must be what it was, bit by bit.
The models that users attach to are not known here.
"""

import threading
from collections.abc import Callable
from typing import Any

import torch
import transformers
from packaging.version import Version
from torch import Tensor

from dwindle.attaching.library import KNOWN, refusal

_RULE = "dim:log"
_NEAR = 1e-4
_SAME = torch.arange(2)
"""The order of the two texts as they were."""
_trying = threading.RLock()
_tried: set[str] = set()


def is_newer() -> bool:
    """True if the installed release is newer than all that were tested."""
    return Version(transformers.__version__) > Version(KNOWN)


def try_once(what: str, trial: Callable[[], None]) -> None:
    """Run ``trial`` before the first time that dwindle does ``what`` with a newer release.

    Raises:
        ImportError: the trial failed, and so will each further one.
    """
    if not is_newer():
        return
    with _trying:
        if what in _tried:  # also inside the trial itself
            return
        _tried.add(what)
        try:
            with torch.random.fork_rng(devices=[]), torch.no_grad(), torch.device("cpu"):
                torch.manual_seed(0)
                trial()
        except Exception as error:
            _tried.discard(what)
            raise refusal(
                what, f"its self-check failed: {type(error).__name__}: {error}"
            ) from error


def cross_attention(attach: Callable[..., Any]) -> None:
    """The trial for a source in the encoder."""
    model = tiny_bart()
    states = model.get_encoder()(torch.randint(3, 30, (2, 7)))[0]
    rows = torch.randint(3, 30, (2, 6))

    def at_once(order: Tensor) -> Tensor:
        logits: Tensor = model(
            encoder_outputs=(states[order],), decoder_input_ids=rows[order], use_cache=False
        ).logits
        return logits[:, 3:]

    def stepwise(order: Tensor) -> Tensor:
        out = model(encoder_outputs=(states,), decoder_input_ids=rows[:, :3], use_cache=True)
        out.past_key_values.reorder_cache(order)
        found = []
        for t in range(3, rows.shape[1]):
            now = rows[order, t : t + 1]
            out = model(
                encoder_outputs=(states[order],),
                decoder_input_ids=now,
                past_key_values=out.past_key_values,
            )
            found.append(out.logits)
        return torch.cat(found, 1)

    plain = at_once(_SAME)
    with attach(model, _RULE):
        _compare(at_once, stepwise, plain)
    _undone(at_once, plain)


def prompt(attach: Callable[..., Any], source_span: Callable[..., Any]) -> None:
    """The trial for a source in the prompt."""
    model = _tiny_llama()
    rows, document = torch.randint(3, 30, (2, 12)), 7

    def at_once(order: Tensor) -> Tensor:
        logits: Tensor = model(input_ids=rows[order], use_cache=False).logits
        return logits[:, document:]

    def stepwise(order: Tensor) -> Tensor:
        out = model(input_ids=rows[:, :document], use_cache=True)
        out.past_key_values.reorder_cache(order)
        found = []
        for t in range(document, rows.shape[1]):
            out = model(
                input_ids=rows[order, t : t + 1],
                past_key_values=out.past_key_values,
                use_cache=True,
            )
            found.append(out.logits)
        return torch.cat(found, 1)

    plain = at_once(_SAME)
    with (
        attach(model, _RULE, source="prompt"),
        source_span(model, torch.ones(2, document, dtype=torch.bool)),
    ):
        _compare(at_once, stepwise, plain)
    _undone(at_once, plain)


def _compare(
    at_once: Callable[[Tensor], Tensor], stepwise: Callable[[Tensor], Tensor], plain: Tensor
) -> None:
    """While a rule is attached."""
    if (at_once(_SAME) - plain).abs().max() < _NEAR:
        raise ValueError("the rule has no effect")
    for order in (_SAME, _SAME.flip(0)):
        if (at_once(order) - stepwise(order)).abs().max() > _NEAR:
            raise ValueError("rows fed at once and one by one give different logits")


def _undone(at_once: Callable[[Tensor], Tensor], plain: Tensor) -> None:
    if not torch.equal(at_once(_SAME), plain):
        raise ValueError("the model is not what it was after the rule was taken out")


def tiny_bart() -> Any:
    """A random BART whose attention is sharp enough for a wrong order of beams to show."""
    return _sharp(
        transformers.BartForConditionalGeneration(
            transformers.BartConfig(
                vocab_size=30,
                d_model=16,
                encoder_layers=1,
                decoder_layers=2,
                encoder_attention_heads=2,
                decoder_attention_heads=2,
                encoder_ffn_dim=16,
                decoder_ffn_dim=16,
                max_position_embeddings=32,
                forced_eos_token_id=None,
            )
        )
    )


def _tiny_llama() -> Any:
    return _sharp(
        transformers.LlamaForCausalLM(
            transformers.LlamaConfig(
                vocab_size=30,
                hidden_size=16,
                intermediate_size=16,
                num_hidden_layers=2,
                num_attention_heads=2,
                max_position_embeddings=32,
            )
        )
    )


def _sharp(model: Any) -> Any:
    for parameter in model.parameters():
        parameter.normal_(std=0.4)
    return model.float().eval()
