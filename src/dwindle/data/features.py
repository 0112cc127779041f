"""Images as a folder of region features and a JSON of texts: ``features/ID.npz``, ``train.json``,
``dev.json``, ``test.json``.

A JSON file of texts is one object, ``{"ID": "text", ...}``; a list of texts has an image's
references. Features may also be ``.npy`` files or the bottom-up TSV (``features.tsv``, or any
``.tsv`` in ``features/``). Every file of a split is looked for, and its shape read, before anything
is trained.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dwindle.data.example import Example, Split
from dwindle.data.files import folder, split_file
from dwindle.data.regions import FeatureStore
from dwindle.data.settings import DataSettings
from dwindle.runfiles import whole

_ADVICE = "give the folder of features/, train.json, dev.json and test.json"
_TOKENS = re.compile(r"\w+(?:['’-]\w+)*|[^\w\s]")
_SENTENCE_ENDS = (".", "!", "?")


def read(settings: DataSettings, split: Split) -> Sequence[Example]:
    place = folder(settings, _ADVICE)
    file = split_file(place, split, ["json"])
    if file is None:
        raise ValueError(f"{place} has no {split}.json: {_ADVICE}")
    texts = parsed(file)
    if not isinstance(texts, dict):
        raise ValueError(f'{file} is not a JSON object: write {{"image id": "text", ...}}')
    return examples(
        settings, split, {id: _several(text, f"{file}, image {id}") for id, text in texts.items()}
    )


def examples(
    settings: DataSettings, split: Split, texts: Mapping[str, Sequence[str]]
) -> list[Example]:
    """Image id -> its references, as examples whose features are in the settings' folder."""
    place = folder(settings, _ADVICE)
    table = place / "features.tsv"
    store = FeatureStore(table if table.is_file() else place / "features")
    found = []
    for id in list(texts)[: settings.size.of(split)]:
        references = tuple(paragraph(text) for text in texts[id])
        if not references or not all(references):
            raise ValueError(
                f"image {id} has no text in {place}: write one, or leave the image out"
            )
        found.append(Example(id, id, references, image=store[id]))
    if not found:
        raise ValueError(f"the {split} split of {place} has no image: check its ids")
    return found


def paragraph(text: str) -> str:
    """Lower case, words and punctuation separated by spaces, a newline after each sentence: how
    captions are scored."""
    out = ""
    for token in _TOKENS.findall(text.lower()):
        out += token + ("\n" if token in _SENTENCE_ENDS else " ")
    return out.strip()


def parsed(file: Path) -> Any:
    """The content of a JSON file."""
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ValueError(f"there is no {file}: {_ADVICE}") from None
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is not JSON ({error}): get it again") from None
    whole.check_characters(json.dumps(content, ensure_ascii=False), str(file))
    return content


def _several(text: Any, where: str) -> list[str]:
    texts = text if isinstance(text, list) else [text]
    if not all(isinstance(one, str) for one in texts):
        raise ValueError(
            f"{where}: its text is neither a string nor a list of strings: write it in quotes"
        )
    return texts
