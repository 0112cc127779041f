"""Processes that were launched together: where each computes, and how they wait for each other."""

import torch

from dwindle.system import processes


def wait() -> None:
    """Go on when all processes have come here."""
    if processes.count() > 1:
        from accelerate import PartialState  # what the trainer meets by, too

        PartialState(cpu=not torch.accelerator.is_available()).wait_for_everyone()


def device() -> torch.device:
    """The accelerator of this process, or the CPU."""
    found = torch.accelerator.current_accelerator(check_available=True)
    return (
        torch.device("cpu") if found is None else torch.device(found.type, processes.local_rank())
    )
