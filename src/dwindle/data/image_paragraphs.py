"""The Stanford Image-Paragraph corpus (Krause et al., 2017) as published: ``paragraphs_v1.json``,
``train_split.json``, ``val_split.json``, ``test_split.json`` (14,575 / 2,487 / 2,489 images), and
region features in ``features/``.

The texts and the splits are on the authors' page (cs.stanford.edu/people/ranjaykrishna/im2p); the
images are Visual Genome's, and their bottom-up features (10 to 100 regions of width 2048) come from
the bottom-up-attention release. An image that is twice in the texts has two references.
"""

from collections.abc import Sequence
from typing import Any

from dwindle.data.example import Example, Split
from dwindle.data.features import examples, parsed
from dwindle.data.files import folder
from dwindle.data.settings import DataSettings

_ADVICE = "give the folder of paragraphs_v1.json, its three split files and features/"
_FILES = {"train": "train_split.json", "dev": "val_split.json", "test": "test_split.json"}


def read(settings: DataSettings, split: Split) -> Sequence[Example]:
    place = folder(settings, _ADVICE)
    texts: dict[str, list[str]] = {}
    for entry in _list(parsed(place / "paragraphs_v1.json"), f"{place}/paragraphs_v1.json"):
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("paragraph"), str)
            or "image_id" not in entry
        ):
            raise ValueError(
                f"{place}/paragraphs_v1.json has an entry without image_id and paragraph: get it "
                "again"
            )
        texts.setdefault(str(entry["image_id"]), []).append(entry["paragraph"])
    wanted = [str(id) for id in _list(parsed(place / _FILES[split]), f"{place / _FILES[split]}")]
    return examples(settings, split, {id: texts.get(id, []) for id in wanted})


def _list(value: Any, where: str) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"{where} is not a JSON list: get it again")
    return value
