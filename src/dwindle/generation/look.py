"""``look``: what any saved model writes about one text, with its own rule and with another. Draws nothing."""

import warnings
from collections.abc import Callable

from dwindle.core.notation import rule as parse
from dwindle.folder.traces import Trace
from dwindle.generation.author import Author


def look(
    name: str, source: str, rule: str | None = None, say: Callable[[str], None] = warnings.warn
) -> dict[str, Trace]:
    """The trace of a model's output for ``source`` by the name of the model; with ``rule``, also that of the model with
    it. ``say`` is told what should be known of them, before they are made."""
    if rule is not None:
        parse(rule)  # a mistake in it is said at once, not after the first output
    author = Author(name)
    for remark in author.remarks(source):
        say(remark)
    found = {f"{author.name} ({author.rule})" if author.rule else author.name: author.write(source)}
    if rule is not None:
        for note in author.put(rule):
            say(note)
        found[f"{author.name} with {rule}"] = author.write(source)
    return found
