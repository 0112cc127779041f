"""Sounds: what counts as something to leave out, and how files are read."""

import json
import random
import wave
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
import transformers as hf

import dwindle
from dwindle.auditing.heads import all_heads, peaks
from dwindle.auditing.listeners import Listeners
from dwindle.auditing.sound import RATE, SoundReader, read_wave, words_per_second

LENGTH = 2.0
"""Seconds that the tiny model reads."""


class Letters:
    """A tokenizer of letters: special tokens come after all text, as in Whisper's."""

    eos_token_id = 40

    start = (41,)

    def __call__(self, text, add_special_tokens=True):
        ids = [ord(c) - ord("a") for c in text.lower() if c.isalpha()]
        return {"input_ids": [*self.start, *ids, 40] if add_special_tokens else ids}


@pytest.fixture(scope="module")
def model():
    config = hf.WhisperConfig(
        **{
            "vocab_size": 48,
            "d_model": 16,
            "encoder_layers": 1,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
        },
        **{
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 16,
            "decoder_ffn_dim": 16,
            "num_mel_bins": 8,
        },
        **{
            "max_source_positions": 100,
            "max_target_positions": 32,
            "pad_token_id": 40,
            "eos_token_id": 40,
        },
        **{
            "bos_token_id": 40,
            "decoder_start_token_id": 41,
            "suppress_tokens": None,
            "begin_suppress_tokens": None,
        },
    )
    return hf.WhisperForConditionalGeneration(config).eval()


@pytest.fixture(scope="module")
def reader(model):
    extractor = hf.WhisperFeatureExtractor(feature_size=8, chunk_length=int(LENGTH))
    return SoundReader(model, SimpleNamespace(feature_extractor=extractor, tokenizer=Letters()))


def tone(seconds, loud=0.5):
    return loud * torch.sin(torch.arange(int(seconds * RATE)) * 0.2)


def test_silence_has_nothing_to_leave_out(reader):
    assert reader.read(torch.zeros(RATE)).parts == ()
    assert reader.read(torch.zeros(0)).parts == ()
    quiet = torch.cat([tone(0.4), torch.zeros(RATE // 2), tone(0.5, 0.005)])
    assert [(part.start, part.end) for part in reader.read(quiet).parts] == [(0.0, 0.2), (0.2, 0.4)]


def test_what_is_beyond_the_models_window_is_unread(reader):
    source = reader.read(tone(3.0))
    assert (source.length, source.read) == (3.0, LENGTH)
    assert source.parts[-1].end == LENGTH


def test_peaks_of_whisper_are_those_of_the_library(model, reader):
    inputs, read, rows = reader.batch([reader.read(tone(1.0))] * 2, ["abc", "d"])
    assert rows.tolist() == [[False, True, True, True], [False, True, False, False]]
    found = peaks(model, all_heads(model), inputs, read, rows)
    model.set_attn_implementation("eager")
    with torch.no_grad():
        weights = model(
            **inputs, decoder_input_ids=read, output_attentions=True, use_cache=False
        ).cross_attentions
    expected = torch.cat(weights, 1).masked_fill(~rows[:, None, :, None], 0).amax(2)
    torch.testing.assert_close(found, expected)


def test_joined_sounds_know_where_each_is(reader):
    sound, spans = reader.join([tone(0.5), tone(0.25)])
    assert spans == [(0.0, 0.5), (0.8, 1.05)]
    assert len(sound) == int(1.05 * RATE)


def test_waves_of_any_rate_are_read(tmp_path):
    path = tmp_path / "a.wav"
    samples = (tone(0.5) * 32767).to(torch.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE // 2)
        file.writeframes(samples.numpy().tobytes())
    read = read_wave(path)
    assert len(read) == 2 * len(samples)
    assert float(read[2000:-2000:2].sub(samples[1000:-1000] / 32768).abs().max()) < 0.01


def test_what_is_no_wave_is_said(tmp_path):
    path = tmp_path / "a.wav"
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="not a WAV file"):
        read_wave(path)


def test_a_silent_sound_is_found_to_leave_out_nothing(model, reader, monkeypatch):
    ears = Listeners(
        ((0, 0),), {"": 1.0}, 2.0, 1.5, 0.05, "seconds", {}, True, tuple(reader.probe()), {}
    )
    silent, loud = dwindle.omissions(
        model, reader.processor, [(torch.zeros(RATE), "abc"), (tone(1.0), "")], ears
    )
    assert (silent.score, silent.alarm) == (None, False)
    assert loud.alarm
    assert [(span.start, span.end) for span in loud.spans] == [(0.0, 1.0)]
    assert json.dumps(loud.cells)


def test_a_sound_has_one_channel(reader):
    with pytest.raises(ValueError, match="one channel"):
        reader.read(torch.zeros(2, 100))


def test_the_language_that_is_set_does_not_make_another_tokenizer(reader, monkeypatch):
    before = reader.probe()
    monkeypatch.setattr(Letters, "start", (41, 42))
    assert reader.probe() == before


def test_a_stretch_as_long_as_a_word_is_taken_out_between_quiet_places(reader):
    sound = torch.cat(
        [tone(0.5), torch.zeros(RATE // 10), tone(0.4), torch.zeros(RATE // 10), tone(0.9)]
    )
    rest, (start, end) = reader.shorten(sound, random.Random(1))
    assert 0.2 <= end - start <= 0.65
    assert len(sound) - len(rest) == round((end - start) * RATE)
    assert torch.equal(rest[: round(start * RATE)], sound[: round(start * RATE)])
    assert reader.shorten(tone(0.5), random.Random(1)) is None


def test_words_are_counted_once_each():
    assert words_per_second("Boom, boom BOOM", 3.0) == pytest.approx(1 / 3)
    assert words_per_second("the mayor said no", 2.0) == 2.0
    assert words_per_second("\u6ce8\u610f\u529b\u529b", 1.5) == 2.0


@pytest.mark.parametrize(
    ("hears", "spans"), [("a b c d", [(0.0, 1.0)]), ("boom boom boom boom", []), ("", [])]
)
def test_only_speech_can_be_left_out(model, reader, monkeypatch, hears, spans):
    """What the model, given a marked stretch alone, writes of it decides whether that is speech."""
    monkeypatch.setattr(SoundReader, "write", lambda self, sounds: [hears] * len(sounds))
    ears = Listeners(
        ((0, 0),), {"": 1.0}, 2.0, 1.5, 0.05, "seconds", {}, True, tuple(reader.probe()), {}, 2.0
    )
    (found,) = dwindle.omissions(model, reader.processor, [(tone(1.0), "")], ears)
    assert [(span.start, span.end) for span in found.spans] == spans
    assert found.alarm == bool(spans)
    assert found.score is not None or not spans


def test_the_whole_way_with_sounds(model, reader, monkeypatch):
    """Heads of a model that was never trained tell nothing, and what is said of them is a
    number."""
    monkeypatch.setattr(SoundReader, "write", lambda self, sounds: ["abc de"] * len(sounds))
    sounds = [
        torch.cat([tone(0.3), torch.zeros(RATE // 20), tone(0.35 + n / 100)]) for n in range(30)
    ]
    found = dwindle.listeners(model, reader.processor, sounds)
    assert set(found.auroc) >= {"sentences", "sentences, all heads"}
    assert 0 < found.words_per_second < 2.0
    told = list(
        dwindle.omissions(model, reader.processor, [(sounds[0], "abc")], replace(found, tells=True))
    )
    assert len(told[0].scores) == len(told[0].parts) > 0
