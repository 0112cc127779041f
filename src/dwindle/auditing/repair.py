"""``repair``: outputs that say what was left out of them.

A sentence that the listeners mark as left out is translated by itself and put in its place: of all
places between the sentences of the output, the one where the model finds the whole likeliest. The
rest of the output stays as it was. If no whole sentence is missing, the hypotheses of a beam search
are tried instead. A change is kept only if the score falls and the sentence is then heard; an
output without an alarm is returned as it is. Knows texts only.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dwindle.auditing.audit import omissions
from dwindle.auditing.listeners import Finding, Listeners
from dwindle.auditing.readers import reader_of
from dwindle.auditing.reverse import Reverse
from dwindle.auditing.text import TextReader
from dwindle.bulk.batches import batches
from dwindle.data.script import Span, is_unspaced, sentence_spans

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BEAMS = 8
"""Number of hypotheses that are tried where less than a sentence is missing."""
WEIGHT = 0.2
"""Weight of an item's score, beside a log-probability per token, in the choice among hypotheses."""
LEFT_OUT = 0.5
"""A sentence is left out if at least this share of its words is marked."""
_BATCH = 8


def repair(
    model: "PreTrainedModel",
    tokenizer: Any,
    sources: Sequence[str],
    listeners: Listeners,
    outputs: Sequence[str] | None = None,
    reverse: Reverse | None = None,
) -> list[str]:
    """Mend outputs that leave something out. Those without an alarm come back byte for byte.

    Args:
        model, tokenizer: those that the ``listeners`` were chosen with; a text-to-text model.
        sources: texts.
        listeners: of this model.
        outputs: what to mend, one for each source; None for what the model writes with its own
            settings.
        reverse: the second opinion, if the ``listeners`` were chosen with one.

    Returns:
        One output for each source.

    Example:
        >>> dwindle.repair(translator, tokenizer, [source], ears, outputs=[source]) == [source]
        True
    """
    if outputs is not None and len(outputs) != len(sources):
        raise ValueError(f"{len(sources)} sources, but {len(outputs)} outputs: pass one for each")
    reader = _text_reader(model, tokenizer)
    if outputs is None:
        outputs = [text for some in batches(sources, _BATCH) for text in reader.write(some)]
    found = omissions(
        model, tokenizer, zip(sources, outputs, strict=True), listeners, reverse=reverse
    )
    return [mended(model, tokenizer, one, listeners, reverse) for one in found]


def mended(
    model: "PreTrainedModel",
    tokenizer: Any,
    found: Finding,
    listeners: Listeners,
    reverse: Reverse | None = None,
) -> str:
    """The output of a finding with what it left out, as far as that can be brought back; as it is
    without an alarm."""
    if not found.alarm:
        return found.output
    reader = _text_reader(model, tokenizer)

    def judge(texts: Sequence[str]) -> list[Finding]:
        return list(
            omissions(
                model,
                tokenizer,
                [(found.source, text) for text in texts],
                listeners,
                reverse=reverse,
            )
        )

    best = found
    for sentence in left_out(found):
        (alone,) = reader.write([found.source[slice(*sentence)]])
        places = list(_placed(best.output, alone.strip()))
        likely = reader.likelihood([found.source] * len(places), places)
        text = max(zip(likely, places, strict=True))[1]
        (after,) = judge([text])
        if sentence not in left_out(after) and _score(after) < _score(best):
            best = after
    return best.output if best is not found else _chosen(reader, judge, found)


def _text_reader(model: "PreTrainedModel", tokenizer: Any) -> TextReader:
    reader = reader_of(model, tokenizer)
    if not isinstance(reader, TextReader):
        raise ValueError(f"{type(model).__name__} reads sound: repair is for models of texts")
    return reader


def left_out(found: Finding) -> list[Span]:
    """The sentences of the source of which at least half of the words are marked."""
    spans = []
    each = list(zip(found.parts, found.marked, strict=True))
    for start, end in sentence_spans(found.source):
        marked = [is_marked for part, is_marked in each if start <= part.middle < end]
        if marked and sum(marked) >= LEFT_OUT * len(marked):
            spans.append((start, end))
    return spans


def _placed(output: str, sentence: str) -> Iterator[str]:
    """The output with a sentence more, before, between and behind its own sentences."""
    gap = "" if is_unspaced(sentence) else " "
    for end in (0, *(end for _, end in sentence_spans(output))):
        head, tail = output[:end].rstrip(), output[end:].lstrip()
        yield gap.join(filter(None, (head, sentence, tail)))


def _chosen(
    reader: TextReader, judge: Callable[[Sequence[str]], list[Finding]], found: Finding
) -> str:
    """The hypothesis of a beam search whose log-probability per token, less a share of its score,
    is highest; the output itself unless that one's score is lower."""
    (hypotheses,) = reader.best([found.source], BEAMS)
    judged = judge([text for text, _ in hypotheses])
    worth = [
        likely - WEIGHT * _score(one) for (_, likely), one in zip(hypotheses, judged, strict=True)
    ]
    best = judged[worth.index(max(worth))]
    return best.output if _score(best) < _score(found) else found.output


def _score(found: Finding) -> float:
    return found.score or 0.0
