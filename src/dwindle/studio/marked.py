"""What the listeners beside a model say that its output left out, with their error rate. Draws nothing."""

from dataclasses import dataclass
from pathlib import Path

from dwindle.folder import names
from dwindle.generation.author import Author
from dwindle.listening.audit import omissions
from dwindle.listening.listeners import FILE, Listeners
from dwindle.models.subword import SubwordCodec
from dwindle.report import heard


@dataclass(frozen=True)
class Marked:
    """Stretches of a source in characters, and what is said of them."""

    spans: list[tuple[int, int]]
    said: str


def marked(author: Author, text: str, output: str) -> Marked | None:
    """What ``output`` left out of ``text``; None for a model without listeners. It is heard as it was saved."""
    chosen = _listeners(author)
    if chosen is None or not isinstance(author.codec, SubwordCodec):
        return None
    author.put(None)
    (found,) = omissions(author.model, author.codec.tokenizer, [(text, output)], chosen)
    spans = [(int(span.start), int(span.end)) for span in found.spans]
    return Marked(spans, f"{heard.verdict(found, chosen)} {heard.rate(chosen)}")


def _listeners(author: Author) -> Listeners | None:
    """Those beside the model, or in its run, if they tell something."""
    folder = Path(author.path)
    files = [file for file in (folder / FILE, folder / names.MODEL / FILE) if file.is_file()]
    chosen = Listeners.load(files[0]) if files else None
    return chosen if chosen and chosen.tells and chosen.unit == "characters" else None
