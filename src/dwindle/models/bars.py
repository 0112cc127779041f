"""Progress bars of `transformers` (loading, writing): on a terminal, and nowhere else."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from transformers.utils import logging


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
