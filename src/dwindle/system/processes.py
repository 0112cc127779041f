"""Number of processes that a command was launched as (``torchrun``, ``accelerate launch``), and the
rank of this one.

The first one writes files; the others wait for it. Knows nothing of what they do.
"""

import os


def count() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def local_rank() -> int:
    """Rank of this process among those on this machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def first() -> bool:
    return rank() == 0
