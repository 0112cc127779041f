"""``place``: finds the model of a name, or says in one sentence why there is none.

Looks at names and files only, and asks the hub at most once, so that a wrong name is refused before
torch and transformers are imported, which takes long. Opens no model.
"""

import json
from pathlib import Path

from dwindle.runfiles import names
from dwindle.system.hub import absence

_WEIGHTS = ("*.safetensors", "*.bin", "*.index.json")


def place(name: str | Path) -> str | Path:
    """The folder of the weights, or the name on the hub."""
    folder = Path(name)
    if (folder / names.MODEL / "config.json").is_file():
        return _checked(folder / names.MODEL)
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise ValueError(
            f"{folder} is neither a saved model nor a run with one: it has no config.json"
        )
    if folder.is_dir():
        return _checked(folder)
    if folder.exists():
        raise ValueError(
            f"{folder} is a file: name the folder of a run or of a saved model, or a name on the "
            "hub"
        )
    if folder.is_absolute() or str(name).startswith((".", "~")) or len(folder.parts) > 2:
        raise ValueError(
            f"there is no {name}: name the folder of a run or of a saved model, or a name on the "
            "hub"
        )
    if why := absence(str(name), "model"):
        raise ValueError(f"there is no folder {name}, and {why}")
    return str(name)


def _checked(folder: Path) -> Path:
    """Refuse a folder whose config cannot be read, or that has no weights."""
    file = folder / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:  # no JSON, or no UTF-8
        raise ValueError(f"{file} is not JSON: {error}") from None
    if not isinstance(config, dict):
        raise ValueError(f"{file} is not a model's config: it holds no named settings")
    if not any(any(folder.glob(pattern)) for pattern in _WEIGHTS):
        raise ValueError(f"{folder} has a config.json but no weights: copy or save the model again")
    return folder
