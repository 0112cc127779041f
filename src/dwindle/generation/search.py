"""``Search``: the library's beam search, ranking by our score.

The search itself is ``_beam_search`` of `transformers`, run on a stand-in for the model. The
stand-in passes everything on to the model but for the four small methods in which scores are
compared. Their names, and what they are called with, are the library's own business and may change:
this file alone in the room uses them, and looks for them when it is imported. Running hypotheses
keep their pure log-probability; the score is computed again wherever hypotheses are ranked, so that
no rounding adds up.

Shapes: B sources, K beams, V tokens, C candidates of a step, S source positions.
"""

import inspect
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from transformers import GenerationMixin

from dwindle.attaching.handle import handle_of
from dwindle.attaching.library import refusal
from dwindle.generation.processors import NEVER
from dwindle.generation.settings import DecodingSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

_BLOCK = 512
"""Number of scores in a block whose maximum is looked at first."""
_ASKED: dict[str, set[str]] = {
    "_beam_search": set(),
    "_gather_beams": set(),
    "_update_model_kwargs_for_generation": {"outputs", "model_kwargs"},
    "_get_top_k_continuations": {
        "accumulated_log_probs",
        "running_sequences",
        "running_beam_indices",
        "cur_len",
        "decoder_prompt_len",
        "beams_to_keep",
        "num_beams",
    },
    "_get_running_beams_for_next_iteration": {
        *("topk_log_probs", "topk_running_sequences", "topk_running_beam_indices"),
        *("next_token_hits_stopping_criteria", "num_beams"),
    },
    "_update_finished_beams": {
        "topk_log_probs",
        "length_penalty",
        "cur_len",
        "decoder_prompt_len",
        "topk_running_beam_indices",
        "next_token_hits_stopping_criteria",
        "topk_running_sequences",
        "is_sent_finished",
        "top_num_beam_mask",
    },
    "_check_early_stop_heuristic": {
        "is_early_stop_heuristic_unsatisfied",
        "running_beam_scores",
        "beam_scores",
        "max_length",
        "decoder_prompt_len",
    },
}
"""The library's methods that this file uses, and what it asks each for by name."""


def changed(mixin: type) -> list[str]:
    """The names of those that the library no longer has or calls with other arguments."""
    there = {name: getattr(mixin, name, None) for name in _ASKED}
    return [
        name
        for name, method in there.items()
        if not method or _ASKED[name] - set(inspect.signature(method).parameters)
    ]


if lost := changed(GenerationMixin):
    raise refusal("search", f"its {lost[0]} is another")


class Search:
    """For ``custom_generate`` of the library's ``generate()``."""

    def __init__(self, settings: DecodingSettings) -> None:
        self.settings = settings

    def __call__(self, model: "PreTrainedModel", input_ids: Tensor, **given: Any) -> Any:
        scored = _Scored(model, self.settings, len(input_ids), given.get("attention_mask"))
        return type(model)._beam_search(scored, input_ids, **given)


class _Scored:
    """A stand-in for the model that ranks hypotheses by our score."""

    def __init__(
        self, model: "PreTrainedModel", settings: DecodingSettings, rows: int, mask: Tensor | None
    ) -> None:
        self.model, self.settings, self.mask = model, settings, mask
        self.penalty = torch.zeros(rows, device=model.device)
        """(B K,): the penalty of the coverage after the row that this step's tokens come from."""
        self.topped: Tensor | None = None
        """Bool (B, 1): whether the best continuation of this step has ended."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __call__(self, **inputs: Any) -> Any:
        return self.model(**inputs)

    def score(self, log_probs: Tensor, length: int, penalty: Tensor) -> Tensor:
        return log_probs / norm(self.settings, length) + penalty

    def _update_model_kwargs_for_generation(
        self, outputs: Any, model_kwargs: dict[str, Any], **given: Any
    ) -> Any:
        """Called after each forward pass: now the cache knows the coverage."""
        if self.settings.coverage_penalty != "none":
            coverage = mean_coverage(self.model, outputs.past_key_values)
            self.penalty = penalty(self.settings, coverage, real_positions(self.mask, coverage))
        return self.model._update_model_kwargs_for_generation(outputs, model_kwargs, **given)

    def _get_top_k_continuations(
        self,
        *,
        accumulated_log_probs: Tensor,
        running_sequences: Tensor,
        running_beam_indices: Tensor,
        cur_len: int,
        decoder_prompt_len: int,
        beams_to_keep: int,
        num_beams: int,
        **_: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The C best of (B, K V) continuations, best first; their log-probabilities stay pure."""
        length, ranked = cur_len + 1 - decoder_prompt_len, accumulated_log_probs
        tokens = ranked.shape[1] // num_beams
        if self.settings.stepwise:
            ranked = self.score(ranked.view(-1, tokens), length, self.penalty[:, None]).view(
                ranked.shape
            )
        best = highest(ranked, beams_to_keep)
        beam = best // tokens
        sequences, origins = (
            self.model._gather_beams(x, beam) for x in (running_sequences, running_beam_indices)
        )
        sequences[:, :, cur_len] = best % tokens
        origins[:, :, length - 1] = beam + num_beams * torch.arange(
            len(beam), device=beam.device
        ).unsqueeze(1)
        return accumulated_log_probs.gather(1, best), sequences, origins

    def _get_running_beams_for_next_iteration(
        self,
        *,
        topk_log_probs: Tensor,
        topk_running_sequences: Tensor,
        topk_running_beam_indices: Tensor,
        next_token_hits_stopping_criteria: Tensor,
        num_beams: int,
    ) -> tuple[Tensor, ...]:
        """The first K unfinished candidates. (The library ranks them again, by what it takes for
        their score.) In PreSumm's search and the captioner's those that ended have had their
        place."""
        ended = next_token_hits_stopping_criteria
        first = ended.long().argsort(dim=1, stable=True)[:, :num_beams]
        if self.settings.stopping == "top":
            self.topped = ended[:, :1]
        if self.settings.stopping == "top" or self.settings.search == "captioner":
            first = torch.arange(num_beams, device=ended.device).expand(len(ended), -1)
        kept = (topk_running_sequences, topk_log_probs + ended * NEVER, topk_running_beam_indices)
        return tuple(self.model._gather_beams(x, first) for x in kept)

    def _update_finished_beams(
        self, *, topk_log_probs: Tensor, length_penalty: float, **given: Any
    ) -> Any:
        """Finished hypotheses are ranked by score; the library's length penalty is set to 0."""
        length = given["cur_len"] + 1 - given["decoder_prompt_len"]
        origins = given["topk_running_beam_indices"][..., length - 1].long()
        scores = self.score(topk_log_probs, length, self.penalty[origins])
        if self.settings.search in ("see", "see-port"):
            given |= self._collected(length, **given)
        elif self.settings.cut == "last":
            given["next_token_hits_stopping_criteria"] = self._whole(length, **given)
        return self.model._update_finished_beams(topk_log_probs=scores, length_penalty=0.0, **given)

    def _collected(
        self,
        length: int,
        *,
        topk_running_sequences: Tensor,
        is_sent_finished: Tensor,
        cur_len: int,
        **given: Any,
    ) -> dict[str, Tensor]:
        """See's rule, where the library counts ends among the first K candidates only: a candidate
        that ends counts if fewer than K before it go on. At the greatest length those that go on
        count if none has ended."""
        last = topk_running_sequences[..., cur_len]
        ended = torch.isin(
            last, torch.as_tensor(self.model.generation_config.eos_token_id, device=last.device)
        )
        before = (~ended).long().cumsum(1) - (~ended).long()
        finish = ended & (before < is_sent_finished.shape[1])
        if length == self.settings.max_length:
            none = ~(finish.any(1) | is_sent_finished.any(1)).unsqueeze(1)
            finish = finish | (none & ~ended & (before < is_sent_finished.shape[1]))
        mask = torch.ones_like(given["top_num_beam_mask"])
        return {"next_token_hits_stopping_criteria": finish, "top_num_beam_mask": mask}

    def _whole(
        self,
        length: int,
        *,
        next_token_hits_stopping_criteria: Tensor,
        topk_running_sequences: Tensor,
        is_sent_finished: Tensor,
        cur_len: int,
        top_num_beam_mask: Tensor,
        **_: Any,
    ) -> Tensor:
        """Bool (B, C): the candidates that finish now. Of those that are merely cut at the greatest
        length, none where one has ended."""
        finish = next_token_hits_stopping_criteria
        if length < self.settings.max_length:
            return finish
        ends = torch.as_tensor(self.model.generation_config.eos_token_id, device=finish.device)
        ended = torch.isin(topk_running_sequences[..., cur_len], ends) & top_num_beam_mask
        any_ended = (ended.any(1) | is_sent_finished.any(1)).unsqueeze(1)
        return torch.where(any_ended, ended, finish)

    def _check_early_stop_heuristic(
        self,
        *,
        is_early_stop_heuristic_unsatisfied: Tensor,
        running_beam_scores: Tensor,
        beam_scores: Tensor,
        max_length: int,
        decoder_prompt_len: int,
        **_: Any,
    ) -> Tensor:
        """Bool (B, 1): whether a running hypothesis can still win.

        Log-probabilities only fall, norms only grow with length, and penalties are never positive:
        this bound is safe. PreSumm's search goes on until its best continuation ends, and no
        longer.
        """
        if self.topped is not None:
            return is_early_stop_heuristic_unsatisfied & ~self.topped
        best_possible = running_beam_scores.amax(1, keepdim=True) / norm(
            self.settings, max_length - decoder_prompt_len
        )
        return is_early_stop_heuristic_unsatisfied & (best_possible > beam_scores[:, :1])


def highest(scores: Tensor, count: int) -> Tensor:
    """(B, C): where the C highest of (B, n) scores are, best first. They lie in the C blocks whose
    maxima are highest, and a maximum of many is much faster than their ``topk``."""
    rows, size = scores.shape
    blocks = size // _BLOCK
    if blocks <= count:
        return scores.topk(count).indices
    every = torch.arange(size, device=scores.device)
    maxima = scores[:, : blocks * _BLOCK].view(rows, blocks, _BLOCK).amax(-1)
    best = maxima.topk(count).indices.unsqueeze(-1) * _BLOCK + every[:_BLOCK]
    places = torch.cat([best.flatten(1), every[blocks * _BLOCK :].expand(rows, -1)], dim=1)
    return places.gather(1, scores.gather(1, places).topk(count).indices)


def mean_coverage(model: "PreTrainedModel", cache: Any) -> Tensor:
    """(B K, S): attention each source position has had, mean over heads and attached layers."""
    if hasattr(cache, "coverage"):  # the state of one of our own models
        layers = [cache.coverage]
    else:
        handle = handle_of(model)
        assert handle is not None, "prepared for counting"
        layers = handle.coverage(cache)
    return torch.stack([layer.total.mean(1) for layer in layers]).mean(0)


def real_positions(mask: Tensor | None, coverage: Tensor) -> Tensor:
    """Bool (N, S): source positions without padding. Encoders of sound and images change S."""
    return (
        mask.bool()
        if mask is not None and mask.shape == coverage.shape
        else torch.ones_like(coverage).bool()
    )


def norm(settings: DecodingSettings, length: int) -> float:
    """Divisor of the log-probability of ``length`` generated tokens, the end token included.

    ``average`` adds one, because See's beam search counts the start token too. ``gnmt`` is lp of Wu
    et al., Eq. 14.
    """
    if settings.length_norm == "average":
        return 1.0 + length
    if settings.length_norm == "alpha":
        return float(length**settings.alpha)
    return float(((5 + length) / 6) ** settings.alpha) if settings.length_norm == "gnmt" else 1.0


def penalty(settings: DecodingSettings, coverage: Tensor, real: Tensor) -> Tensor:
    """The coverage penalty (N,) of coverage (N, S) over the ``real`` source positions, bool (N, S).
    Never positive.

    gnmt: beta sum_i log min(c_i, 1) (Wu et al., Eq. 14). gehrmann: -beta sum_i (max(c_i, 1) - 1),
    which is their -beta (-S + sum_i max(c_i, 1)).
    """
    if settings.coverage_penalty == "gnmt":
        # A position that was never seen costs much, but not everything: the others must still
        # count.
        lacking = coverage.clamp(torch.finfo(coverage.dtype).tiny, 1).log()
    else:
        lacking = 1 - coverage.clamp(min=1)
    return settings.beta * lacking.masked_fill(~real, 0).sum(-1)
