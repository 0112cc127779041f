"""How well listeners tell what an output leaves out, on real models with deletions that are known.

    python benchmarks/omissions.py text MODEL NEWSTEST OUT --year 2019
    python benchmarks/omissions.py speech MODEL NEWSTEST OUT --year 2019
    python benchmarks/omissions.py rates MODEL NEWSTEST OUT --year 2019
    python benchmarks/omissions.py cost MODEL NEWSTEST OUT

``text``: a Chinese-English model and WMT's news tests. ``speech``: a Whisper, and English spoken by
flite and espeak-ng. ``rates``: false alarms asked and got, of texts. ``cost``: CPU time beside a
plain forward pass.

Listeners are chosen on sources of 2017 (OUT/listeners.json, kept if there). Cases are of another
year: a word, a clause or a sentence left out; a word replaced by another, which is no omission;
nothing left out, in the model's own outputs and in human references. All methods score the same
attention rows. Of speech, AUROC is of words, by the times that the engines give. Every step keeps
its file in OUT and goes on after a kill. Prints tables in Markdown; intervals resample sources.
"""

import argparse
import ctypes
import functools
import gzip
import json
import random
import re
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoModelForSpeechSeq2Seq,
    AutoProcessor,
    AutoTokenizer,
)

import dwindle
from dwindle.auditing.calibration import conformal
from dwindle.auditing.heads import all_heads
from dwindle.auditing.readers import reader_of
from dwindle.auditing.roc import auroc
from dwindle.auditing.sound import RATE, read_wave
from dwindle.auditing.text import TextReader
from dwindle.bulk.batches import batches
from dwindle.metrics.agreement import wilson

BATCH, RESAMPLES = 8, 500
INTACT = {
    "sentence": "intact, joined",
    "name": "intact, reference",
    "reference clause": "intact, reference",
}
"""What a kind of deletion is told from, if not from the model's own intact outputs."""


@dataclass(frozen=True)
class Case:
    """One source with one output, and from where to where the source is left out of it."""

    item: int
    kind: str
    source: str
    """A text, or the name of a WAV file in OUT."""
    output: str
    gone: tuple[float, float] | None = None
    words: list[tuple[float, float]] | None = None
    """Of speech: from when to when each word is said."""


# ---- texts


def pairs_of(folder: Path, year: int, count: int, longest: int = 90) -> list[tuple[str, str]]:
    """Aligned Chinese and English sentences of one year, drawn at random."""
    names = [folder / f"newstest{year}.zh-en.{language}.gz" for language in ("zh", "en")]
    sides = [gzip.decompress(name.read_bytes()).decode().split("\n") for name in names]
    pairs = [
        (z.strip(), e.strip())
        for z, e in zip(*sides, strict=True)
        if 8 <= len(z.strip()) <= longest
    ]
    random.Random(year).shuffle(pairs)
    return pairs[:count]


def text_cases(reader, pairs: list[tuple[str, str]], rng: random.Random) -> Iterator[Case]:
    """Deletions in Chinese sources: what the model writes when the clause or word is not there."""
    own = [
        output
        for some in batches(pairs, BATCH)
        for output in reader.write([source for source, _ in some])
    ]
    for n, ((source, reference), output) in enumerate(zip(pairs, own, strict=True)):
        yield Case(n, "intact, own", source, output)
        yield Case(n, "intact, reference", source, reference)
        yield from without_name(n, source, reference, rng)
    yield from joined(reader, pairs, own, rng)
    yield from shortened(reader, pairs, rng)


def without_name(n: int, source: str, reference: str, rng: random.Random) -> Iterator[Case]:
    """A number or a Latin name that stands on both sides, taken out of the human reference."""
    both = [
        match
        for match in re.finditer(r"[A-Za-z0-9][A-Za-z0-9.,%-]*[A-Za-z0-9%]|[0-9]", source)
        if len(re.findall(rf"(?<!\w){re.escape(match[0])}(?!\w)", reference))
        == 1
        == source.count(match[0])
    ]
    if both:
        match = rng.choice(both)
        yield Case(
            n,
            "name",
            source,
            re.sub(rf"\s*(?<!\w){re.escape(match[0])}(?!\w)", "", reference),
            match.span(),
        )


def joined(reader, pairs, own, rng) -> Iterator[Case]:
    """Two or three sources as one, with the outputs of all but one of them, and of all."""
    for n in range(0, len(pairs) - 3, 3):
        numbers = list(range(n, n + rng.choice((2, 3))))
        gone = rng.choice(numbers)
        source, spans = reader.join([pairs[k][0] for k in numbers])
        yield Case(n, "intact, joined", source, " ".join(own[k] for k in numbers))
        rest = " ".join(own[k] for k in numbers if k != gone)
        yield Case(n, "sentence", source, rest, spans[numbers.index(gone)])


def shortened(reader, pairs, rng) -> Iterator[Case]:
    """Clauses and words taken out of the source, or words put in another's place, before the model
    writes."""
    made = []
    vocabulary = [
        part.name
        for source, _ in pairs
        for part in reader.read(source).parts
        if part.end - part.start > 1
    ]
    for n, (source, _) in enumerate(pairs):
        clauses = [m.span() for m in re.finditer(r"[^，；,;]+[，；,;]?", source) if len(m[0]) >= 4]
        if len(clauses) > 1:
            a, b = rng.choice(clauses)
            rest = (
                source[:a] + source[b:] if b < len(source) else source[:a].rstrip("，；,;") + "。"
            )
            made.append((n, "clause", source, rest, (a, b)))
        words = [
            (int(p.start), int(p.end)) for p in reader.read(source).parts if p.end - p.start > 1
        ]
        if words:
            (a, b), (c, d) = rng.choice(words), rng.choice(words)
            made.append((n, "word", source, source[:a] + source[b:], (a, b)))
            made.append(
                (
                    n,
                    "substitution",
                    source,
                    source[:c] + rng.choice(vocabulary) + source[d:],
                    (c, d),
                )
            )
    for some in batches(made, BATCH):
        outputs = reader.write([one[3] for one in some])
        for (n, kind, source, _, gone), output in zip(some, outputs, strict=True):
            yield Case(n, kind, source, output, gone)


def fast_writer(folder: str, tokenizer):
    """The same translator run by CTranslate2: many times faster than ``generate()`` on a CPU."""
    import ctranslate2

    engine = ctranslate2.Translator(folder, compute_type="int8", intra_threads=1)

    def write(sources: list[str]) -> list[str]:
        pieces = [
            tokenizer.convert_ids_to_tokens(tokenizer(source)["input_ids"][:-1])
            for source in sources
        ]
        told = engine.translate_batch(pieces, beam_size=1, max_decoding_length=160)
        ids = [tokenizer.convert_tokens_to_ids(one.hypotheses[0]) for one in told]
        return tokenizer.batch_decode(ids, skip_special_tokens=True)

    return write


# ---- speech


Spoken = tuple[torch.Tensor, list[tuple[int, float, float]]]
"""The sound, and (character, seconds from, to) of each word."""


class Flite:
    """Speech with the times of its words, from flite's library."""

    class Wave(ctypes.Structure):
        _fields_ = (
            ("type", ctypes.c_char_p),
            *((name, ctypes.c_int) for name in ("rate", "count", "channels")),
            ("samples", ctypes.POINTER(ctypes.c_short)),
        )

    def __init__(self) -> None:
        self.library, *_ = (
            ctypes.CDLL(f"libflite{name}.so.1", mode=ctypes.RTLD_GLOBAL)
            for name in ("", "_usenglish", "_cmulex")
        )
        for name in ("flite_synth_text", "utt_relation", "relation_head", "item_next", "utt_wave"):
            getattr(self.library, name).restype = ctypes.c_void_p
        self.library.ffeature_float.restype = ctypes.c_float
        self.library.ffeature_string.restype = ctypes.c_char_p
        self.library.flite_init()
        self.voices = {}

    def voice(self, name: str) -> ctypes.c_void_p:
        if name not in self.voices:
            register = getattr(
                ctypes.CDLL(f"libflite_cmu_us_{name}.so.1"), f"register_cmu_us_{name}"
            )
            register.restype = ctypes.c_void_p
            self.voices[name] = ctypes.c_void_p(register(None))
        return self.voices[name]

    def __call__(self, text: str, voice: str) -> Spoken:
        said = ctypes.c_void_p(
            self.library.flite_synth_text(text.encode("ascii"), self.voice(voice))
        )
        wave = ctypes.cast(self.library.utt_wave(said), ctypes.POINTER(self.Wave)).contents
        sound = torch.from_numpy(
            np.ctypeslib.as_array(wave.samples, (wave.count,)).astype(np.float32) / 32768
        )
        words, at = [], 0
        item = self.library.relation_head(ctypes.c_void_p(self.library.utt_relation(said, b"Word")))
        while item:
            here = ctypes.c_void_p(item)
            token = self.library.ffeature_string(here, b"R:Token.parent.name").decode()
            ends = (b"daughter1.daughter1.R:Segment.p.end", b"daughtern.daughtern.R:Segment.end")
            start, end = (
                self.library.ffeature_float(here, b"R:SylStructure." + name) for name in ends
            )
            if (found := text.find(token, at)) >= 0:
                words.append((found, start, end))
                at = found + len(token)
            elif words:  # one more word of the same token, as in "2017"
                words[-1] = (words[-1][0], words[-1][1], end)
            item = self.library.item_next(here)
        self.library.delete_utterance(said)
        return sound, words


class Espeak:
    """Speech with the time at which each word begins, from espeak-ng's library."""

    class Event(ctypes.Structure):
        _fields_ = (
            *(
                (name, ctypes.c_int)
                for name in ("type", "unique", "place", "length", "time", "sample")
            ),
            ("user", ctypes.c_void_p),
            ("id", ctypes.c_void_p),
        )

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libespeak-ng.so.1")
        self.rate = self.library.espeak_Initialize(1, 0, None, 0)
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(self.Event)
        )
        self.callback = kind(self._heard)
        self.library.espeak_SetSynthCallback(self.callback)
        self.library.espeak_SetVoiceByName(b"en-us")

    def _heard(self, samples, count, events) -> int:
        if samples and count:
            self.samples.append(np.ctypeslib.as_array(samples, (count,)).astype(np.float32) / 32768)
        k = 0
        while events[k].type:
            if events[k].type == 1:  # a word
                self.words.append((events[k].place - 1, events[k].time / 1000))
            k += 1
        return 0

    def __call__(self, text: str) -> Spoken:
        self.samples, self.words = [], []
        given = text.encode()
        self.library.espeak_Synth(given, len(given) + 1, 0, 1, 0, 1, None, None)
        self.library.espeak_Synchronize()
        sound = torch.from_numpy(np.concatenate(self.samples))
        wanted = round(len(sound) * RATE / self.rate)
        resampled = torch.nn.functional.interpolate(sound[None, None], wanted, mode="linear")[0, 0]
        ends = [begun for _, begun in self.words[1:]] + [len(resampled) / RATE]
        return resampled, [
            (at, start, end) for (at, start), end in zip(self.words, ends, strict=True)
        ]


@functools.cache
def engines() -> tuple[Flite, Espeak]:
    """Those there may be in a process: espeak-ng's library hangs when it is initialised again."""
    return Flite(), Espeak()


def write_wave(path: Path, sound: torch.Tensor) -> None:
    import wave

    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((sound.clamp(-1, 1) * 32767).to(torch.int16).numpy().tobytes())


@dataclass(frozen=True)
class Clip:
    """A text that was spoken into a file; each word as (first character, last + 1, seconds from,
    to)."""

    number: int
    text: str
    file: Path
    words: list[tuple[int, int, float, float]]

    @property
    def times(self) -> list[tuple[float, float]]:
        return [(start, end) for *_, start, end in self.words]


def spoken(texts: list[str], out: Path, rng: random.Random) -> Iterator[Clip]:
    """By turns in a voice of flite and by espeak-ng."""
    (out / "wav").mkdir(parents=True, exist_ok=True)
    flite, espeak = engines()
    for n, text in enumerate(texts):
        if not text.isascii():
            continue  # flite reads nothing else
        sound, words = espeak(text) if n % 2 else flite(text, rng.choice(("slt", "rms", "awb")))
        if len(sound) < 14 * RATE:
            file = out / "wav" / f"{n}.wav"
            write_wave(file, sound)
            yield Clip(
                n,
                text,
                file,
                [(at, at + len(re.match(r"\S*", text[at:])[0]), a, b) for at, a, b in words],
            )


def speech_cases(reader, texts: list[str], out: Path, rng: random.Random) -> Iterator[Case]:
    clips = list(spoken(texts, out, rng))
    own = {}
    for some in batches(clips, BATCH):
        own.update(
            zip(
                [c.number for c in some],
                reader.write([read_wave(c.file) for c in some]),
                strict=True,
            )
        )
    every = [word for text in texts for word in text.split()]
    for clip in clips:
        yield from of_clip(clip, own[clip.number], every, rng)
    for one, two in zip(clips[::2], clips[1::2], strict=False):
        sound, spans = reader.join([read_wave(one.file), read_wave(two.file)])
        name = f"wav/{one.number}+{two.number}.wav"
        write_wave(out / name, sound)
        times = one.times + [(a + spans[1][0], b + spans[1][0]) for a, b in two.times]
        yield Case(
            one.number, "intact, joined", name, f"{own[one.number]} {own[two.number]}", None, times
        )
        gone = rng.choice((0, 1))
        yield Case(one.number, "sentence", name, own[(two, one)[gone].number], spans[gone], times)


def of_clip(clip: Clip, own: str, every: list[str], rng: random.Random) -> Iterator[Case]:
    """A word, a clause left out of the human text and of the model's own; a word replaced;
    nothing."""
    text, name = clip.text, f"wav/{clip.file.name}"

    def case(kind: str, output: str, gone=None) -> Case:
        return Case(clip.number, kind, name, output, gone, clip.times)

    yield case("intact, own", own)
    yield case("intact, reference", text)
    words = [word for word in clip.words if sum(c.isalnum() for c in text[word[0] : word[1]]) > 3]
    if len(words) > 1:
        a, b, *gone = rng.choice(words)
        yield case(
            "reference word", f"{text[:a]}{text[b:]}".replace("  ", " ").strip(), tuple(gone)
        )
        a, b, *gone = rng.choice(words)
        yield case("substitution", f"{text[:a]}{rng.choice(every)}{text[b:]}", tuple(gone))
        if said := [word for word in words if own.split().count(text[word[0] : word[1]]) == 1]:
            a, b, *gone = rng.choice(said)
            yield case("word", " ".join(w for w in own.split() if w != text[a:b]), tuple(gone))
    clauses = [m.span() for m in re.finditer(r"[^,;:]+[,;:]?\s*", text) if len(m[0].split()) > 2]
    if len(clauses) > 1:
        a, b = rng.choice(clauses)
        inside = [word for word in clip.words if a <= word[0] < b]
        yield case(
            "reference clause", f"{text[:a]}{text[b:]}".strip(), (inside[0][2], inside[-1][3])
        )


# ---- scores


@dataclass(frozen=True)
class Scored:
    """One case under every method."""

    item: int
    kind: str
    alarm: bool
    marked: list[bool]
    """Of the parts, and which of them are gone."""
    marked_gone: list[bool]
    items: dict[str, float]
    words: dict[str, list[float]]
    """Of the words, and which of them are gone. Words of a text are its parts."""
    gone: list[bool]


def attention_of(eager, inputs: dict, read: torch.Tensor, sounds: list[str] | None):
    """The pass with all attention rows; a sound that several cases of a batch share is encoded
    once."""
    more = {}
    if sounds:
        first = {sound: n for n, sound in reversed(list(enumerate(sounds)))}
        order = list(first)
        states = eager.get_encoder()(
            inputs["input_features"][list(first.values())]
        ).last_hidden_state
        more["encoder_outputs"] = (states[[order.index(sound) for sound in sounds]],)
    return eager(**inputs, **more, decoder_input_ids=read, output_attentions=True, use_cache=False)


def scored(eager, tokenizer, listeners, cases: list[Case], load, embed) -> list[Scored]:
    """A batch of cases under all methods."""
    reader = reader_of(eager, tokenizer)
    speech = reader.unit == "seconds"
    pairs = [(load(case.source), case.output) for case in cases]
    sources = [reader.read(source) for source, _ in pairs]
    inputs, read, rows = reader.batch(sources, [output for _, output in pairs])
    with torch.inference_mode():
        out = attention_of(eager, inputs, read, [case.source for case in cases] if speech else None)
        likely = out.logits[:, :-1].log_softmax(-1).gather(-1, read[:, 1:, None])[..., 0]
    every = torch.stack(out.cross_attentions, 1).flatten(1, 2)  # (B, L * H, T, S)
    heads = all_heads(eager)
    published = [
        heads.index(tuple(h))
        for h in getattr(eager.generation_config, "alignment_heads", None) or []
    ]
    found = []
    for n, (case, source) in enumerate(zip(cases, sources, strict=True)):
        attention = every[n][:, rows[n], : len(source.owner)]
        chosen = attention[[heads.index(head) for head in listeners.heads]]
        one = listeners.finding(source, chosen, "" if speech else case.source)
        kinds = {"all heads, coverage": attention.sum(1), "all heads, peak": attention.amax(1)}
        kinds |= {"chosen heads, coverage": chosen.sum(1), "chosen heads, peak": chosen.amax(1)}
        if published:
            kinds["published alignment heads, peak"] = attention[published].amax(1)
        parts = {name: (-source.of_parts(kept).mean(0)) for name, kept in kinds.items()}
        parts["listeners"] = torch.tensor(one.scores)
        items = {name: worst_quarter(scores) for name, scores in parts.items()} | {
            "listeners": one.score
        }
        items["log-probability"] = -float(likely[n][rows[n, 1:]].mean())
        items["length ratio"] = source.length / (1 + len(case.output))
        if not speech:
            items["attention to </s>"] = float(attention[..., -1].mean())
        if embed is not None:
            items["sentence embeddings"] = -embed(case.source, case.output)
        where = [(part.start, part.end) for part in source.parts]
        marked = [score > listeners.part_threshold for score in one.scores]
        words = [time for time in case.words or where if shared(time, where).sum() > 0]
        weights = np.array([shared(time, where) / shared(time, where).sum() for time in words])
        told = {
            name: (weights @ scores.double().numpy()).tolist() for name, scores in parts.items()
        }
        found.append(
            Scored(
                case.item,
                case.kind,
                one.alarm,
                marked,
                gone(case, where),
                items,
                told,
                gone(case, words),
            )
        )
    return found


def worst_quarter(scores: torch.Tensor) -> float | None:
    """The item score of the rivals, whose parts have no log-odds: the mean of the quarter that
    scores highest."""
    return float(scores.topk(-(-len(scores) // 4)).values.mean()) if len(scores) else None


def shared(span: tuple[float, float], parts: list[tuple[float, float]]) -> np.ndarray:
    """How much of a span lies in each of the parts."""
    return np.array([max(0.0, min(span[1], end) - max(span[0], start)) for start, end in parts])


def gone(case: Case, spans: list[tuple[float, float]]) -> list[bool]:
    return [case.gone is not None and case.gone[0] <= (a + b) / 2 < case.gone[1] for a, b in spans]


def with_interval(scored: list[Scored], value) -> str:
    """The value on all cases, and a 95 % interval over sources."""
    by_item: dict[int, list[Scored]] = {}
    for one in scored:
        by_item.setdefault(one.item, []).append(one)
    numbers, rng = list(by_item), np.random.default_rng(1)
    drawn = [
        value(
            [
                one
                for k in rng.integers(len(numbers), size=len(numbers))
                for one in by_item[numbers[k]]
            ]
        )
        for _ in range(RESAMPLES)
    ]
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return f"{value(scored):.3f} ({low:.3f}-{high:.3f})"


def word_auroc(cases: list[Scored], method: str) -> float:
    scores = np.array([score for case in cases for score in case.words[method]])
    return auroc(np.array([gone for case in cases for gone in case.gone], dtype=bool), scores)


def item_auroc(cases: list[Scored], kind: str, method: str) -> float:
    beside = INTACT.get(
        kind, "intact, reference" if kind.startswith("reference") else "intact, own"
    )
    both = [c for c in cases if c.kind in (kind, beside) and c.items[method] is not None]
    return auroc(
        np.array([c.kind == kind for c in both], dtype=bool),
        np.array([c.items[method] for c in both]),
    )


def table(title: str, columns: list[str], rows: dict[str, list[str]]) -> None:
    print(f"\n**{title}**\n\n| case | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |")


def tables(scored: list[Scored], listeners) -> None:
    kinds = [k for k in dict.fromkeys(c.kind for c in scored) if not k.startswith("intact")]
    methods = list(scored[0].words)
    of = {
        kind: [c for c in scored if c.kind == kind]
        for kind in dict.fromkeys(c.kind for c in scored)
    }
    print(f"Heads {list(listeners.heads)}; held-out AUROC while choosing: {listeners.auroc}")
    print(", ".join(f"{kind}: {len(some)}" for kind, some in of.items()))
    table(
        "AUROC of words",
        kinds,
        {
            m: [with_interval(of[k], lambda some, m=m: word_auroc(some, m)) for k in kinds]
            for m in methods
        },
    )
    told = list(scored[0].items)
    table(
        "AUROC of items",
        kinds,
        {
            m: [with_interval(scored, lambda some, k=k, m=m: item_auroc(some, k, m)) for k in kinds]
            for m in told
        },
    )
    rows = {}
    for kind, some in of.items():
        marked = np.array([m for c in some for m in c.marked])
        gone = np.array([g for c in some for g in c.marked_gone], dtype=bool)
        both = (marked & gone).sum()
        right = (
            [f"{both / max(marked.sum(), 1):.2f}", f"{both / max(gone.sum(), 1):.2f}"]
            if gone.any()
            else ["", ""]
        )
        rows[kind] = [
            f"{np.mean([c.alarm for c in some]):.3f}",
            f"{marked[~gone].mean():.3f}",
            *right,
        ]
    table(
        f"At the thresholds for {listeners.false_alarms:.0%} false alarms",
        ["items alarmed", "parts marked that are not gone", "precision", "recall"],
        rows,
    )


def cost(model, tokenizer, listeners, pairs: list[tuple[str, str]], rounds: int = 5) -> None:
    """CPU time of an audit beside that of a plain forward pass over the same pairs, by turns; the
    median ratio."""
    reader, ratios = reader_of(model, tokenizer), []
    ordered = sorted(pairs, key=lambda pair: len(pair[0]))
    for _ in range(rounds):
        began = time.process_time()
        for some in batches(ordered, BATCH):
            inputs, read, _ = reader.batch(
                [reader.read(source) for source, _ in some], [out for _, out in some]
            )
            with torch.inference_mode():
                model(**inputs, decoder_input_ids=read, use_cache=False)
        middle = time.process_time()
        for _ in dwindle.omissions(model, tokenizer, pairs, listeners, BATCH):
            pass
        ratios.append((time.process_time() - middle) / (middle - began))
    print(
        f"{len(pairs)} pairs: {sorted(ratios)[rounds // 2]:.2f} times a plain forward pass "
        f"({ratios})"
    )


def rates(model, tokenizer, listeners, pairs: list[tuple[str, str]], draws: int = 1000) -> None:
    """Intact outputs that are alarmed, at the threshold that was set and at many that are set on a
    random half."""
    reader = reader_of(model, tokenizer)
    outputs = {
        "own": [o for some in batches(pairs, BATCH) for o in reader.write([s for s, _ in some])]
    }
    outputs["reference"] = [reference for _, reference in pairs]
    scores = {}
    for kind, texts in outputs.items():
        both = zip([source for source, _ in pairs], texts, strict=True)
        found = list(dwindle.omissions(model, tokenizer, both, listeners, BATCH))
        scores[kind] = np.array([one.score for one in found])
        marked = np.concatenate([np.array(one.scores) > listeners.part_threshold for one in found])
        count, share = int((scores[kind] > listeners.threshold).sum()), marked.mean()
        low, high = wilson(count / len(found), len(found))
        print(
            f"{kind}: {count} of {len(found)} alarmed ({low:.3f}-{high:.3f}); {share:.3f} of "
            f"{len(marked)} words marked"
        )
    rng, half, asked = np.random.default_rng(1), len(pairs) // 2, listeners.false_alarms
    for kind in scores:
        for other in scores:
            got = []
            for _ in range(draws):
                order = rng.permutation(len(pairs))
                threshold = conformal(scores[kind][order[:half]].tolist(), asked)
                got.append((scores[other][order[half:]] > threshold).mean())
            low, high = np.quantile(got, [0.025, 0.975])
            print(
                f"set on {half} {kind}, {other}: {asked:.0%} asked, {np.mean(got):.3f} got "
                f"({low:.3f}-{high:.3f})"
            )


# ---- the steps


def kept(path: Path, make) -> list:
    """The lines of a file; what is not there yet is made, and a killed run's lines are not made
    again."""
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    with path.open("a") as file:
        for one in make(done):
            file.write(json.dumps(one, ensure_ascii=False) + "\n")
            file.flush()
            done.append(one)
    return done


def embedder(path: str | None):
    """Cosine similarity of two texts under a sentence encoder, mean of its last states."""
    if path is None:
        return None
    from transformers import AutoModel

    tokenizer, encoder = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path).eval()

    def similarity(one: str, two: str) -> float:
        batch = tokenizer([one, two], padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            states = encoder(**batch).last_hidden_state
        mask = batch["attention_mask"][..., None]
        means = (states * mask).sum(1) / mask.sum(1)
        return float(torch.cosine_similarity(means[0], means[1], dim=0))

    return similarity


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("world", choices=["text", "speech", "rates", "cost"])
    for name in ("model", "newstest", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--year", type=int, default=2019)
    parser.add_argument("--items", type=int, default=150)
    parser.add_argument("--sources", type=int, default=120, help="for the listeners")
    parser.add_argument(
        "--engine", help="a folder of the same translator for CTranslate2, to write its outputs"
    )
    parser.add_argument("--encoder", help="a sentence encoder, for the rival")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    asked.out.mkdir(parents=True, exist_ok=True)
    text = asked.world != "speech"
    kind = AutoModelForSeq2SeqLM if text else AutoModelForSpeechSeq2Seq
    tokenizer = (AutoTokenizer if text else AutoProcessor).from_pretrained(asked.model)
    if not text:
        tokenizer.tokenizer.set_prefix_tokens(language="en", task="transcribe")
    model = kind.from_pretrained(asked.model).eval()
    eager = kind.from_pretrained(asked.model, attn_implementation="eager").eval()
    if asked.engine:
        write = fast_writer(asked.engine, tokenizer)
        TextReader.write = lambda self, sources: write(sources)
    reader = reader_of(model, tokenizer)
    rng = random.Random(asked.year)

    def load(source: str):
        return source if text else read_wave(asked.out / source)

    if not (asked.out / "listeners.json").exists():
        given = pairs_of(asked.newstest, 2017, asked.sources)
        if text:
            sources, outputs = [source for source, _ in given], None
        else:  # a small recogniser's own outputs are not all whole; what was spoken is
            clips = list(spoken([e for _, e in given], asked.out / "ordinary", rng))
            sources = [read_wave(clip.file) for clip in clips]
            outputs = [clip.text for clip in clips]
        ears = dwindle.listeners(model, tokenizer, sources, outputs, intact=outputs is not None)
        ears.save(asked.out)
    listeners = dwindle.Listeners.load(asked.out)
    pairs = pairs_of(asked.newstest, asked.year, asked.items, 90 if text else 45)
    if asked.world in ("rates", "cost"):
        {"rates": rates, "cost": cost}[asked.world](model, tokenizer, listeners, pairs)
        return
    english = [e for _, e in pairs]
    cases = [
        Case(**one)
        for one in kept(
            asked.out / f"cases-{asked.year}.jsonl",
            lambda done: (
                []
                if done
                else map(
                    asdict,
                    list(
                        text_cases(reader, pairs, rng)
                        if text
                        else speech_cases(reader, english, asked.out, rng)
                    ),
                )
            ),
        )
    ]
    embed = embedder(asked.encoder)
    found = kept(
        asked.out / f"scores-{asked.year}.jsonl",
        lambda done: (
            asdict(one)
            for some in batches(cases[len(done) :], BATCH)
            for one in scored(eager, tokenizer, listeners, some, load, embed)
        ),
    )
    tables([Scored(**one) for one in found], listeners)


if __name__ == "__main__":
    main()
