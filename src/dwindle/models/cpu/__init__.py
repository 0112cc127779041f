"""The C++ of recurrent models: an LSTM over padded rows, the pointer-generator's loop, rows of scores.

Without it they are the same models in plain PyTorch.
"""

from pathlib import Path

from dwindle.core.backends.cpu.functions import Functions

KERNEL = Functions(Path(__file__).parent)
