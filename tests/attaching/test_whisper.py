"""Whisper's own long-form ``generate``: windows, timestamps, prompts padded on the left. It cuts
caches itself.

(That an item of a batch is transcribed as it is alone is not asked: the untouched model does not do
so.)
"""

import pytest
import torch
from torch import Tensor

import dwindle
from tests.attaching.zoo import ZOO

RULE = "dydim:log,power(0.5)"
WHISPER = next(each for each in ZOO if each.name == "Whisper")
FRAMES = (60, 44)  # of a window of 24


def whisper():
    model = WHISPER.build()
    settings = model.generation_config
    settings.no_timestamps_token_id = 30  # the ids above it are timestamps
    settings.max_initial_timestamp_index = 5
    settings.prev_sot_token_id = 3
    settings.is_multilingual = False
    dwindle.attach(model, RULE)
    return model


def transcribed(model, *, beams: int, cache: bool, prompted: bool) -> list[list[int]]:
    """The tokens of two long recordings; ``prompted``: each window is told what was said before
    it."""
    features = torch.randn(len(FRAMES), 8, max(FRAMES), generator=torch.Generator().manual_seed(3))
    mask = torch.arange(max(FRAMES)) < torch.tensor(FRAMES)[:, None]
    out: Tensor = model.generate(
        input_features=features,
        attention_mask=mask.long(),
        return_timestamps=True,
        condition_on_prev_tokens=prompted,
        temperature=0.0,
        num_beams=beams,
        use_cache=cache,
        max_new_tokens=8,
    )
    return [[token for token in row if token != 1] for row in out.tolist()]


@pytest.mark.parametrize("prompted", [False, True])
@pytest.mark.parametrize("beams", [1, 4])
def test_long_audio_needs_no_cache(beams, prompted):
    model = whisper()
    cached = transcribed(model, beams=beams, cache=True, prompted=prompted)
    assert cached == transcribed(model, beams=beams, cache=False, prompted=prompted)
    assert len(cached[0]) > 12, "only one window: this proves nothing"
    dwindle.detach(model)
    assert cached != transcribed(model, beams=beams, cache=True, prompted=prompted)
