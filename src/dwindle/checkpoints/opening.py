"""``opened``: whatever published checkpoint a path names, as a model and its codec; ``bring`` writes it as a folder."""

from collections.abc import Mapping
from pathlib import Path

from dwindle.checkpoints import fairseq_bart, fairseq_transformer, presumm, safe, see, see_pytorch, top_down
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
"""What can be opened. No checkpoint is of two kinds."""
_INDEX = ".index"
_ARCHIVES = (".zip", ".tar", ".gz", ".tgz", ".bz2")
_SUFFIXES = (".pt", ".pth", _INDEX)


def opened(path: Path) -> Opened:
    """The model of a checkpoint's file, or of a folder that holds one."""
    found = checkpoint(path)
    for kind in FORMATS:
        if kind.fits(found):
            return _understood(kind, found)
    known = ", ".join(kind.name for kind in FORMATS[:-1])
    raise ValueError(f"{found.file} is not a checkpoint of a known format: those are {known}, and {FORMATS[-1].name}")


def _understood(kind: Format, found: Checkpoint) -> Opened:
    try:
        return kind.open(found)
    except (ValueError, OSError):
        raise
    except Exception as error:
        # Settings and weights may be anything where a file is not what its names say.
        raise ValueError(f"{found.file} looks like {kind.name}, but is not as that should be: get it again") from error


def checkpoint(path: Path) -> Checkpoint:
    """What a path names, read and not yet understood."""
    file = _file(path)
    content = Bundle(file) if file.suffix == _INDEX else safe.torch_file(file)
    if not isinstance(content, Mapping):
        raise ValueError(f"{file} holds no weights by name: name another file")
    return Checkpoint(file, content)


def bring(path: Path, out: Path) -> Opened:
    """Write what a path names into the new folder ``out``, as every other verb takes it; all or nothing."""
    if out.exists():
        raise ValueError(f"{out} is there already: name a new folder")
    found = opened(path)
    build.save(found.model, found.codec, out)
    return found


def _file(path: Path) -> Path:
    """The file of weights: ``path`` itself, or the only one in that folder."""
    if path.is_dir():
        return _only(path)
    if path.suffix in _ARCHIVES:
        raise ValueError(f"{path} is an archive: unpack it, and name the folder or file inside")
    for file in (path, path.with_name(path.name + _INDEX)):  # TensorFlow names a checkpoint without its ending
        if file.is_file():
            return file
    raise ValueError(f"there is no {path}: name a checkpoint's file, or the folder it is in")


def _only(folder: Path) -> Path:
    files = [file for file in folder.iterdir() if file.suffix in _SUFFIXES and not file.name.startswith("optimizer")]
    if not files:
        raise ValueError(f"{folder} has no file of weights (.pt, .pth or .index): name the file itself")
    if len(files) > 1:
        names = ", ".join(sorted(file.name for file in files)[:3])
        raise ValueError(f"{folder} has several files of weights ({names}): name one of them")
    return files[0]
