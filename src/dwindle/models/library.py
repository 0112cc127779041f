"""The parts of `transformers` that differ between releases, in one form for this room.

As in ``attaching/library.py``, each difference is decided once, at import, by what the installed
release offers. Knows no model.
"""

import copy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from transformers import GenerationMixin, modeling_utils
from transformers.utils import logging

from dwindle.attaching.library import PreTrainedConfig, takes

__all__ = [
    "Config",
    "bars_on_terminals",
    "copy_",
    "init",
    "no_init_weights",
    "over_words",
    "restore_table",
]

try:  # 5.0 on: initialisers that leave loaded weights alone
    from transformers import initialization as init
    from transformers.initialization import copy_, no_init_weights
except ImportError:  # before: torch's, which are asked only where nothing was loaded
    init = nn.init
    no_init_weights = modeling_utils.no_init_weights

    def copy_(tensor: Tensor, other: Tensor) -> Tensor:
        with torch.no_grad():
            return tensor.copy_(other)


if hasattr(PreTrainedConfig, "__post_init__"):  # by 5.10: configs are dataclasses
    Config = PreTrainedConfig
else:

    class Config(PreTrainedConfig):  # type: ignore[no-redef]
        """A config whose fields are annotations with defaults, as later releases have them."""

        def __init__(self, **given: Any) -> None:
            fields = {
                name
                for one in type(self).__mro__
                if issubclass(one, Config)
                for name in one.__annotations__
            }
            super().__init__(**{name: getattr(type(self), name) for name in fields} | given)
            self.__post_init__()

        def __post_init__(self) -> None:
            """For subclasses: the fields are set."""


_BEAMS_ASK_CONFIG = takes(GenerationMixin._get_top_k_continuations, "vocab_size")
"""True if beam search takes the size of the vocabulary from the config, as up to 5.10 at least;
later releases take it from the logits."""


def over_words(model: Any, words: int) -> Any:
    """The model, or a stand-in whose vocabulary has this size for the library's beam search."""
    return _Wide(model, words) if _BEAMS_ASK_CONFIG else model


class _Wide:
    """A model with a config of its own that has more words."""

    def __init__(self, model: Any, words: int) -> None:
        self.model, self.config = model, copy.copy(model.config)
        self.config.vocab_size = words

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)

    def __call__(self, **inputs: Any) -> Any:
        return self.model(**inputs)


def restore_table(positions: Any) -> None:
    """Write the fixed table of a sinusoidal embedding of the library into its weight."""
    if hasattr(positions, "create_weight"):  # 5.0 on
        with torch.no_grad():
            positions.weight.copy_(positions.create_weight())
    else:
        positions._init_weight()


@contextmanager
def bars_on_terminals() -> Iterator[None]:
    """Inside the block the library draws its bars only where someone sees them move."""
    if sys.stderr.isatty() or not logging.is_progress_bar_enabled():
        yield
        return
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.enable_progress_bar()
