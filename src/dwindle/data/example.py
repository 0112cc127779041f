"""One example of a corpus: what every reader gives, whatever its files look like."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Example:
    """A source and what people wrote for it. A newline inside a text parts sentences.

    ``gold`` is what a world knows of its own example: plain JSON, its ``"world"`` the world's name. ``image``
    is the file of an image's region features; the source is then the image's name.
    """

    id: str
    source: str
    references: tuple[str, ...]
    gold: dict[str, Any] | None = None
    image: Path | None = None

    @property
    def target(self) -> str:
        """What a model is trained to write."""
        return self.references[0]

    @property
    def input(self) -> Any:
        """What a codec encodes: the source text, or the region features (R, D) in float32."""
        if self.image is None:
            return self.source
        import numpy as np

        return np.load(self.image, allow_pickle=False).astype(np.float32)
