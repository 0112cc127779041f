"""``SoundReader``: feeds sound to a speech model such as Whisper, a fifth of a second at a time.

A stretch counts as sound by its loudness beside the rest of the source: in silence there is nothing
to leave out. Sound counts as speech by the words per second that the model itself writes of it.
Sounds are rows of samples at 16 kHz; ``read_wave`` reads them from a file.
"""

import random
import wave
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from dwindle.auditing.listeners import SHORTEST_WORD
from dwindle.auditing.source import Part, ReadSource
from dwindle.data.script import words

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RATE = 16_000
WINDOW = 0.2
"""Seconds of a part. Half a second is longer than most words, and would hide one between two."""
PAUSE = 0.3
"""Seconds of silence between joined sounds."""
WORD = SHORTEST_WORD, 0.65
"""Longest word in seconds."""
_QUIET, _SILENT = 0.02, 1e-4
"""A frame is sound above this share of the loud ones (34 dB below), and above this loudness."""
_FILLED = 0.4
"""The share of a window's frames that must be sound."""


class SoundReader:
    """Sounds, counted in seconds."""

    unit = "seconds"

    def __init__(self, model: "PreTrainedModel", processor: Any) -> None:
        self.model, self.processor = model, processor
        self.positions = int(model.config.max_source_positions)
        self.longest = float(processor.feature_extractor.chunk_length)

    def read(self, source: Any) -> ReadSource:
        sound = torch.as_tensor(source, dtype=torch.float32)
        if sound.ndim != 1:
            raise ValueError(
                f"a sound has the shape {tuple(sound.shape)}: pass one channel at {RATE} Hz, "
                "(samples,)"
            )
        step = self.longest / self.positions
        frames = _is_sound(sound[: int(self.longest * RATE)], round(step * RATE), self.positions)
        size = round(WINDOW / step)
        parts: list[Part] = []
        owner = [-1] * self.positions
        for first in range(0, self.positions, size):
            if frames[first : first + size].float().mean() >= _FILLED:
                owner[first : first + size] = [len(parts)] * len(owner[first : first + size])
                parts.append(Part(first * step, (first + size) * step))
        length = len(sound) / RATE
        return ReadSource(
            {"sound": sound}, tuple(parts), tuple(owner), length, min(length, self.longest)
        )

    def batch(
        self, sources: Sequence[ReadSource], outputs: Sequence[str]
    ) -> tuple[dict[str, Tensor], Tensor, Tensor]:
        tokenizer = self.processor.tokenizer
        longest = int(self.model.config.max_target_positions)
        ids = [torch.tensor(tokenizer(text)["input_ids"][:-1][:longest]) for text in outputs]
        read = pad_sequence(ids, True, tokenizer.eos_token_id).to(self.model.device)
        # special tokens come after all text
        return self._inputs(sources), read, read < tokenizer.eos_token_id

    def write(self, sources: Sequence[Any]) -> list[str]:
        written = self.model.generate(**self._inputs([self.read(source) for source in sources]))
        return [
            text.strip()
            for text in self.processor.tokenizer.batch_decode(written, skip_special_tokens=True)
        ]

    def join(self, sources: Sequence[Any]) -> tuple[Tensor, list[tuple[float, float]]]:
        pause = torch.zeros(int(PAUSE * RATE))
        pieces, spans, end = [], [], 0
        for source in sources:
            sound = torch.as_tensor(source, dtype=torch.float32)
            pieces += [sound, pause]
            spans.append((end / RATE, (end + len(sound)) / RATE))
            end += len(sound) + len(pause)
        return torch.cat(pieces[:-1]), spans

    def rates(self, source: ReadSource, spans: Sequence[tuple[float, float]]) -> list[float]:
        """Words per second that the model writes for each stretch, (start, end), heard alone."""
        cuts = [source.given["sound"][int(start * RATE) : int(end * RATE)] for start, end in spans]
        return [
            words_per_second(text, len(cut) / RATE)
            for text, cut in zip(self.write(cuts), cuts, strict=True)
        ]

    def shorten(self, source: Any, rng: random.Random) -> tuple[Tensor, tuple[float, float]] | None:
        sound = torch.as_tensor(source, dtype=torch.float32)
        parts = self.read(sound).parts
        shortest, longest = WORD
        fit = [
            part for part in parts if part.start + longest < min(len(sound) / RATE, self.longest)
        ]
        if len(fit) < 2:
            return None
        start = rng.choice(fit).start
        first = _quietest(sound, start - shortest / 2, start + shortest / 2)
        last = _quietest(sound, first / RATE + shortest, first / RATE + longest)
        return torch.cat([sound[:first], sound[last:]]), (first / RATE, last / RATE)

    def join_outputs(self, outputs: Sequence[str]) -> str:
        return " ".join(output.strip() for output in outputs)

    def probe(self) -> list[int]:
        # Without the tokens of the language and the task, which are set as one likes.
        return list(
            self.processor.tokenizer("Listeners, 2 of 34.", add_special_tokens=False)["input_ids"]
        )

    def _inputs(self, sources: Sequence[ReadSource]) -> dict[str, Tensor]:
        sounds = [source.given["sound"].numpy() for source in sources]
        made = self.processor.feature_extractor(sounds, sampling_rate=RATE, return_tensors="pt")
        return {"input_features": made["input_features"].to(self.model.device, self.model.dtype)}


def words_per_second(text: str, seconds: float) -> float:
    """Number of different words: for music and noise, a model may write one word over and over."""
    return len(set(words(text))) / seconds


def read_wave(path: str | Path) -> Tensor:
    """The samples of a WAV file of 16-bit numbers, at 16 kHz, mean of its channels."""
    try:
        with wave.open(str(path), "rb") as file:
            rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
            data = file.readframes(file.getnframes())
    except (wave.Error, EOFError):
        raise ValueError(
            f"{path} is not a WAV file that can be read: convert it to one of 16-bit samples"
        ) from None
    if width != 2:
        raise ValueError(
            f"{path} has samples of {8 * width} bits: convert it to a WAV file of 16-bit samples"
        )
    if not data:
        return torch.zeros(0)
    sound = (
        torch.frombuffer(bytearray(data), dtype=torch.int16)
        .float()
        .div_(32768)
        .view(-1, channels)
        .mean(1)
    )
    return sound if rate == RATE else _at_rate(sound, rate)


def _at_rate(sound: Tensor, rate: int) -> Tensor:
    """The sound at 16 kHz, by its spectrum."""
    wanted = round(len(sound) * RATE / rate)
    spectrum = torch.fft.rfft(sound)
    kept = spectrum[: wanted // 2 + 1]
    padded = torch.cat([kept, kept.new_zeros(wanted // 2 + 1 - len(kept))])
    resampled: Tensor = torch.fft.irfft(padded, n=wanted) * (wanted / len(sound))
    return resampled


def _quietest(sound: Tensor, start: float, end: float) -> int:
    """First sample of the quietest 20 ms between two times: most likely between two words."""
    size = RATE // 50
    first = max(round(start * 50), 0) * size
    frames = sound[first : round(end * 50) * size].unfold(0, size, size).square().sum(1)
    return first + size * int(frames.argmin())


def _is_sound(sound: Tensor, size: int, count: int) -> Tensor:
    """(count,): which frames of ``size`` samples are louder than silence; False after the end."""
    frames = sound[: len(sound) // size * size].view(-1, size).square().mean(1).sqrt()
    found = torch.zeros(count, dtype=torch.bool)
    if len(frames):
        loud = float(frames.quantile(0.95))
        found[: len(frames)] = frames > max(_QUIET * loud, _SILENT)
    return found
