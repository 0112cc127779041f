"""Small files that claim much, and a reader of them whose memory is limited to what the project
promises.

``python -m tests.checkpoints.bombs FOLDER`` reads every file of a folder, and imports every
checkpoint that is a folder in it, each with at most twice its size and 200 MB more than the process
has. It prints the sentence with which each was refused, or ``read``.
"""

import resource
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
import torch

from tests.checkpoints import bundle, test_fairseq_transformer

PROMISED = 200_000_000
BIG = 600_000_000


def write(folder: Path) -> None:
    """One file of each kind."""
    folder.mkdir(parents=True, exist_ok=True)
    memo = b"\x80\x02Nr" + struct.pack("<I", 2**32 - 1) + b"."
    length = b"\x80\x04\x8e" + struct.pack("<Q", 8 * BIG) + b"."
    encoded = (
        b"\x80\x02c_codecs\nencode\nq\x00X"
        + struct.pack("<I", 400_000)
        + b"x" * 400_000
        + b"q\x01X\x06\x00\x00\x00latin1q\x02"
    )
    encoded += b"(" + b"h\x00h\x01h\x02\x86R" * 50_000 + b"t."
    entries = b"".join(
        b"K" + bytes([n % 256]) + b"M" + struct.pack("<H", n) + b"\x86" for n in range(60_000)
    )
    copied = (
        b"\x80\x02ccollections\nOrderedDict\nq\x00]("
        + entries
        + b"e\x85q\x010("
        + b"h\x00h\x01R" * 10_000
        + b"t."
    )
    state = b"}(" + b"".join(b"M" + struct.pack("<H", n) + b"N" for n in range(60_000)) + b"uq\x010"
    built = (
        b"\x80\x02cargparse\nNamespace\nq\x00" + state + b"(" + b"h\x00)\x81h\x01b" * 20_000 + b"t."
    )
    dicts, lists = b"\x80\x02(" + b"}" * 6_000_000 + b"t.", b"\x80\x02(" + b"](" * 4_000_000 + b"t."
    frame = b"\x80\x04\x95" + struct.pack("<Q", 8 * BIG) + b"N."
    pickles = {
        "memo": memo,
        "length": length,
        "encoded": encoded,
        "copied": copied,
        "dicts": dicts,
        "lists": lists,
    }
    for name, content in (pickles | {"built": built, "frame": frame}).items():
        (folder / f"{name}.pkl").write_bytes(content)
        _torch(folder / f"{name}.pt", content)
    _torch(
        folder / "bytearray.pt",
        b"\x80\x02c__builtin__\nbytearray\nJ" + struct.pack("<i", BIG) + b"\x85R.",
    )
    with zipfile.ZipFile(
        folder / "deflated.pt", "w", zipfile.ZIP_DEFLATED, compresslevel=1
    ) as archive:
        with archive.open("a/data.pkl", "w", force_zip64=True) as stream:
            stream.write(b"\x80\x02")
            for _ in range(BIG // 8_000_000):
                stream.write(b"N0" * 4_000_000)
            stream.write(b"N.")
        archive.writestr("a/version", "3\n")
    with (
        zipfile.ZipFile(
            folder / "deflated.npz", "w", zipfile.ZIP_DEFLATED, compresslevel=1
        ) as archive,
        archive.open("feat.npy", "w") as stream,
    ):
        np.lib.format.write_array_header_1_0(
            stream, {"descr": "|u1", "fortran_order": False, "shape": (BIG,)}
        )
        for _ in range(BIG // 8_000_000):
            stream.write(bytes(8_000_000))
    with (
        zipfile.ZipFile(folder / "claims.npz", "w") as archive,
        archive.open("feat.npy", "w") as stream,
    ):
        np.lib.format.write_array_header_1_0(
            stream, {"descr": "<f8", "fortran_order": False, "shape": (BIG,)}
        )
    _table(folder / "rows.tsv")
    _imports(folder)
    _index(folder / "prefixes.index", b"".join(map(_entry, range(300_000))))
    _index(folder / "entries.index", _entry(0) + _entry(1) * 899_999)
    (folder / "varints.index").write_bytes(_footed(b"", b"\x80" * 400_000 + b"\x01"))


def _imports(folder: Path) -> None:
    """Checkpoints whose settings, names or lone matrices claim a large model."""

    def claim(name: str, change) -> None:
        test_fairseq_transformer.write(folder / name)
        stored = torch.load(folder / name / "model.pt", weights_only=False)
        change(stored["args"], stored["model"])
        torch.save(stored, folder / name / "model.pt")

    claim(
        "layers", lambda args, w: w.update({"encoder.layers.99999999.fc1.weight": torch.zeros(1)})
    )
    claim(
        "wide", lambda args, w: w.update({"encoder.embed_tokens.weight": torch.zeros(1, 500_000)})
    )
    claim("positions", lambda args, w: setattr(args, "max_source_positions", 1_000_000_000))
    claim("shared", _shared)
    claim("numbers", lambda args, w: w.update({3: torch.zeros(1), None: torch.zeros(1)}))


def _shared(args, weights) -> None:
    """A hundred layers, all of one and the same matrix of 12 MB: 4 GB in memory."""
    width = 1000
    matrix = torch.zeros(3 * width, width)
    for name, value in list(weights.items()):
        rows = len(value) if "embed" in name else 3 * width if "in_proj" in name else width
        shared = matrix[:rows] if value.dim() > 1 else matrix.view(-1)[:rows]
        many = (
            [name.replace(".layers.0.", f".layers.{n}.") for n in range(100)]
            if ".layers.0." in name
            else [name]
        )
        weights.update(dict.fromkeys(many, shared))


def _table(path: Path) -> None:
    """Lines that are nearly empty, each of which would be remembered."""
    path.write_text("".join(f"{n}\t\t\t\t\t\n" for n in range(1_500_000)))


def _torch(path: Path, content: bytes) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", content)
        archive.writestr("a/version", "3\n")


def _entry(shared: int) -> bytes:
    """A key of a TensorFlow index that adds a letter to so many of the key before, and has no
    value."""
    return bundle.varint(shared) + b"\1\0k"


def _index(path: Path, entries: bytes) -> None:
    """A TensorFlow index of one block."""
    path.write_bytes(_footed(entries + struct.pack("<II", 0, 1)))


def _footed(block: bytes, handle: bytes | None = None) -> bytes:
    """A table of one block, and the block that points to it."""
    stored = block + b"\0" + struct.pack("<I", 0)
    handle = bundle.varint(0) + bundle.varint(len(block)) if handle is None else handle
    pointing = bundle.block([(b"~", handle)])
    empty = bundle.varint(0) + bundle.varint(len(block))
    footer = empty + bundle.varint(len(stored)) + bundle.varint(len(pointing))
    stored += pointing + b"\0" + struct.pack("<I", 0)
    return stored + footer.ljust(40, b"\0") + struct.pack("<Q", 0xDB4775248B80FB57)


def _features(file: Path, held: dict) -> None:
    """An archive as region features too."""
    from dwindle.data.regions import Npz

    if "feat" in held:
        found = Npz(file)
        assert found.shape == np.asarray(found).shape
        assert found.boxes is None or found.boxes.dtype == np.float32


def read(path: Path) -> str:
    """What a reader says of a file within the promised memory: the sentence, or how it failed."""
    from dwindle.checkpoints import safe, torch_files
    from dwindle.checkpoints.opening import opened
    from dwindle.checkpoints.tensorflow import Bundle
    from dwindle.data.regions import FeatureStore, Npy
    from dwindle.runfiles import arrays

    readers = {
        "": opened,
        ".tsv": lambda file: np.asarray(FeatureStore(file)["7"]),
        ".pkl": safe.pickle_file,
        ".pt": torch_files.read,
        ".index": Bundle,
        ".npy": lambda file: np.asarray(Npy(file)),
        ".npz": lambda file: _features(file, arrays.read(file, "an archive", "get it again")),
    }
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    files = [path, *path.rglob("*")] if path.is_dir() else [path]
    size = sum(file.stat().st_size for file in files if file.is_file())
    resource.setrlimit(resource.RLIMIT_AS, (used + 2 * size + PROMISED, limits[1]))
    try:
        readers[path.suffix](path)
        return "read"
    except ValueError as error:
        return f"refused: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


if __name__ == "__main__":
    # What is imported now is not counted below.
    import dwindle.checkpoints.opening
    import dwindle.data.regions  # noqa: F401

    resource.setrlimit(resource.RLIMIT_CPU, (300, 300))
    for file in sorted(Path(sys.argv[1]).iterdir()):
        print(f"{file.name}: {read(file)}", flush=True)
