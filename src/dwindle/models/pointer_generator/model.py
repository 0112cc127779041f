"""``PointerGenerator``: writes from a vocabulary or copies from the source (See et al., 2017).

P(w) = p_gen P_vocab(w) + (1 - p_gen) sum of the attention to w in the source, over an extended
vocabulary: the words of the vocabulary, then the out-of-vocabulary words of each source. A rule
diminishes the weights of the context vector; the copy distribution keeps the plain attention, for
with diminished weights P would not sum to one. It knows nothing of words as text, nor of training.

Shapes: B sources (or beams), S source positions, T words, V vocabulary, W extended vocabulary.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import Seq2SeqLMOutput

from dwindle.attaching.record import Record, until_end
from dwindle.core.rules import Rule
from dwindle.models.codec import IGNORED
from dwindle.models.library import copy_, init, over_words
from dwindle.models.pointer_generator.config import PointerGeneratorConfig, usable
from dwindle.models.pointer_generator.decoder import Decoder, Rows
from dwindle.models.pointer_generator.encoder import EncodedSource, Encoder
from dwindle.models.pointer_generator.likelihood import NEVER, Words, log_likelihood
from dwindle.models.pointer_generator.loop import State
from dwindle.models.vocabulary_product import Wide


class PointerGenerator(PreTrainedModel, GenerationMixin):
    """A summariser that can copy. Takes the batches of ``WordCodec``."""

    config_class = PointerGeneratorConfig
    # new where coverage is added to a trained model
    _keys_to_ignore_on_load_missing = ("decoder.covered.weight",)
    _is_stateful = True  # nothing can be taken back from an LSTM: no assisted decoding

    def __init__(self, config: PointerGeneratorConfig) -> None:
        super().__init__(config)
        hidden, words = config.hidden_size, config.embedding_size
        self.encoder = Encoder(config)
        self.decoder = Decoder(config)
        self.switch = nn.Linear(2 * hidden + hidden + hidden + words, 1)  # p_gen
        self.merge = nn.Linear(hidden + 2 * hidden, hidden)  # V
        self.vocabulary = Wide(hidden, config.vocab_size)  # V'
        self.post_init()

    @property
    def rule(self) -> Rule:
        """Rule of the context vector's weights."""
        return self.decoder.rule

    def set_rule(self, rule: Rule | str) -> None:
        """Diminish the weights of the context vector by this rule from now on."""
        self.decoder.rule = usable(rule)
        self.config.rule = str(self.decoder.rule)

    def forward(
        self,
        input_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        extended_ids: Tensor | None = None,
        labels: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: EncodedSource | None = None,
        past_key_values: State | None = None,
        use_cache: bool | None = None,
        oov: Tensor | None = None,
        return_dict: bool | None = None,
    ) -> Seq2SeqLMOutput | tuple[Any, ...]:
        """The loss of ``labels``, or else log P(w) after each of ``decoder_input_ids``.

        Args:
            input_ids: (B, S), out-of-vocabulary words as unknown.
            attention_mask: (B, S), 1 for words, then 0 for padding. None: no padding.
            extended_ids: (B, S), the same words with numbers from V on for the out-of-vocabulary
                words of each row.
            labels: (B, T) extended ids, -100 where there is no word. With labels, no logits: P(w)
                of all words for all steps at once would fill the memory, and training needs that of
                the labels only.
            decoder_input_ids: (B, T) extended ids, starting with the start word.
            encoder_outputs: the encoded source, in place of ``input_ids``.
            past_key_values: the state after the words before ``decoder_input_ids``.
            use_cache: also return the state after them.
            oov: not looked at; ``WordCodec`` keeps the words that it decodes with in the batch.
            return_dict: False for a tuple.

        Returns:
            ``loss``, or ``logits`` (B, T, W), ``past_key_values`` and ``cross_attentions``: one (B,
            1, T, S) of the weights that made the context vectors.
        """
        encoded = self._encoded(input_ids, attention_mask, encoder_outputs)
        extended_ids, mask = _check(extended_ids, attention_mask, encoded)
        if labels is not None:
            read = self._shifted(labels) if decoder_input_ids is None else decoder_input_ids
            rows, _ = self._rows(read, encoded, mask, past_key_values)
            output = Seq2SeqLMOutput(loss=self._loss(rows, labels, extended_ids))
        elif decoder_input_ids is None:
            raise ValueError(
                "there is nothing to read or to learn: pass decoder_input_ids or labels"
            )
        else:
            rows, state = self._rows(decoder_input_ids, encoded, mask, past_key_values)
            output = Seq2SeqLMOutput(
                logits=self._distribution(
                    rows, extended_ids, len(mask) // len(encoded.last_hidden_state)
                ),
                past_key_values=state if use_cache else None,
                cross_attentions=(rows.weights.unsqueeze(1),),
            )
        return output.to_tuple() if return_dict is False else output

    @torch.no_grad()
    def attended(self, batch: dict[str, Any], sequences: Tensor) -> Record:
        """Attention and weights of the steps that wrote ``sequences`` (N, 1 + T) from ``batch``.

        N may be a multiple of B: several sequences for each source, in its order. Rows after the
        end are zero.
        """
        sequences = sequences.to(self.device)
        times = sequences.shape[0] // batch["input_ids"].shape[0]
        ids, mask = (batch[name].to(self.device) for name in ("input_ids", "attention_mask"))
        every = mask.bool().repeat_interleave(times, dim=0)
        rows, _ = self._rows(sequences[:, :-1], self.encoder(ids, mask), every, None)
        written = until_end(sequences[:, 1:], self.config.eos_token_id).unsqueeze(-1)
        attention, weights = (
            x.where(written, 0).float().cpu()[None]
            for x in (rows.log_attention.exp(), rows.weights)
        )
        return Record(["attention"], sequences[:, 1:].cpu(), attention, weights)

    def _encoded(
        self, input_ids: Tensor | None, mask: Tensor | None, encoded: EncodedSource | None
    ) -> EncodedSource:
        if encoded is not None:
            return encoded
        if input_ids is None:
            raise ValueError("there is no source: pass input_ids or encoder_outputs")
        read: EncodedSource = self.encoder(input_ids, mask)
        return read

    def _rows(
        self, ids: Tensor, encoded: EncodedSource, mask: Tensor, state: State | None
    ) -> tuple[Rows, State]:
        """The decoder over extended ids (B, T). A copied word reads as unknown."""
        if ids.dim() != 2 or ids.shape[0] != mask.shape[0] or not ids.shape[1]:
            raise ValueError(
                f"decoder_input_ids has shape {tuple(ids.shape)}: give (B, T) with B = "
                f"{mask.shape[0]}"
            )
        known = ids.masked_fill(ids >= self.config.vocab_size, self.config.unk_token_id)
        if state is None:
            beams = len(mask) // len(encoded.last_hidden_state)
            state = self.decoder.start(encoded, mask[::beams], beams)
        rows, state = self.decoder(self.encoder.embedding(known), encoded.last_hidden_state, state)
        return rows, state

    def _shifted(self, labels: Tensor) -> Tensor:
        """Decoder input for ``labels``: the start token, then all but the last of them."""
        start = labels.new_full((labels.shape[0], 1), self.config.decoder_start_token_id)
        return torch.cat(
            [
                start,
                labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, self.config.pad_token_id),
            ],
            1,
        )

    def _switch(self, rows: Rows) -> Tensor:
        """(B, T): the logit of p_gen."""
        seen = torch.cat([rows.context, rows.cell, rows.hidden, rows.fed], dim=-1)
        logit: Tensor = self.switch(seen)
        return logit.squeeze(-1).to(rows.log_attention.dtype)

    def _merged(self, hidden: Tensor, context: Tensor) -> Tensor:
        """(..., H): the states from which the vocabulary is scored."""
        merged: Tensor = self.merge(torch.cat([hidden, context], dim=-1))
        return merged

    def _log_copy(self, rows: Rows) -> Tensor:
        """(B, T, S): the logarithm of the copy distribution over source positions."""
        if self.config.copy == "plain":
            return rows.log_attention
        weights = rows.weights.clamp(min=torch.finfo(rows.weights.dtype).tiny)
        return weights.log() - weights.sum(-1, keepdim=True).log()

    def _distribution(self, rows: Rows, extended_ids: Tensor, beams: int) -> Tensor:
        """(B, T, W): log P(w) over the extended vocabulary. ``beams``: rows that share a source.

        Most words are not in the source, and for them it is log p_gen + log P_vocab. Those that are
        get more.
        """
        switch = self._switch(rows).unsqueeze(-1)
        scores = self.vocabulary(self._merged(rows.hidden, rows.context)).to(switch.dtype)
        written = scores.log_softmax(-1).add_(F.logsigmoid(switch))
        outside = max(0, int(extended_ids.max()) + 1 - scores.shape[-1])
        logits = torch.cat(
            [written, written.new_full((*written.shape[:-1], outside), -torch.inf)], dim=-1
        )
        copied = (F.logsigmoid(-switch) + self._log_copy(rows)).exp()
        first = (
            _first(extended_ids[::beams])
            .repeat_interleave(beams, dim=0)
            .unsqueeze(1)
            .expand_as(copied)
        )
        copied = torch.zeros_like(copied).scatter_add(-1, first, copied).gather(-1, first)
        words = extended_ids.unsqueeze(1).expand_as(copied)
        return logits.scatter_(-1, words, torch.logaddexp(logits.gather(-1, words), copied.log()))

    def _loss(self, rows: Rows, labels: Tensor, extended_ids: Tensor) -> Tensor:
        """See's mean over examples of means over words, of -log P and of the coverage loss."""
        if labels.shape != rows.hidden.shape[:2]:
            raise ValueError(
                f"labels has shape {tuple(labels.shape)}, but {tuple(rows.hidden.shape[:2])} "
                "words are read"
            )
        real = labels != IGNORED
        share = (
            real.to(rows.log_attention.dtype) / real.sum(1, keepdim=True).clamp(min=1) / len(real)
        )
        words = self._words(rows, labels, real, extended_ids, -share)
        loss = log_likelihood(words, self.vocabulary.weight, self.vocabulary.bias)
        if self.config.coverage:
            loss = (
                loss
                + self.config.coverage_loss
                * (coverage_losses(rows.log_attention.exp()) * share).sum()
            )
        return loss

    def _words(
        self, rows: Rows, labels: Tensor, real: Tensor, extended_ids: Tensor, share: Tensor
    ) -> Words:
        """The N real labels; in logarithms throughout, so that a small P keeps its gradient."""
        ids = labels[real]
        here = extended_ids[real.nonzero()[:, 0]] == ids.unsqueeze(1)  # (N, S)
        copied = self._log_copy(rows)[real].where(here, NEVER).logsumexp(-1)
        merged = self._merged(rows.hidden[real], rows.context[real])
        return Words(ids, merged, self._switch(rows)[real], copied, share[real])

    def _expand_inputs_for_generation(
        self, expand_size: int = 1, encoder_outputs: EncodedSource | None = None, **given: Any
    ) -> tuple[Tensor, dict[str, Any]]:
        """The library's method, except that the beams of a source share its encoding."""
        ids, fanned = super()._expand_inputs_for_generation(
            expand_size, **given | {"is_encoder_decoder": False}
        )
        return ids, {**fanned, "encoder_outputs": encoder_outputs}

    def _beam_search(
        self, input_ids: Tensor, *args: Any, extended_ids: Tensor, **kwargs: Any
    ) -> Any:
        """The library's method, over the extended vocabulary."""
        model = over_words(self, max(self.config.vocab_size, int(extended_ids.max()) + 1))
        return GenerationMixin._beam_search(
            model, input_ids, *args, extended_ids=extended_ids, **kwargs
        )

    def prepare_inputs_for_generation(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Inputs of the next step, without the positions that older releases add: the state knows
        where it is."""
        inputs: dict[str, Any] = super().prepare_inputs_for_generation(*args, **kwargs)
        inputs.pop("cache_position", None)
        return inputs

    def get_encoder(self, *_: Any, **__: Any) -> nn.Module:
        return self.encoder

    def get_input_embeddings(self) -> nn.Module:
        return self.encoder.embedding

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # the first forward makes the state

    def _init_weights(self, module: nn.Module) -> None:
        """As See's code starts: LSTMs uniform, embeddings and outputs nearly zero, the rest as
        TensorFlow does it."""
        uniform, deviation = self.config.uniform_init, self.config.normal_init
        if isinstance(module, nn.LSTM):
            for name, weight in module.named_parameters():
                init.uniform_(weight, -uniform, uniform)
                if "ih" in name and not getattr(weight, "_is_hf_initialized", False):
                    weight[:, -1] = _open(weight[:, -1])
        elif module is self.decoder.gates:
            init.uniform_(module.weight, -uniform, uniform)
            copy_(module.bias, _open(module.bias))
        # TensorFlow takes a vector for its own fan in and fan out
        elif module is self.decoder.score:
            bound = (3 / module.in_features) ** 0.5
            init.uniform_(module.weight, -bound, bound)
        elif module in (
            self.encoder.embedding,
            self.encoder.reduce_hidden,
            self.encoder.reduce_cell,
            self.vocabulary,
        ):
            for weight in module.parameters():
                init.trunc_normal_(weight, std=deviation, a=-2 * deviation, b=2 * deviation)
        elif isinstance(module, nn.Linear):
            init.xavier_uniform_(module.weight)
            if module.bias is not None:
                init.zeros_(module.bias)


def _open(bias: Tensor) -> Tensor:
    """The bias (4H,) of an LSTM's gates that begins by remembering: 1 for forget, else 0."""
    started = torch.zeros_like(bias)
    started.chunk(4)[1].fill_(1)
    return started


def _first(ids: Tensor) -> Tensor:
    """(B, S): where each word of a source is for the first time."""
    ordered, places = ids.sort(dim=-1, stable=True)
    begins = F.pad(ordered[:, 1:] != ordered[:, :-1], (1, 0), value=True)
    begin = torch.arange(ids.shape[1], device=ids.device).where(begins, 0).cummax(-1).values
    return torch.empty_like(places).scatter_(-1, places, places.gather(-1, begin))


def coverage_losses(attention: Tensor) -> Tensor:
    """(B, T): sum_i min(a_i^t, c_i^t), where c is the sum of the attention (B, T, S) before t."""
    before = F.pad(attention, (0, 0, 1, 0)).cumsum(1)[:, :-1]
    return torch.minimum(attention, before).sum(-1)


def _check(
    extended_ids: Tensor | None, mask: Tensor | None, encoded: EncodedSource
) -> tuple[Tensor, Tensor]:
    """Extended ids and bool mask, both (B, S) of this source, or a row for each beam."""
    sources, positions = encoded.last_hidden_state.shape[:2]
    if extended_ids is None:
        raise ValueError(
            "extended_ids is missing: a pointer-generator copies by them; WordCodec makes them"
        )
    if mask is None:
        mask = torch.ones_like(extended_ids)
    fits = (
        extended_ids.dim() == 2
        and extended_ids.shape[1] == positions
        and not extended_ids.shape[0] % sources
    )
    if not fits or extended_ids.shape != mask.shape:
        raise ValueError(
            f"extended_ids {tuple(extended_ids.shape)} and attention_mask {tuple(mask.shape)} do "
            f"not fit the source: both must be {(sources, positions)}"
        )
    return extended_ids, mask.bool()
