"""``opened``: opens the published checkpoint that a path names, as a model and its codec; ``bring``
writes it as a folder."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from dwindle.checkpoints import (
    fairseq,
    fairseq_bart,
    fairseq_transformer,
    presumm,
    see,
    see_pytorch,
    top_down,
    torch_files,
)
from dwindle.checkpoints.format import Checkpoint, Format, Opened
from dwindle.checkpoints.tensorflow import Bundle
from dwindle.models import build

FORMATS = (
    fairseq_transformer.FORMAT,
    fairseq_bart.FORMAT,
    presumm.FORMAT,
    see.FORMAT,
    see_pytorch.FORMAT,
    top_down.FORMAT,
)
"""The formats that can be opened. No checkpoint is of two."""
_INDEX = ".index"
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2")
_SUFFIXES = (".pt", ".pth", _INDEX)


def opened(path: Path, source_lang: str | None = None, target_lang: str | None = None) -> Opened:
    """The model of a checkpoint's file, or of a folder that holds one.

    The languages are for translation models of fairseq whose file does not say them.
    """
    found = replace(checkpoint(path), source_lang=source_lang, target_lang=target_lang)
    if (source_lang or target_lang) and not fairseq.is_fairseq(found):
        raise ValueError(
            f"{found.file} is no model of fairseq: leave --source-lang and --target-lang out"
        )
    for kind in FORMATS:
        if _fits(kind, found):
            return _understood(kind, found)
    known = ", ".join(kind.name for kind in FORMATS[:-1])
    raise ValueError(
        f"{found.file} is not a checkpoint of a known format: those are {known}, and "
        f"{FORMATS[-1].name}"
    )


def _fits(kind: Format, found: Checkpoint) -> bool:
    try:
        return kind.fits(found)
    except (AttributeError, TypeError):  # names may be anything, also numbers
        return False


def _understood(kind: Format, found: Checkpoint) -> Opened:
    try:
        return kind.open(found)
    except (ValueError, OSError):
        raise
    except MemoryError:
        raise ValueError(
            f"{found.file} needs more memory than there is: read it on a larger machine"
        ) from None
    except Exception as error:
        # Settings and weights may be anything where a file is not what its names say.
        raise ValueError(
            f"{found.file} looks like {kind.name}, but is not as that should be: get it again"
        ) from error


def checkpoint(path: Path) -> Checkpoint:
    """Read the file that a path names, without asking yet for its format."""
    file = _file(path)
    content = Bundle(file) if file.suffix == _INDEX else torch_files.read(file)
    if not isinstance(content, Mapping):
        raise ValueError(f"{file} holds no weights by name: name another file")
    return Checkpoint(file, content)


def bring(
    path: Path, out: Path, source_lang: str | None = None, target_lang: str | None = None
) -> Opened:
    """Write what a path names into the new folder ``out``, for every other verb; all or nothing."""
    if out.exists():
        raise ValueError(f"{out} is there already: name a new folder")
    found = opened(path, source_lang, target_lang)
    build.save(found.model, found.codec, out)
    return found


def _file(path: Path) -> Path:
    """The file of weights: ``path`` itself, or the only one in that folder."""
    if path.is_dir():
        return _only(path)
    if path.suffix in _ARCHIVES:
        raise ValueError(f"{path} is an archive: unpack it, and name the folder or file inside")
    # TensorFlow names a checkpoint without its ending
    for file in (path, path.with_name(path.name + _INDEX)):
        if file.is_file():
            return file
    raise ValueError(f"there is no {path}: name a checkpoint's file, or the folder it is in")


def _only(folder: Path) -> Path:
    files = [
        file
        for file in folder.iterdir()
        if file.suffix in _SUFFIXES and not file.name.startswith("optimizer")
    ]
    if not files:
        raise ValueError(
            f"{folder} has no file of weights (.pt, .pth or .index): name the file itself"
        )
    if len(files) > 1:
        names = ", ".join(sorted(file.name for file in files)[:3])
        raise ValueError(f"{folder} has several files of weights ({names}): name one of them")
    return files[0]
