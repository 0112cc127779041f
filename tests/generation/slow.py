"""A beam search written from the definitions, one hypothesis at a time, without a cache: the slow
twin.

It also has the tiny model of these tests: random, with sharp attention, and ready to end at various
lengths.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor

from dwindle.generation.settings import DecodingSettings

WORDS, PAD, END = 24, 1, 2
BREAK, NEVER = 5, -1e9


class Codec:
    """What blocking asks a codec. Token 5 separates sentences; a token of 14 or more continues the
    word before it."""

    sentence_break = BREAK

    def words(self, ids: list[int]) -> list[str]:
        words: list[str] = []
        for id in ids:
            if id >= 14 and words:
                words[-1] += f"+{id}"
            else:
                words.append(str(id))
        return words


def model(seed: int = 0, ending: float = 3.0, **changes: Any) -> hf.BartForConditionalGeneration:
    torch.manual_seed(seed)
    shape = {
        "encoder_layers": 1,
        "decoder_layers": 2,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
    }
    config = hf.BartConfig(
        **shape,
        vocab_size=WORDS,
        d_model=16,
        encoder_ffn_dim=24,
        decoder_ffn_dim=24,
        max_position_embeddings=32,
        init_std=0.5,
        dropout=0.0,
        pad_token_id=PAD,
        bos_token_id=0,
        eos_token_id=END,
        decoder_start_token_id=END,
        forced_eos_token_id=None,
        tie_word_embeddings=False,
        **{"attn_implementation": "eager", **changes},
    )
    made = hf.BartForConditionalGeneration(config).eval()
    made.final_logits_bias[0, END] = ending
    return made


def batch(lengths: tuple[int, ...] = (9, 8, 6, 3), seed: int = 1) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    ids = torch.full((len(lengths), max(lengths)), PAD)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.randint(4, WORDS, (length,), generator=generator)
    return {"input_ids": ids, "attention_mask": (ids != PAD).long()}


Look = Callable[[list[list[int]]], tuple[Tensor, Tensor]]
"""Hypotheses of one length -> logits (N, V) of their next token, and coverage (N, S) after the row
these come from."""


def looking(model: hf.PreTrainedModel, source: Tensor) -> Look:
    """At one source (S,) without padding, through a model of the library; all rows anew at each
    step."""

    def look(hypotheses: list[list[int]]) -> tuple[Tensor, Tensor]:
        sources = source.expand(len(hypotheses), -1)
        out = model(
            input_ids=sources, decoder_input_ids=torch.tensor(hypotheses), output_attentions=True
        )
        layers = torch.stack(out.cross_attentions)  # (L, N, H, T, S)
        return out.logits[:, -1], layers.sum(3).mean((0, 2))

    return look


@torch.no_grad()
def best(
    look: Look, settings: DecodingSettings, start: int = END, end: int = END, codec: Any = None
) -> list[int]:
    """The best hypothesis for one source, from the start token on."""
    running, finished = [([start], 0.0)], []
    for length in range(1, settings.max_length + 1):
        candidates = []
        hypotheses = [tokens for tokens, _ in running]
        for (tokens, so_far), logits, coverage in zip(running, *look(hypotheses), strict=True):
            for token, more in enumerate(
                processed(logits.log_softmax(-1).tolist(), tokens, settings, end, codec or Codec())
            ):
                total = so_far + more
                full = score(total, length, coverage, settings)
                candidates.append(
                    (full if settings.stepwise else total, [*tokens, token], total, full)
                )
        candidates.sort(key=lambda candidate: -candidate[0])
        slots = settings.beams if settings.stopping == "top" else 2 * settings.beams
        top, running = candidates[:slots], []
        for place, (_, tokens, total, full) in enumerate(top):
            if tokens[-1] == end or length == settings.max_length:
                if place < settings.beams:
                    finished.append((full, tokens))
            elif len(running) < settings.beams:
                running.append((tokens, total))
        if settings.stopping == "beams" and len(finished) >= settings.beams:
            break
        if settings.stopping == "top" and top[0][1][-1] == end:
            break
    if settings.cut == "last":
        finished = [one for one in finished if one[1][-1] == end] or finished
    return max(finished)[1]


def processed(
    log_probs: list[float], tokens: list[int], settings: DecodingSettings, end: int, codec: Any
) -> list[float]:
    written = tokens[1:]
    for token in set(written):
        log_probs[token] *= settings.repetition_penalty
    for token in range(len(log_probs)):
        again = count(written, [*written[-2:], token], 3)
        log_probs[token] -= settings.soft_trigrams * math.log(2) * again
        size, seen = settings.block_ngrams, [t for t in tokens if t != codec.sentence_break]
        blocks = settings.block_by == "tokens" and size and token != codec.sentence_break
        if blocks and count(seen, [*seen[len(seen) - size + 1 :], token], size):
            log_probs[token] = -math.inf
    if settings.block_by == "words":
        words = codec.words(tokens)
        if count(words, words[-size:], size) > 1:
            log_probs = [x + NEVER for x in log_probs]
    if len(written) < settings.min_length:
        log_probs[end] = -math.inf
    return log_probs


def count(tokens: list[Any], ngram: list[Any], size: int) -> int:
    return (
        sum(tokens[i : i + size] == ngram for i in range(len(tokens) - size + 1))
        if len(ngram) == size
        else 0
    )


def score(log_prob: float, length: int, coverage: Tensor, settings: DecodingSettings) -> float:
    alpha, beta = settings.alpha, settings.beta
    divisor = {
        "none": 1,
        "average": length + 1,
        "alpha": length**alpha,
        "gnmt": (5 + length) ** alpha / 6**alpha,
    }
    penalty = 0.0
    if settings.coverage_penalty == "gnmt":
        penalty = beta * sum(math.log(min(c, 1.0)) for c in coverage.tolist())
    if settings.coverage_penalty == "gehrmann":
        penalty = -beta * (-len(coverage) + sum(max(c, 1.0) for c in coverage.tolist()))
    return log_prob / divisor[settings.length_norm] + penalty
