"""Region features of the world ``scenes``: each box of a picture cut out and looked at by a network
that is not trained here, then kept in a file.

The ``seeded`` network is small, convolutional, and its weights are random but always the same: what
it tells of a region is blurred, as in life. To the features come five numbers of the box's place,
for no network that sees a cut-out knows where it was.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import nn

from dwindle.data.example import Lazy
from dwindle.data.networks import Network, efficientnet
from dwindle.data.regions import Npy, Regions
from dwindle.data.worlds.scenes_picture import draw
from dwindle.system import cache as caches

WIDTH = 128
"""Width of the features of the seeded network, the five of the place among them."""
Array = npt.NDArray[np.float32]
Scene = Callable[[int], dict[str, Any]]


def kept(
    key: object, scene: Scene, size: int, network: str, cache: str | None
) -> Sequence[Regions]:
    """Handles of the region features of ``size`` scenes, made the first time they are asked for."""
    place = Path(cache).expanduser() if cache else None
    folder = caches.kept(
        "scenes", [key, size, network], lambda made: _write(made, scene, size, network), place
    )
    ends = np.load(folder / "ends.npy")
    file = folder / "features.npy"
    return Lazy(lambda i: Npy(file, int(ends[i - 1]) if i else 0, int(ends[i])), range(size))


def _write(folder: Path, scene: Scene, size: int, network: str) -> None:
    look = NETWORKS[network]()
    parts, counts = [], []
    for index in range(size):
        gold = scene(index)
        parts.append(features(gold, look))
        counts.append(len(gold["regions"]))
    np.save(folder / "features.npy", np.concatenate(parts))
    np.save(folder / "ends.npy", np.cumsum(counts))


@torch.no_grad()
def features(gold: dict[str, Any], network: Network) -> Array:
    """(R, D) of one scene."""
    picture = draw(gold)
    boxes = [region["box"] for region in gold["regions"]]
    cuts = [
        np.asarray(picture.resize((network.side, network.side), box=box), dtype=np.float32)
        for box in boxes
    ]
    seen = network.look(torch.from_numpy(np.stack(cuts)).permute(0, 3, 1, 2) / 127.5 - 1)
    place = torch.tensor(boxes) / picture.width
    area = (place[:, 2] - place[:, 0]) * (place[:, 3] - place[:, 1])
    joined: Array = torch.cat([seen, place * 2 - 1, area[:, None]], 1).numpy()
    return joined


def _seeded() -> Network:
    first = nn.Conv2d(3, 16, 3, padding=1, bias=False)
    last = nn.Linear(16 * 10 * 10, WIDTH - 5, bias=False)
    generator = torch.Generator().manual_seed(1)
    for layer in (first, last):
        nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
    return Network(
        20,
        nn.Sequential(
            first, nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), last, nn.LayerNorm(WIDTH - 5)
        ),
    )


def _imagenet() -> Network:
    network = efficientnet(64)
    return Network(network.side, lambda cuts: network.look(cuts).mean((2, 3)))


NETWORKS: dict[str, Callable[[], Network]] = {"seeded": _seeded, "efficientnet-lite0": _imagenet}
