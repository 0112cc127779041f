"""A signature says how a number was made: the metric, and every setting that could change it.

Written ``rouge1|measure:f1|tok:rouge-1.5.5|...|version:0.2.0|seed:1|bs:1000``.
"""

from dataclasses import dataclass

from dwindle import __version__

Settings = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Signature:
    """The name of a metric and its settings, in order."""

    metric: str
    settings: Settings = ()

    def __str__(self) -> str:
        return "|".join([self.metric, *(f"{key}:{value}" for key, value in self.settings)])

    def __getitem__(self, key: str) -> str:
        return dict(self.settings)[key]

    def also(self, **settings: object) -> "Signature":
        """With more settings behind."""
        return Signature(
            self.metric, (*self.settings, *((key, str(value)) for key, value in settings.items()))
        )


def made(**settings: object) -> Settings:
    """The settings of a metric of this version; those that are None are left out."""
    named = {key: str(value) for key, value in settings.items() if value is not None}
    return (*named.items(), ("version", __version__))


def read(text: str) -> Signature:
    """A signature that was written down."""
    metric, *settings = text.split("|")
    pairs = (setting.partition(":") for setting in settings)
    return Signature(metric, tuple((key, value) for key, _, value in pairs))
