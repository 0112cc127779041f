"""Changes that make a newsroom recipe train in a second."""

from dwindle.runs import shelf

TINY = [
    "data.size={train: 24, dev: 4, test: 6}",
    "training.steps=2",
    "training.batch_size=4",
    "decoding.max_length=12",
]
NEWS = [
    *TINY,
    "model.size=tiny",
    "model.vocabulary=300",
    "model.source_length=40",
    "decoding.min_length=1",
]


def tiny(name: str) -> list[str]:
    """The changes that make a newsroom recipe tiny."""
    return [*NEWS, *(f"start.{change}" for change in NEWS if shelf.mapping(name).get("start"))]
