"""A short news article in our own words, to try a model with where no other text is at hand."""

from importlib import resources


def article() -> str:
    """One sentence a line."""
    return (
        resources.files("dwindle.data").joinpath("sample.txt").read_text(encoding="utf-8").strip()
    )
