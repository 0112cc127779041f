"""Small files in the form of the licensed corpora, made from the worlds."""

import json
from pathlib import Path

import numpy as np

from dwindle.data.load import DataSettings, Size, load
from dwindle.data.newstest import YEARS
from dwindle.data.settings import SPLITS

SIZE = Size(8, 2, 2)


def make(corpus: str, folder: Path) -> str | None:
    """Write a corpus; its path, or None for a world that has none."""
    if corpus == "cnndm":
        return _cnndm(folder / corpus)
    if corpus == "nyt50":
        return _nyt50(folder / corpus)
    if corpus == "image-paragraphs":
        return _image_paragraphs(folder / corpus)
    if corpus == "scenes":
        return str(folder / corpus)  # where its features are kept
    if corpus == "ids-ade":
        return _ids_ade(folder / corpus)
    if corpus.startswith("newstest-"):
        return _newstest(folder / corpus, corpus.removeprefix("newstest-"))
    translated = {"wmt14-en-de": "de", "wmt14-en-fr": "fr", "lines": "de"}
    return _lines(folder / corpus, translated[corpus]) if corpus in translated else None


def _cnndm(folder: Path) -> str:
    folder.mkdir()
    for split in SPLITS:
        with (folder / f"{split}.jsonl").open("w") as file:
            for e in load(DataSettings("newsroom", size=SIZE), split):
                file.write(
                    json.dumps({"id": e.id, "article": e.source, "highlights": e.references[0]})
                    + "\n"
                )
    return str(folder)


def _nyt50(folder: Path) -> str:
    folder.mkdir()
    for split in SPLITS:
        examples = load(DataSettings("newsroom", size=SIZE), split)
        (folder / f"{split}.txt").write_text("".join(f"{e.id}\n" for e in examples))
        for e in examples:
            body = "".join(f"<p>{line}</p>" for line in e.source.split("\n"))
            text = (
                f"<nitf><body><body.head><abstract><p>{e.references[0]}</p></abstract></body.head>"
                "<body.content><block "
                f'class="full_text">{body}</block></body.content></body></nitf>'
            )
            (folder / f"{e.id}.xml").write_text(text)
    return str(folder)


def _lines(folder: Path, language: str) -> str:
    folder.mkdir()
    for split in SPLITS:
        examples = load(DataSettings("phrasebook", size=SIZE), split)
        (folder / f"{split}.en").write_text("".join(f"{e.source}\n" for e in examples))
        (folder / f"{split}.{language}").write_text(
            "".join(f"{e.references[0]}\n" for e in examples)
        )
    return str(folder)


def _image_paragraphs(folder: Path) -> str:
    (folder / "features").mkdir(parents=True)
    paragraphs = []
    for split, file in zip(SPLITS, ("train", "val", "test"), strict=True):
        examples = load(DataSettings("scenes", str(folder / "scenes"), SIZE), split)
        ids = [len(paragraphs) + i for i in range(len(examples))]
        (folder / f"{file}_split.json").write_text(json.dumps(ids))
        for id, e in zip(ids, examples, strict=True):
            np.savez_compressed(folder / "features" / f"{id}.npz", feat=np.asarray(e.input))
            paragraphs.append(
                {"image_id": id, "url": f"http://localhost/{id}.jpg", "paragraph": e.target}
            )
    (folder / "paragraphs_v1.json").write_text(json.dumps(paragraphs))
    return str(folder)


def _ids_ade(folder: Path) -> str:
    (folder / "features").mkdir(parents=True)
    for split in SPLITS:
        with (folder / f"{split}.jsonl").open("w") as file:
            for e in load(DataSettings("scenes", str(folder / "scenes"), SIZE), split):
                id = f"{split}-{e.id}"
                file.write(
                    json.dumps({"id": id, "image": f"{id}.jpg", "paragraph": e.target.split("\n")})
                    + "\n"
                )
                np.save(folder / "features" / f"{id}.npy", np.asarray(e.input))
    return str(folder)


def _newstest(folder: Path, pair: str) -> str:
    folder.mkdir()
    source, target = pair.split("-")
    for year in (year for years in YEARS[pair].values() for year in years):
        examples = load(DataSettings("phrasebook", size=SIZE, seed=year), "train")
        (folder / f"newstest{year}.{pair}.{source}").write_text(
            "".join(f"{e.source}\n" for e in examples)
        )
        (folder / f"newstest{year}.{pair}.{target}").write_text(
            "".join(f"{e.references[0]}\n" for e in examples)
        )
    return str(folder)
