"""The Top-Down captioner (Anderson et al., 2018): two LSTMs that write a paragraph while they look
at image regions.

A step reads a word, the mean of the regions and what was written (attention LSTM), looks at the
regions (additive attention), and writes from what it saw (language LSTM). A rule diminishes the
attention over the regions; its coverage is part of the decoder's state. The sizes are those of
Melas-Kyriazi et al. (2018), the baseline of the paper's Table 3. It knows nothing of words, image
files or training.

Shapes: N images (or beams), S regions, D feature width, T words, H hidden size.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import GenerationMixin, PreTrainedModel
from transformers.modeling_outputs import Seq2SeqLMOutput
from transformers.utils import ModelOutput

from dwindle.attaching.record import Record, until_end
from dwindle.core.additive.source import Source
from dwindle.core.coverage import Coverage, state_dtype
from dwindle.core.notation import row_rule
from dwindle.models.codec import IGNORED
from dwindle.models.library import Config
from dwindle.models.recurrent import Repeated, lstm_cell
from dwindle.models.vocabulary import END, PAD, START


class TopDownConfig(Config):
    """The sizes of a captioner and its rule, in the notation of ``dwindle.rule``."""

    model_type = "dwindle-top-down"

    vocab_size: int = 5000
    feature_size: int = 2048
    hidden_size: int = 512
    embedding_size: int = 512
    attention_size: int = 512
    dropout: float = 0.5
    max_regions: int = 100
    rule: str = "plain"
    is_encoder_decoder: bool = True
    pad_token_id: int | None = PAD
    bos_token_id: int | None = START
    eos_token_id: int | None = END
    decoder_start_token_id: int | None = START


@dataclass
class Embedded(ModelOutput):
    """An image's regions, embedded. Every field has the images first, so that ``generate()`` fans
    it out into beams."""

    last_hidden_state: Tensor
    """(N, S, H): the values of the attention."""
    attention_keys: Tensor = None  # type: ignore[assignment]  # the library's outputs require a default
    """(N, S, A)."""
    pooled: Tensor = None  # type: ignore[assignment]
    """(N, H): the mean of the features, embedded."""


@dataclass
class TopDownState:
    """State of the decoder between words: both LSTMs and the coverage of the regions."""

    attention: tuple[Tensor, Tensor]
    """Hidden and cell state of the attention LSTM, (N, H) each."""
    language: tuple[Tensor, Tensor]
    coverage: Coverage | None = None
    """(N, 1, S) each: the attention has one head. None before the first word."""

    def reorder_cache(self, beams: Tensor) -> None:
        """Row i continues what row ``beams[i]`` had."""
        self.attention, self.language = (
            (hidden.index_select(0, beams), cell.index_select(0, beams))
            for hidden, cell in (self.attention, self.language)
        )
        if self.coverage is not None:
            self.coverage = self.coverage.reorder(beams)


class RegionEncoder(nn.Module):
    """Embeds region features for the decoder."""

    main_input_name = "features"

    def __init__(self, config: TopDownConfig) -> None:
        super().__init__()
        embed = (nn.Linear(config.feature_size, config.hidden_size) for _ in range(2))
        self.regions, self.pooled = (
            nn.Sequential(x, nn.ReLU(), nn.Dropout(config.dropout)) for x in embed
        )
        self.keys = nn.Linear(config.hidden_size, config.attention_size)

    def forward(self, features: Tensor, attention_mask: Tensor | None = None, **_: Any) -> Embedded:
        """Features (N, S, D) and their mask (N, S), 1 for a region and 0 for padding."""
        width = self.regions[0].in_features
        if features.shape[-1] != width:
            raise ValueError(
                f"the features have width {features.shape[-1]}, but this model reads {width}"
            )
        weight = _mask(features, attention_mask).to(features.dtype).unsqueeze(-1)
        mean = (features * weight).sum(1) / weight.sum(1)
        embedded = self.regions(features)
        return Embedded(embedded, self.keys(embedded), self.pooled(mean))


class TopDownDecoder(nn.Module):
    """The weights of a step. The attention LSTM reads (written, word, mean of the regions)."""

    def __init__(self, config: TopDownConfig) -> None:
        super().__init__()
        hidden = config.hidden_size
        self.embed = nn.Sequential(
            nn.Embedding(config.vocab_size, config.embedding_size),
            nn.ReLU(),
            nn.Dropout(config.dropout),
        )
        self.attention_lstm = nn.LSTMCell(hidden + config.embedding_size + hidden, hidden)
        self.query = nn.Linear(hidden, config.attention_size)
        self.score = nn.Linear(config.attention_size, 1)
        self.language_lstm = nn.LSTMCell(hidden + hidden, hidden)
        self.dropout = nn.Dropout(config.dropout)

    def read(self, words: Tensor, pooled: Tensor) -> Tensor:
        """The attention LSTM's products with inputs that no step changes: words (N, T), mean of the
        regions (N, H).

        (N, T, 4H): its part of the gates.
        """
        lstm = self.attention_lstm
        given = torch.cat(
            [self.embed(words), pooled.unsqueeze(1).expand(-1, words.shape[1], -1)], -1
        )
        return F.linear(given, lstm.weight_ih[:, lstm.hidden_size :], lstm.bias_ih + lstm.bias_hh)

    def steps(self, regions: Embedded, mask: Tensor) -> "Steps":
        """Weights and regions as every step uses them; ``mask`` (N, S) is True for a region."""
        look, write = self.attention_lstm, self.language_lstm
        return Steps(
            Repeated(torch.cat([look.weight_ih[:, : look.hidden_size], look.weight_hh], 1)),
            Repeated(self.query.weight, self.query.bias),
            Repeated(
                torch.cat([write.weight_ih, write.weight_hh], 1), write.bias_ih + write.bias_hh
            ),
            Source(regions.attention_keys, regions.last_hidden_state, mask, self.score.weight[0]),
        )


@dataclass
class Steps:
    """Values that the steps of a loop share."""

    look: Repeated
    """The attention LSTM's gates from (written, looked)."""
    query: Repeated
    write: Repeated
    """The language LSTM's gates from (seen, looked, written)."""
    source: Source


class TopDown(PreTrainedModel, GenerationMixin):
    """The captioner, with ``generate()``. ``set_rule`` changes its rule, and no weight."""

    config_class = TopDownConfig
    base_model_prefix = "model"
    main_input_name = "features"
    accepts_loss_kwargs = True
    _is_stateful = True

    def __init__(self, config: TopDownConfig) -> None:
        super().__init__(config)
        self.encoder = RegionEncoder(config)
        self.decoder = TopDownDecoder(config)
        self.output = nn.Linear(config.hidden_size, config.vocab_size)
        self.set_rule(config.rule)
        self.post_init()

    def set_rule(self, rule: str) -> None:
        self.rule = row_rule(rule)
        self.config.rule = str(self.rule)

    def get_encoder(self, *_: Any, **__: Any) -> RegionEncoder:
        return self.encoder

    def forward(
        self,
        features: Tensor | None = None,
        attention_mask: Tensor | None = None,
        labels: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        encoder_outputs: Embedded | None = None,
        past_key_values: TopDownState | None = None,
        num_items_in_batch: Tensor | int | None = None,
        output_attentions: bool | None = None,
        drawn: float | None = None,
        **_: Any,
    ) -> Seq2SeqLMOutput:
        """Logits (N, T, V) of T words, all at once or continuing ``past_key_values``.

        Args:
            features: (N, S, D), unless ``encoder_outputs`` has them embedded.
            attention_mask: (N, S), 0 for padding.
            labels: (N, T), -100 for padding; shifted they are the words to read, and the loss is
                their mean cross-entropy (their sum over ``num_items_in_batch``, where the trainer
                counts them).
            decoder_input_ids: (N, T), the words to read where there are no labels.
            drawn: read word by word, and with this chance a word that the model draws itself in
                place of the given one (scheduled sampling); the first is given.
        """
        if encoder_outputs is None:
            if features is None:
                raise ValueError("there is no image: pass features (N, S, D)")
            encoder_outputs = self.encoder(features, attention_mask)
        if decoder_input_ids is None:
            if labels is None:
                raise ValueError(
                    "there is nothing to read: pass labels or decoder_input_ids (N, T)"
                )
            decoder_input_ids = self._shifted(labels)
        mask = _mask(encoder_outputs.last_hidden_state, attention_mask)
        if drawn is not None:
            logits, _words = self._led(decoder_input_ids, encoder_outputs, mask, drawn)
            loss = None if labels is None else _loss(logits, labels, num_items_in_batch)
            return Seq2SeqLMOutput(loss=loss, logits=logits)
        hidden, attention, _weights, state = self._read(
            decoder_input_ids, encoder_outputs, mask, past_key_values
        )
        logits = self.output(self.decoder.dropout(hidden))
        return Seq2SeqLMOutput(
            loss=None if labels is None else _loss(logits, labels, num_items_in_batch),
            logits=logits,
            past_key_values=state,
            cross_attentions=(attention.unsqueeze(1),) if output_attentions else None,
        )

    @torch.no_grad()
    def draw(self, features: Tensor, attention_mask: Tensor | None, length: int) -> Tensor:
        """(N, 1 + T): the start token and T <= ``length`` words drawn from the model.

        Dropout is as the model has it now. ``forward`` with these words, ``drawn=0`` and the random
        state from before gives the logits from which they were drawn, dropout and all.
        """
        mask = _mask(features, attention_mask)
        words = mask.new_full(
            (len(mask), length), self.config.decoder_start_token_id, dtype=torch.long
        )
        _, written = self._led(words, self.encoder(features, attention_mask), mask, 1.0)
        return written

    def _led(
        self, words: Tensor, regions: Embedded, mask: Tensor, drawn: float
    ) -> tuple[Tensor, Tensor]:
        """Logits (N, T, V), and the words (N, 1 + T) that were read and the next: the given ones
        (N, T), each drawn anew with the probability ``drawn``. Where all are drawn, T ends with the
        last text."""
        state, steps = self._begun(regions), self.decoder.steps(regions, mask)
        read, logits = [words[:, 0]], []
        ended = torch.zeros_like(words[:, 0], dtype=torch.bool)
        for t in range(1, words.shape[1] + 1):
            given = self.decoder.read(read[-1].unsqueeze(1), regions.pooled)[:, 0]
            state, _, _ = self._step(given, state, steps)
            logits.append(self.output(self.decoder.dropout(state.language[0])))
            own = torch.multinomial(logits[-1].detach().float().softmax(-1), 1).squeeze(1)
            chosen = torch.rand(len(own), device=own.device) < drawn
            read.append(torch.where(chosen, own, words[:, t]) if t < words.shape[1] else own)
            ended |= own == self.config.eos_token_id
            if drawn == 1 and ended.all():
                break
        return torch.stack(logits, 1), torch.stack(read, 1)

    def _read(
        self, words: Tensor, regions: Embedded, mask: Tensor, state: TopDownState | None
    ) -> tuple[Tensor, Tensor, Tensor, TopDownState]:
        """Hidden states (N, T, H), attention and used weights (N, T, S), and the last state."""
        state, steps = state or self._begun(regions), self.decoder.steps(regions, mask)
        rows = []
        for read in self.decoder.read(words, regions.pooled).unbind(1):
            state, attention, weights = self._step(read, state, steps)
            rows.append((state.language[0], attention, weights))
        hidden, attentions, diminished = (
            torch.stack(column, 1) for column in zip(*rows, strict=True)
        )
        return hidden, attentions, diminished, state

    def _step(
        self, read: Tensor, state: TopDownState, steps: Steps
    ) -> tuple[TopDownState, Tensor, Tensor]:
        """One word, read as ``TopDownDecoder.read`` has it (N, 4H): the state after it, attention
        and diminished weights (N, S)."""
        written, source = state.language[0], steps.source
        looking = lstm_cell(
            read + steps.look(torch.cat([written, state.attention[0]], -1)), state.attention[1]
        )
        # No region is special. Padding has no weight to lose, so a rule that protects special
        # tokens protects that.
        special = ~source.mask.unsqueeze(1) if self.rule.protect == "special" else None
        energy = source.energies(steps.query(looking[0])) + self.decoder.score.bias
        looked = source.look(energy, self.rule, state.coverage, special)
        gates = steps.write(torch.cat([looked.context, looking[0], written], -1))
        after = TopDownState(looking, lstm_cell(gates, state.language[1]), looked.coverage)
        return after, looked.log_attention.exp(), looked.weights

    def _begun(self, regions: Embedded) -> TopDownState:
        zero = regions.pooled.new_zeros(regions.pooled.shape)
        return TopDownState((zero, zero), (zero, zero))

    @torch.no_grad()
    def attended(self, batch: dict[str, Any], sequences: Tensor) -> Record:
        """Attention and weights of each generated word of ``sequences`` (N, 1 + T); rows after the
        end are zero."""
        mask = _mask(batch["features"], batch.get("attention_mask"))
        times = sequences.shape[0] // mask.shape[0]
        features, mask = (x.repeat_interleave(times, dim=0) for x in (batch["features"], mask))
        training = self.training
        self.eval()
        try:
            _, attention, weights, _ = self._read(
                sequences[:, :-1], self.encoder(features, mask), mask, None
            )
        finally:
            self.train(training)
        written = until_end(sequences[:, 1:], self.config.eos_token_id).unsqueeze(-1)
        attention, weights = ((x.float() * written).cpu()[None] for x in (attention, weights))
        return Record(["regions"], sequences[:, 1:].cpu(), attention, weights)

    def prepare_inputs_for_generation(
        self, input_ids: Tensor, past_key_values: TopDownState | None = None, **kwargs: Any
    ) -> dict[str, Any]:
        """The last word with the state before it, or without a state all words."""
        if not kwargs.get("use_cache", True):
            past_key_values = None
        words = input_ids if past_key_values is None else input_ids[:, -1:]
        passed = {
            k: kwargs.get(k) for k in ("attention_mask", "encoder_outputs", "output_attentions")
        }
        return {"decoder_input_ids": words, "past_key_values": past_key_values, **passed}

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        return False  # the first step makes a TopDownState

    def _init_weights(self, module: nn.Module) -> None:
        """PyTorch's own initialisation, as the baseline."""
        if isinstance(module, nn.Linear | nn.LSTMCell | nn.Embedding):
            module.reset_parameters()

    def _shifted(self, labels: Tensor) -> Tensor:
        start = labels.new_full((len(labels), 1), self.config.decoder_start_token_id)
        return torch.cat(
            [
                start,
                labels[:, :-1].masked_fill(labels[:, :-1] == IGNORED, self.config.pad_token_id),
            ],
            1,
        )


def _mask(regions: Tensor, mask: Tensor | None) -> Tensor:
    """(N, S), bool."""
    return regions.new_ones(regions.shape[:2], dtype=torch.bool) if mask is None else mask.bool()


def _loss(logits: Tensor, labels: Tensor, count: Tensor | int | None) -> Tensor:
    rows = logits.flatten(0, 1).to(state_dtype(logits))
    total = F.cross_entropy(rows, labels.flatten(), ignore_index=IGNORED, reduction="sum")
    return total / ((labels != IGNORED).sum() if count is None else count)
