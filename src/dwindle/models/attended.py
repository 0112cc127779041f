"""``attended``: what a model of any kind looked at while it wrote texts that exist already."""

from typing import Any

from torch import Tensor
from transformers import PreTrainedModel

from dwindle.attaching.carrier import carrier_of
from dwindle.attaching.record import Record


def attended(model: PreTrainedModel, batch: dict[str, Any], sequences: Tensor) -> Record:
    """Plain attention and used weights (L, N, T, S) of generated ``sequences`` (N, 1 + T).

    A library model with a rule gives the layers that have it, averaged over heads; one without
    gives all. ``batch`` is what ``generate`` was given. Rows after the end of a sequence are zero.
    """
    here = {k: v.to(model.device) if isinstance(v, Tensor) else v for k, v in batch.items()}
    return carrier_of(model).attended(here, sequences)
