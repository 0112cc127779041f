"""BLEU: the statistics of `sacrebleu`, on its own tokens or, as translation papers, on Moses'.

Papineni et al. (2002), smoothed as sacrebleu does ("exp"). Newlines inside a text count as spaces.
``+compound`` is what fairseq's ``compound_split_bleu.sh`` does to the English-German outputs of Ott
et al. (2018): their texts were tokenised by Moses without its aggressive hyphens, and the script
parts the hyphens, once, on both sides.
"""

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from dwindle.metrics.kind import Kind
from dwindle.metrics.score import Array, Count, Metric, made
from dwindle.runfiles.outputs import Item

KIND = Kind("bleu", "BLEU", 1)
_ORDER = 4
_LONGEST = 500_000
"""Characters of one text: sacrebleu then takes some seconds."""
_BY_SPACES = ("13a", "intl", "none")
"""Tokenizers of sacrebleu that split at spaces only: a Chinese sentence would be one word."""
_COMPOUND = re.compile(r"(\S)-(\S)", re.ASCII)  # Perl's \s, on bytes, knows ASCII blanks only


@dataclass(frozen=True)
class Bleu:
    """Row of ten counts: length of output and closest reference, matched 1..4-grams, 1..4-grams.

    ``moses``: tokenise for this language as Moses does, then let sacrebleu only split at spaces;
    the empty string leaves tokenising to sacrebleu's ``tokens``. Hyphens are Moses' aggressive ones
    (rich @-@ text), or with ``compound`` those of the papers since Vaswani et al. (2017): rich
    ##AT##-##AT## text.
    """

    tokens: str = "13a"
    moses: str = ""
    compound: bool = False
    needs: frozenset[str] = frozenset({"references"})

    def row(self, item: Item) -> list[float]:
        if (longest := max(map(len, (item.hypothesis, *item.references)))) > _LONGEST:
            raise ValueError(
                f"item {item.id!r} has a text of {longest:,} characters, which takes BLEU too "
                f"long: cut it to {_LONGEST:,}, or take chrf"
            )
        references = [self._prepare(reference) for reference in item.references]
        score = _sacrebleu(self.tokens).sentence_score(self._prepare(item.hypothesis), references)
        return [score.sys_len, score.ref_len, *score.counts, *score.totals]

    def _prepare(self, text: str) -> str:
        text = text.replace("\n", " ")
        if self.moses:
            text = _moses(self.moses).tokenize(
                text, aggressive_dash_splits=not self.compound, return_str=True
            )
        if self.compound:
            text = _COMPOUND.sub(r"\1 ##AT##-##AT## \2", text)
        return text


def bleu(sums: Array, items: Count) -> Array:
    """BLEU (...) of summed statistics (..., 10), for all resamples at once."""
    own, reference = sums[..., 0], sums[..., 1]
    matched, total = sums[..., 2 : 2 + _ORDER], sums[..., 2 + _ORDER :]
    # Each order without a match counts as half of one match, the next such order as a quarter, and
    # so on.
    zeros = np.cumsum((matched == 0) & (total > 0), axis=-1)
    smoothed = np.where(matched > 0, matched, 0.5**zeros)
    possible = (total > 0).all(-1) & (matched > 0).any(-1)
    logs = np.log(np.divide(smoothed, total, out=np.ones_like(smoothed), where=total > 0)).mean(-1)
    brevity = np.minimum(1 - np.divide(reference, own, out=np.ones_like(own), where=own > 0), 0)
    return np.where(possible, 100 * np.exp(brevity + logs), 0.0)


def metrics(option: str = "") -> list[Metric]:
    """``""`` is sacrebleu with its tokens 13a; ``none`` splits at spaces; ``moses``, ``moses-de``
    tokenises as Moses does for that language (English unless said); else a tokenizer of sacrebleu.
    ``+compound``, for German only, parts compounds: moses-de+compound, or none+compound for text
    that is tokenised already."""
    tokens, *more = option.split("+")
    if more not in ([], ["compound"]):
        raise ValueError(
            f"bleu has no option {option!r}: only +compound can be added, as in "
            "bleu:moses-de+compound"
        )
    if more and tokens not in ("moses-de", "none"):
        raise ValueError(
            f"bleu has no option {option!r}: compounds are split in German only, "
            "as bleu:moses-de+compound, or bleu:none+compound for tokenised text"
        )
    language = ""
    if tokens == "moses" or tokens.startswith("moses-"):
        language, sacre = tokens.removeprefix("moses").removeprefix("-") or "en", "none"
    else:
        sacre = tokens or "13a"
    spaces = {"spaces"} if sacre in _BY_SPACES else set()
    reduction = Bleu(sacre, language, bool(more), frozenset({"references", *spaces}))
    settings = made(
        case="mixed",
        eff="no",
        tok=sacre,
        smooth="exp",
        moses=language or None,
        hyphens="compound-split" if more else "aggressive" if language else None,
        sacrebleu=_version(),
    )
    _sacrebleu(sacre)
    return [Metric(KIND, reduction, tuple(range(2 + 2 * _ORDER)), bleu, settings, option)]


@cache
def _sacrebleu(tokens: str) -> Any:
    """The scorer; ``effective_order`` only prevents its warning, for just its counts are used."""
    _version()
    from sacrebleu.metrics.bleu import BLEU

    if tokens not in BLEU.TOKENIZERS:
        raise ValueError(
            f"sacrebleu has no tokenizer {tokens!r}: choose one of {', '.join(BLEU.TOKENIZERS)}"
        )
    try:
        return BLEU(tokenize=tokens, effective_order=True, force=True)
    except (ImportError, RuntimeError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(
            f"sacrebleu's tokenizer {tokens!r} cannot be used here: {reason}"
        ) from None


def _version() -> str:
    try:
        import sacrebleu
    except ModuleNotFoundError:
        raise ValueError("BLEU needs sacrebleu: type pip install 'dwindle[metrics]'") from None
    return str(sacrebleu.__version__)


@cache
def _moses(language: str) -> Any:
    try:
        from sacremoses import MosesTokenizer  # type: ignore[import-untyped]
    except ModuleNotFoundError:
        raise ValueError(
            "bleu:moses needs sacremoses: type pip install 'dwindle[metrics]'"
        ) from None
    return MosesTokenizer(lang=language)
