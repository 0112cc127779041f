"""How well listeners tell what an output leaves out, on real models with deletions that are known.

    python benchmarks/omissions.py text MODEL NEWSTEST OUT --year 2019     a Chinese-English model; WMT news tests
    python benchmarks/omissions.py speech MODEL NEWSTEST OUT --year 2019   a Whisper; English by flite and espeak-ng
    python benchmarks/omissions.py cost MODEL NEWSTEST OUT                 CPU time beside a plain forward pass

Listeners are chosen on sources of 2017 (OUT/listeners.json, kept if there). Cases are of another year: a word, a
clause or a sentence left out; a word replaced by another, which is no omission; nothing left out, in the model's own
outputs and in human references. Rivals are computed from a pass of their own. Every step keeps its file in OUT and goes
on after a kill. Prints tables in Markdown; intervals resample sources.
"""

import argparse
import ctypes
import functools
import gzip
import json
import random
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForSeq2SeqLM, AutoModelForSpeechSeq2Seq, AutoProcessor, AutoTokenizer

import dwindle
from dwindle.listening.heads import all_heads
from dwindle.listening.listeners import item_score
from dwindle.listening.readers import reader_of
from dwindle.listening.roc import auroc
from dwindle.listening.sound import RATE, read_wave
from dwindle.listening.source import batches
from dwindle.listening.text import TextReader

BATCH, RESAMPLES = 8, 500
INTACT = {"sentence": "intact, joined", "name": "intact, reference", "reference clause": "intact, reference"}
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


# ---- texts


def pairs_of(folder: Path, year: int, count: int, longest: int = 90) -> list[tuple[str, str]]:
    """Aligned Chinese and English sentences of one year, drawn at random."""
    names = [folder / f"newstest{year}.zh-en.{language}.gz" for language in ("zh", "en")]
    sides = [gzip.decompress(name.read_bytes()).decode().split("\n") for name in names]
    pairs = [(z.strip(), e.strip()) for z, e in zip(*sides, strict=True) if 8 <= len(z.strip()) <= longest]
    random.Random(year).shuffle(pairs)
    return pairs[:count]


def text_cases(reader, pairs: list[tuple[str, str]], rng: random.Random) -> Iterator[Case]:
    """Deletions in Chinese sources: what the model writes when the clause or word is not there."""
    own = [output for some in batches(pairs, BATCH) for output in reader.write([source for source, _ in some])]
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
        if len(re.findall(rf"(?<!\w){re.escape(match[0])}(?!\w)", reference)) == 1 == source.count(match[0])
    ]
    if both:
        match = rng.choice(both)
        yield Case(n, "name", source, re.sub(rf"\s*(?<!\w){re.escape(match[0])}(?!\w)", "", reference), match.span())


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
    """Clauses and words taken out of the source, or words put in another's place, before the model writes."""
    made = []
    vocabulary = [part.name for source, _ in pairs for part in reader.read(source).parts if part.end - part.start > 1]
    for n, (source, _) in enumerate(pairs):
        clauses = [m.span() for m in re.finditer(r"[^，；,;]+[，；,;]?", source) if len(m[0]) >= 4]
        if len(clauses) > 1:
            a, b = rng.choice(clauses)
            rest = source[:a] + source[b:] if b < len(source) else source[:a].rstrip("，；,;") + "。"
            made.append((n, "clause", source, rest, (a, b)))
        words = [(int(p.start), int(p.end)) for p in reader.read(source).parts if p.end - p.start > 1]
        if words:
            (a, b), (c, d) = rng.choice(words), rng.choice(words)
            made.append((n, "word", source, source[:a] + source[b:], (a, b)))
            made.append((n, "substitution", source, source[:c] + rng.choice(vocabulary) + source[d:], (c, d)))
    for some in batches(made, BATCH):
        outputs = reader.write([one[3] for one in some])
        for (n, kind, source, _, gone), output in zip(some, outputs, strict=True):
            yield Case(n, kind, source, output, gone)


def fast_writer(folder: str, tokenizer):
    """The same translator run by CTranslate2: many times faster than ``generate()`` on a CPU."""
    import ctranslate2

    engine = ctranslate2.Translator(folder, compute_type="int8", intra_threads=1)

    def write(sources: list[str]) -> list[str]:
        pieces = [tokenizer.convert_ids_to_tokens(tokenizer(source)["input_ids"][:-1]) for source in sources]
        told = engine.translate_batch(pieces, beam_size=1, max_decoding_length=160)
        ids = [tokenizer.convert_tokens_to_ids(one.hypotheses[0]) for one in told]
        return tokenizer.batch_decode(ids, skip_special_tokens=True)

    return write


# ---- speech


def flite(text: str, voice: str) -> torch.Tensor:
    with tempfile.NamedTemporaryFile(suffix=".wav") as file:
        subprocess.run(["flite", "-voice", voice, "-t", text, "-o", file.name], check=True)
        return read_wave(file.name)


class Espeak:
    """Speech with the time at which each word begins, from espeak-ng's library."""

    class Event(ctypes.Structure):
        _fields_ = (
            *((name, ctypes.c_int) for name in ("type", "unique", "place", "length", "time", "sample")),
            ("user", ctypes.c_void_p),
            ("id", ctypes.c_void_p),
        )

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libespeak-ng.so.1")
        self.rate = self.library.espeak_Initialize(1, 0, None, 0)
        kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(self.Event))
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

    def __call__(self, text: str) -> tuple[torch.Tensor, list[tuple[int, float]]]:
        """The sound, and (character, seconds) of each word."""
        self.samples, self.words = [], []
        given = text.encode()
        self.library.espeak_Synth(given, len(given) + 1, 0, 1, 0, 1, None, None)
        self.library.espeak_Synchronize()
        sound = torch.from_numpy(np.concatenate(self.samples))
        wanted = round(len(sound) * RATE / self.rate)
        resampled = torch.nn.functional.interpolate(sound[None, None], wanted, mode="linear")[0, 0]
        return resampled, self.words


@functools.cache
def espeak() -> Espeak:
    """The one there may be in a process: its library hangs when it is initialised again."""
    return Espeak()


def write_wave(path: Path, sound: torch.Tensor) -> None:
    import wave

    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((sound.clamp(-1, 1) * 32767).to(torch.int16).numpy().tobytes())


def spoken(texts: list[str], out: Path, rng: random.Random) -> Iterator[tuple[int, str, Path, list]]:
    """(number, text, file, [(first character, last + 1, seconds from, to)]): clauses by flite, words by espeak-ng."""
    (out / "wav").mkdir(parents=True, exist_ok=True)
    speak = espeak()
    for n, text in enumerate(texts):
        file = out / "wav" / f"{n}.wav"
        if n % 2:
            sound, words = speak(text)
            ends = [time for _, time in words[1:]] + [len(sound) / RATE]
            spans = [
                (at, at + len(re.match(r"\S*", text[at:])[0]), time, end)
                for (at, time), end in zip(words, ends, strict=True)
            ]
        else:
            voice, pieces, spans, time = rng.choice(("slt", "rms", "awb")), [], [], 0.0
            for match in re.finditer(r"[^,;:]+[,;:]?\s*", text):
                pieces += [flite(match[0], voice), torch.zeros(int(0.1 * RATE))]
                length = len(pieces[-2]) / RATE
                spans.append((*match.span(), time, time + length))
                time += length + 0.1
            sound = torch.cat(pieces)
        if len(sound) < 14 * RATE:
            write_wave(file, sound)
            yield n, text, file, spans


def speech_cases(reader, texts: list[str], out: Path, rng: random.Random) -> Iterator[Case]:
    told = list(spoken(texts, out, rng))
    own = {}
    for some in batches(told, BATCH):
        own.update(zip([one[0] for one in some], reader.write([read_wave(one[2]) for one in some]), strict=True))
    every = [word for text in texts for word in text.split()]
    for n, text, file, spans in told:
        name = f"wav/{file.name}"
        yield Case(n, "intact, own", name, own[n])
        yield Case(n, "intact, reference", name, text)
        content = [s for s in spans if len(text[s[0] : s[1]]) > 3]
        if len(content) < 2:
            continue
        a, b, first, last = rng.choice(content)
        kind = "word" if n % 2 else "clause"
        yield Case(n, f"reference {kind}", name, f"{text[:a]}{text[b:]}".strip(), (first, last))
        swapped = " ".join(rng.choice(every) if text[a:b].split()[:1] == [w] else w for w in text.split())
        yield Case(n, "substitution", name, swapped, (first, last))
    for one, two in zip(told[::2], told[1::2], strict=False):
        sounds = [read_wave(one[2]), read_wave(two[2])]
        sound, spans = reader.join(sounds)
        name = f"wav/{one[0]}+{two[0]}.wav"
        write_wave(out / name, sound)
        yield Case(one[0], "intact, joined", name, f"{own[one[0]]} {own[two[0]]}")
        gone = rng.choice((0, 1))
        yield Case(one[0], "sentence", name, own[(two, one)[gone][0]], spans[gone])


# ---- scores


@dataclass(frozen=True)
class Scored:
    """One case under every method: scores of the item, scores of its parts, and which parts are gone."""

    item: int
    kind: str
    alarm: bool
    marked: list[bool]
    gone: list[bool]
    items: dict[str, float]
    parts: dict[str, list[float]]


def scored(model, eager, tokenizer, listeners, cases: list[Case], load, embed) -> list[Scored]:
    """A batch of cases under all methods."""
    reader = reader_of(model, tokenizer)
    pairs = [(load(case.source), case.output) for case in cases]
    ours = list(dwindle.omissions(model, tokenizer, pairs, listeners, BATCH))
    sources = [reader.read(source) for source, _ in pairs]
    inputs, read, rows = reader.batch(sources, [output for _, output in pairs])
    with torch.inference_mode():
        out = eager(**inputs, decoder_input_ids=read, output_attentions=True, use_cache=False)
        likely = out.logits[:, :-1].log_softmax(-1).gather(-1, read[:, 1:, None])[..., 0]
    every = torch.stack(out.cross_attentions, 1).flatten(1, 2)  # (B, L * H, T, S)
    chosen = [all_heads(model).index(head) for head in listeners.heads]
    published = [
        all_heads(model).index(tuple(h)) for h in getattr(eager.generation_config, "alignment_heads", None) or []
    ]
    found = []
    for n, (case, one, source) in enumerate(zip(cases, ours, sources, strict=True)):
        gone = [bool(case.gone) and case.gone[0] <= p.start + 1e-6 < case.gone[1] for p in source.parts]
        attention = every[n][:, rows[n], : len(source.owner)]
        kinds = {"all heads, coverage": attention.sum(1), "all heads, peak": attention.amax(1)}
        kinds["chosen heads, coverage"] = attention[chosen].sum(1)
        kinds["chosen heads, peak"] = attention[chosen].amax(1)
        if published:
            kinds["published alignment heads, peak"] = attention[published].amax(1)
        parts = {name: (-source.of_parts(kept).mean(0)) for name, kept in kinds.items()}
        items = {name: item_score(scores) for name, scores in parts.items()}
        items["log-probability"] = -float(likely[n][rows[n, 1:]].mean())
        items["length ratio"] = source.length / (1 + len(case.output))
        if reader.unit == "characters":
            items["attention to </s>"] = float(attention[..., -1].mean())
        if embed is not None:
            items["sentence embeddings"] = -embed(case.source, case.output)
        parts, items = parts | {"listeners": torch.tensor(one.scores)}, items | {"listeners": one.score}
        marked = [score > listeners.part_threshold for score in one.scores]
        found.append(
            Scored(case.item, case.kind, one.alarm, marked, gone, items, {k: v.tolist() for k, v in parts.items()})
        )
    return found


def with_interval(scored: list[Scored], value) -> str:
    """The value on all cases, and a 95 % interval over sources."""
    by_item: dict[int, list[Scored]] = {}
    for one in scored:
        by_item.setdefault(one.item, []).append(one)
    numbers, rng = list(by_item), np.random.default_rng(1)
    drawn = [
        value([one for k in rng.integers(len(numbers), size=len(numbers)) for one in by_item[numbers[k]]])
        for _ in range(RESAMPLES)
    ]
    low, high = np.nanquantile(drawn, [0.025, 0.975])
    return f"{value(scored):.3f} ({low:.3f}-{high:.3f})"


def part_auroc(cases: list[Scored], method: str) -> float:
    scores = np.array([score for case in cases for score in case.parts[method]])
    return auroc(np.array([gone for case in cases for gone in case.gone], dtype=bool), scores)


def item_auroc(cases: list[Scored], kind: str, method: str) -> float:
    beside = INTACT.get(kind, "intact, reference" if kind.startswith("reference") else "intact, own")
    both = [c for c in cases if c.kind in (kind, beside) and c.items[method] is not None]
    return auroc(np.array([c.kind == kind for c in both]), np.array([c.items[method] for c in both]))


def table(title: str, columns: list[str], rows: dict[str, list[str]]) -> None:
    print(f"\n**{title}**\n\n| | {' | '.join(columns)} |\n|{'---|' * (len(columns) + 1)}")
    for name, cells in rows.items():
        print(f"| {name} | {' | '.join(cells)} |")


def tables(scored: list[Scored], listeners) -> None:
    kinds = [k for k in dict.fromkeys(c.kind for c in scored) if not k.startswith("intact")]
    methods = list(scored[0].parts)
    of = {kind: [c for c in scored if c.kind == kind] for kind in dict.fromkeys(c.kind for c in scored)}
    print(f"Heads {list(listeners.heads)}; held-out AUROC while choosing: {listeners.auroc}")
    print(", ".join(f"{kind}: {len(some)}" for kind, some in of.items()))
    table(
        "AUROC of parts",
        kinds,
        {m: [with_interval(of[k], lambda some, m=m: part_auroc(some, m)) for k in kinds] for m in methods},
    )
    told = list(scored[0].items)
    table(
        "AUROC of items",
        kinds,
        {m: [with_interval(scored, lambda some, k=k, m=m: item_auroc(some, k, m)) for k in kinds] for m in told},
    )
    rows = {}
    for kind, some in of.items():
        marked = np.array([m for c in some for m in c.marked])
        gone = np.array([g for c in some for g in c.gone], dtype=bool)
        both = (marked & gone).sum()
        right = [f"{both / max(marked.sum(), 1):.2f}", f"{both / max(gone.sum(), 1):.2f}"] if gone.any() else ["", ""]
        rows[kind] = [f"{np.mean([c.alarm for c in some]):.3f}", f"{marked[~gone].mean():.3f}", *right]
    table(
        f"At the thresholds for {listeners.false_alarms:.0%} false alarms",
        ["items alarmed", "parts marked that are not gone", "precision", "recall"],
        rows,
    )


def cost(model, tokenizer, listeners, pairs: list[tuple[str, str]], rounds: int = 5) -> None:
    """CPU time of an audit beside that of a plain forward pass over the same pairs, by turns; the median ratio."""
    reader, ratios = reader_of(model, tokenizer), []
    ordered = sorted(pairs, key=lambda pair: len(pair[0]))
    for _ in range(rounds):
        began = time.process_time()
        for some in batches(ordered, BATCH):
            inputs, read, _ = reader.batch([reader.read(source) for source, _ in some], [out for _, out in some])
            with torch.inference_mode():
                model(**inputs, decoder_input_ids=read, use_cache=False)
        middle = time.process_time()
        for _ in dwindle.omissions(model, tokenizer, pairs, listeners, BATCH):
            pass
        ratios.append((time.process_time() - middle) / (middle - began))
    print(f"{len(pairs)} pairs: {sorted(ratios)[rounds // 2]:.2f} times a plain forward pass ({ratios})")


# ---- the steps


def kept(path: Path, make) -> list:
    """The lines of a file; what is not there yet is made, and a killed run's lines are not made again."""
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("world", choices=["text", "speech", "cost"])
    for name in ("model", "newstest", "out"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--year", type=int, default=2019)
    parser.add_argument("--items", type=int, default=150)
    parser.add_argument("--sources", type=int, default=120, help="for the listeners")
    parser.add_argument("--engine", help="a folder of the same translator for CTranslate2, to write its outputs")
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
            sources = [source for source, _ in given]
        else:
            folder = asked.out / "ordinary"
            sources = [read_wave(one[2]) for one in spoken([e for _, e in given], folder, rng)]
        dwindle.listeners(model, tokenizer, sources).save(asked.out)
    listeners = dwindle.Listeners.load(asked.out)
    pairs = pairs_of(asked.newstest, asked.year, asked.items, 90 if text else 45)
    if asked.world == "cost":
        cost(model, tokenizer, listeners, pairs)
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
                    list(text_cases(reader, pairs, rng) if text else speech_cases(reader, english, asked.out, rng)),
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
            for one in scored(model, eager, tokenizer, listeners, some, load, embed)
        ),
    )
    tables([Scored(**one) for one in found], listeners)


if __name__ == "__main__":
    main()
