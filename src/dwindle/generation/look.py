"""``look``: what any saved model writes about one text, with its own rule and with another. Draws nothing."""

import warnings

from dwindle.folder.traces import Trace
from dwindle.generation.author import Author


def look(name: str, source: str, rule: str | None = None) -> dict[str, Trace]:
    """The trace of a model's output for ``source`` by the name of the model; with ``rule``, also that of the model with
    it."""
    author = Author(name)
    found = {f"{author.name} ({author.rule})" if author.rule else author.name: author.write(source)}
    if rule is not None:
        for note in author.put(rule):
            warnings.warn(note, stacklevel=2)
        found[f"{author.name} with {rule}"] = author.write(source)
    return found
