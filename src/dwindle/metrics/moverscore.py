"""MoverScore (Zhao et al., 2019): one minus the cost of moving an output's words to a reference.

As the authors' first tool (the one of the article): a word is its first piece, without punctuation;
its vector is the minimum, mean and maximum of the encoder's last five layers, each layer scaled to
length 1; an n-gram is the idf-weighted mean of its words; cost is the squared Euclidean distance of
n-grams scaled to length 1; mass is idf, counted in all outputs and in all references, a repeated
text as often as it is there. Stop words, which the authors leave out of summaries but not of
translations, can be named in a file. Times 100, as the paper prints. The best of several references
counts. A text in which no word counts scores 0; there the authors' tool prints one minus the
largest of all distances, a penalty of its solver. MoverEncoder: any name or path that
`transformers` loads. Heavy libraries are imported when the first score is asked for.
"""

import math
import string
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from dwindle.bulk.batches import batches
from dwindle.bulk.shards import weights
from dwindle.metrics.kind import Kind
from dwindle.metrics.score import BLOCK, Array, Metric, Progress, made, mean
from dwindle.runfiles.outputs import Item, Outputs
from dwindle.system.hub import absence

KINDS = (Kind("mover1", "Mover-1", 1, slow=True), Kind("mover2", "Mover-2", 1, slow=True))
_LAYERS, _BATCH, _TEXTS = 5, 32, 1024
Idf = dict[int, float]
"""The idf of every piece that occurs."""


@dataclass(frozen=True)
class Mover:
    """Row: MoverScore with 1-grams, then with 2-grams."""

    encoder: str
    stop: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset({"references"})

    def blocks(self, system: Outputs) -> "MoverBlocks":
        hypotheses = (item.hypothesis for item in system.items)
        references = (reference for item in system.items for reference in item.references)
        encoder = MoverEncoder(self.encoder, self.stop)
        return MoverBlocks(encoder, encoder.idf(hypotheses), encoder.idf(references))


class MoverBlocks:
    """Rows of some items, with the idf of all."""

    def __init__(self, encoder: "MoverEncoder", hypotheses: Idf, references: Idf) -> None:
        self._given, self._idfs = (encoder.name, encoder.stop), (hypotheses, references)
        self._encoder: MoverEncoder | None = encoder

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_encoder": None}

    @property
    def told(self) -> Any:
        name, stop = self._given
        return [name, sorted(stop), weights(name, ("*.safetensors", "*.bin", "*.json", "*.txt"))]

    def rows(self, items: Sequence[Item], progress: Progress) -> Array:
        """Rows (items, 2); an empty hypothesis scores 0."""
        self._encoder = self._encoder or MoverEncoder(*self._given)
        found = []
        for some in batches(items, BLOCK):
            pairs = [
                (i, item.hypothesis, reference)
                for i, item in enumerate(some)
                if item.hypothesis.strip()
                for reference in item.references
            ]
            rows = np.full((len(some), 2), -np.inf)
            if pairs:
                index, texts = [i for i, _, _ in pairs], [(h, r) for _, h, r in pairs]
                np.maximum.at(rows, index, self._encoder.scores(texts, self._idfs, progress))
            found.append(np.where(np.isneginf(rows), 0.0, rows))
        return np.concatenate(found)


@dataclass(frozen=True)
class Pieces:
    """A tokenised text: ids of all pieces, those that count, and whether these have a word."""

    ids: list[int]
    kept: list[int]
    wordless: bool


class MoverEncoder:
    """A `transformers` encoder with its tokenizer."""

    def __init__(self, name: str, stop: frozenset[str] = frozenset()) -> None:
        self.name, self.stop = name, stop
        if not Path(name).exists() and (why := absence(name, "model")):
            raise _unloaded(name, why)
        try:
            import ot  # type: ignore[import-untyped]  # noqa: F401
            import torch
            from transformers import AutoConfig, AutoTokenizer
        except ModuleNotFoundError as error:
            raise ValueError(
                f"MoverScore needs {error.name}: type pip install 'dwindle[mover]'"
            ) from None
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        with _loading(name):
            self._tokenizer: Any = AutoTokenizer.from_pretrained(name)
            config: Any = AutoConfig.from_pretrained(name)
        if not self._tokenizer.is_fast:
            raise ValueError(
                f"{name} has no fast tokenizer, which MoverScore needs: choose another encoder"
            )
        positions = getattr(config, "max_position_embeddings", None) or 512
        self._limit = min(self._tokenizer.model_max_length, positions)

    @cached_property
    def _model(self) -> Any:
        """The encoder itself, which counting pieces does not need."""
        from transformers import AutoModel

        with _loading(self.name):
            return AutoModel.from_pretrained(self.name).to(self._device).eval()

    def idf(self, texts: Iterable[str]) -> Idf:
        """log((N + 1) / (df + 1)) of every piece, from N texts."""
        frequencies, count = Counter[int](), 0
        for some in batches(texts, _TEXTS):
            count += len(some)
            for ids in self._encoded(some)["input_ids"]:
                frequencies.update(set(ids))
        return {piece: math.log((count + 1) / (df + 1)) for piece, df in frequencies.items()}

    def scores(
        self, pairs: Sequence[tuple[str, str]], idfs: tuple[Idf, Idf], progress: Progress
    ) -> Array:
        """Scores (P, 2) of pairs of hypothesis and reference, with the idf of either side."""
        pieces = [self._pieces(texts) for texts in zip(*pairs, strict=True)]
        scores = np.zeros((len(pairs), 2))
        # Pairs of like length share a batch, so that little is padded.
        order = sorted(range(len(pairs)), key=lambda i: -max(len(side[i].ids) for side in pieces))
        for start in range(0, len(order), _BATCH):
            batch = order[start : start + _BATCH]
            vectors = [self._vectors([side[i] for i in batch]) for side in pieces]
            for row, i in enumerate(batch):
                if any(side[i].wordless for side in pieces):
                    continue  # nothing to move: 0, as for an empty hypothesis
                sides_of_pair = [
                    (
                        vectors[s][row],
                        np.array([idfs[s][pieces[s][i].ids[k]] for k in pieces[s][i].kept]),
                    )
                    for s in (0, 1)
                ]
                scores[i] = [100 * _similarity(sides_of_pair, n) for n in (1, 2)]
            progress(len(batch))
        return scores

    def _encoded(self, texts: Sequence[str], offsets: bool = False) -> Any:
        return self._tokenizer(
            list(texts),
            truncation=True,
            max_length=self._limit,
            return_offsets_mapping=offsets,
            verbose=False,
        )

    def _pieces(self, texts: Sequence[str]) -> list[Pieces]:
        encoded = self._encoded(texts, offsets=True)
        result = []
        for i, text in enumerate(texts):
            ids = encoded["input_ids"][i]
            words = encoded.word_ids(i)
            offsets = encoded["offset_mapping"][i]
            kept = [
                k
                for k, word in enumerate(words)
                # Pieces of no word are the tokenizer's own marks: they weigh nothing, but open and
                # close 2-grams.
                if word is None
                or (
                    (k == 0 or words[k - 1] != word)
                    and self._counts(text[slice(*offsets[k])].strip())
                )
            ]
            result.append(Pieces(ids, kept, all(words[k] is None for k in kept)))
        return result

    def _counts(self, piece: str) -> bool:
        return piece not in string.punctuation and piece.lower() not in self.stop

    def _vectors(self, batch: Sequence[Pieces]) -> list[Array]:
        """For each text, the vectors (kept, 3 H) of its words."""
        import torch

        width = max(len(pieces.ids) for pieces in batch)
        pad = self._tokenizer.pad_token_id or 0
        ids = torch.tensor(
            [p.ids + [pad] * (width - len(p.ids)) for p in batch], device=self._device
        )
        mask = torch.tensor(
            [[1] * len(p.ids) + [0] * (width - len(p.ids)) for p in batch], device=self._device
        )
        with torch.inference_mode():
            hidden = self._model(
                input_ids=ids, attention_mask=mask, output_hidden_states=True
            ).hidden_states
            # hidden_states starts with the embeddings, which are not a layer.
            layers = torch.stack(hidden[1:][-_LAYERS:]).double()  # (layers, B, T, H)
            layers = layers / layers.norm(dim=-1, keepdim=True).clamp_min(1e-12)
            joined = torch.cat([layers.amin(0), layers.mean(0), layers.amax(0)], -1).cpu().numpy()
        return [joined[i, p.kept] for i, p in enumerate(batch)]


@contextmanager
def _loading(name: str) -> Iterator[None]:
    """Without the library's progress bars, for the verbs have their own; a failure in a
    sentence."""
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        yield
    except (OSError, ValueError) as error:
        raise _unloaded(name, error) from None
    finally:
        logging.enable_progress_bar()


def _unloaded(name: str, error: Exception | str) -> ValueError:
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return ValueError(
        f"no encoder can be loaded from {name!r} ({reason}): name a model or its folder"
    )


def _similarity(sides: Sequence[tuple[Array, Array]], n: int) -> float:
    """One minus the transport cost between the n-grams of both sides."""
    import ot

    (one, a), (two, b) = (_grams(vectors, idf, n) for vectors, idf in sides)
    costs = np.clip(2 - 2 * one @ two.T, 0, None)
    return 1 - float(ot.emd2(a, b, costs))


def _grams(vectors: Array, idf: Array, n: int) -> tuple[Array, Array]:
    """Unit vectors (G, D) of n-grams and their mass (G,), of sum 1; a short text is one n-gram."""
    n = min(n, len(vectors))
    windows = np.lib.stride_tricks.sliding_window_view(np.arange(len(vectors)), n)
    mass = idf[windows].sum(1)
    weights = np.where(mass[:, None] > 0, idf[windows] / np.maximum(mass, 1e-12)[:, None], 1 / n)
    means = (weights[..., None] * vectors[windows]).sum(1)
    means /= np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
    # With one text, every idf is 0: then every n-gram weighs the same.
    return means, mass / mass.sum() if mass.sum() > 0 else np.full(len(mass), 1 / len(mass))


_STOP = "+stop="


def metrics(option: str = "") -> list[Metric]:
    """``mover1`` and ``mover2``; option: the encoder, then ``+stop=`` and a file of stop words."""
    encoder, given, file = option.partition(_STOP)
    if not encoder:
        raise ValueError(
            "MoverScore needs an encoder: name one as mover:ENCODER, a model's name or its folder"
        )
    stop = _stop_words(Path(file)) if given else frozenset()
    settings = made(
        encoder=encoder,
        layers=f"last{_LAYERS},min+mean+max",
        idf="own",
        pieces="first",
        stop=f"{len(stop)}-words" if stop else None,
        cost="squared",
        refs="best",
        POT=_version("POT"),
        transformers=_version("transformers"),
    )
    called = Path(encoder).name + (f"{_STOP}{Path(file).name}" if given else "")
    return [
        Metric(kind, Mover(encoder, stop), (i,), mean, settings, called)
        for i, kind in enumerate(KINDS)
    ]


def _stop_words(file: Path) -> frozenset[str]:
    """The words of a file, with blanks between."""
    try:
        words = frozenset(file.read_text(encoding="utf-8").lower().split())
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(
            f"the stop words cannot be read from {str(file)!r} ({type(error).__name__}): name a "
            "text file"
        ) from None
    if not words:
        raise ValueError(f"{file} has no words: leave {_STOP}{file} out")
    return words


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        raise ValueError(f"MoverScore needs {package}: type pip install 'dwindle[mover]'") from None
