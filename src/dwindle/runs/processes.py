"""How many processes a command was launched as (``torchrun``, ``accelerate launch``), and which of them this is.

The first one writes files; the others wait for it. Knows nothing of what they do.
"""

import os

import torch


def count() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    return int(os.environ.get("RANK", "0"))


def first() -> bool:
    return rank() == 0


def wait() -> None:
    """Go on when all processes have come here."""
    if count() > 1:
        from accelerate import PartialState  # what the trainer meets by, too

        PartialState(cpu=not torch.accelerator.is_available()).wait_for_everyone()


def device() -> torch.device:
    """The accelerator of this process, or the CPU."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return torch.device("cpu") if found is None else torch.device(found.type, int(os.environ.get("LOCAL_RANK", "0")))
