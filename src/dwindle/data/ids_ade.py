"""IDS-ADE: photographs of ADE20K with five sentences by people (image description sequences). 4,820
/ 441 / 211 images.

``path`` is a folder of ``train.jsonl``, ``val.jsonl``, ``test.jsonl`` (or ``.gz``), objects with
``id``, ``image`` and ``paragraph`` (a list of sentences), and of the photographs: ``train.tar``,
... with the files that ``image`` names. Grid features (7 x 7 cells of width 1,280, over the whole
picture) are extracted once and kept in the user's cache, in half precision. Where a folder
``features/`` lies beside the texts (``ID.npz``, ``ID.npy`` or a TSV), those are taken.
"""

import io
import tarfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dwindle.data import jsonl
from dwindle.data.example import Example, Split
from dwindle.data.features import paragraph
from dwindle.data.files import folder, split_file
from dwindle.data.finish import finish
from dwindle.data.regions import FeatureStore, Npy, Regions
from dwindle.data.settings import DataSettings
from dwindle.system import cache

_ADVICE = (
    "give the folder of train.jsonl, val.jsonl, test.jsonl and the photographs, train.tar and so on"
)
SIDE = 224
"""Pixels to which both sides of a photograph are scaled."""
_BATCH = 32
_ENDS = (".", "!", "?")


def read(settings: DataSettings, split: Split) -> Sequence[Example]:
    place = folder(settings, _ADVICE)
    file = split_file(place, split, jsonl.ENDINGS)
    if file is None:
        raise ValueError(f"{place} has no {split} file (such as {split}.jsonl.gz): {_ADVICE}")
    texts = jsonl.examples(settings, split, file, "image", "paragraph", finish(settings))
    regions = _regions(place, split, texts)
    return [
        Example(text.id, text.source, (_paragraph(text.target),), image=image)
        for text, image in zip(texts, regions, strict=True)
    ]


def _paragraph(text: str) -> str:
    """Its sentences, some of which lack their full stop, as captions are scored."""
    lines = (line.strip() for line in text.split("\n") if line.strip())
    return paragraph(" ".join(line if line.endswith(_ENDS) else f"{line}." for line in lines))


def _regions(place: Path, split: Split, texts: Sequence[Example]) -> list[Regions]:
    """The features of every image: as they lie beside the texts, or extracted."""
    if (place / "features").exists():
        store = FeatureStore(place / "features")
        return [store[text.id] for text in texts]
    pictures = split_file(place, split, ["tar"])
    if pictures is None:
        raise ValueError(
            f"{place} has neither features/ nor a {split} file that ends in .tar: {_ADVICE}"
        )
    names = [text.source for text in texts]
    stat = pictures.stat()
    key = [str(pictures.resolve()), stat.st_size, stat.st_mtime_ns, names, SIDE]
    kept = cache.kept("ids-ade", key, lambda made: _extract(made / "features.npy", pictures, names))
    cells = len(np.load(kept / "features.npy", mmap_mode="r")) // len(names)
    return [Npy(kept / "features.npy", i * cells, (i + 1) * cells) for i in range(len(names))]


def _extract(file: Path, pictures: Path, names: Sequence[str]) -> None:
    """Write the features (images x cells, D) of the pictures of these names, one by one."""
    import torch

    from dwindle.data.networks import efficientnet

    network = efficientnet(SIDE)
    found = []
    with _opened(pictures) as archive:
        for start in range(0, len(names), _BATCH):
            some = np.stack(
                [_picture(archive, pictures, name) for name in names[start : start + _BATCH]]
            )
            # grids: (N, D, h, w)
            grids = network.look(torch.from_numpy(some).permute(0, 3, 1, 2) / 127.5 - 1)
            found.append(grids.flatten(2).transpose(1, 2).flatten(0, 1).numpy().astype(np.float16))
    np.save(file, np.concatenate(found))


def _opened(pictures: Path) -> tarfile.TarFile:
    try:
        return tarfile.open(pictures)
    except tarfile.TarError as error:
        raise ValueError(f"{pictures} is not a tar file ({error}): get it again") from None


def _picture(archive: tarfile.TarFile, pictures: Path, name: str) -> npt.NDArray[np.float32]:
    """(side, side, 3): one picture, scaled."""
    from PIL import Image

    try:
        file = archive.extractfile(name)
        content = file.read() if file else b""
        with Image.open(io.BytesIO(content)) as picture:
            return np.asarray(picture.convert("RGB").resize((SIDE, SIDE)), dtype=np.float32)
    except KeyError:
        raise ValueError(f"{pictures} has no picture {name}: get it again") from None
    except (OSError, tarfile.TarError, Image.DecompressionBombError) as error:
        raise ValueError(f"{pictures}: {name} is not a picture ({error}): get it again") from None
