"""How many processes a command was launched as (``torchrun``, ``accelerate launch``), and which of them this is.

The first one writes files; the others wait for it. Knows nothing of what they do.
"""

import os


def count() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    """Which of the processes on this machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def first() -> bool:
    return rank() == 0
