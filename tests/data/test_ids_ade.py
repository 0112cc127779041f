"""IDS-ADE: photographs in a tar, their features extracted once, and paragraphs."""

import io
import tarfile

import numpy as np
import pytest
from PIL import Image

from dwindle.data import networks
from dwindle.data.load import DataSettings, Size, load
from dwindle.data.networks import Network
from tests.data.corpus_files import write_jsonl

RECORDS = [
    {
        "id": str(i),
        "image": f"ADE_{i}.jpg",
        "category": "x",
        "paragraph": ["A Room.", "It's got walls", "Why?"],
    }
    for i in range(3)
]


def photographs(file, records=RECORDS, content=None):
    with tarfile.open(file, "w") as archive:
        for k, record in enumerate(records):
            made = io.BytesIO()
            Image.new("RGB", (40, 20), (60 * k, 0, 0)).save(made, "PNG")
            data = made.getvalue() if content is None else content
            about = tarfile.TarInfo(record["image"])
            about.size = len(data)
            archive.addfile(about, io.BytesIO(data))


@pytest.fixture
def looked(monkeypatch):
    """How often pictures were looked at, by a network whose grid of 2 x 2 cells has each cell's
    mean."""
    seen = []

    def look(pictures):
        seen.append(pictures.shape)
        return pictures.unfold(2, 112, 112).unfold(3, 112, 112).mean((4, 5))

    monkeypatch.setattr(networks, "efficientnet", lambda side: Network(side, look))
    return seen


@pytest.fixture
def corpus(tmp_path):
    write_jsonl(tmp_path / "val.jsonl.gz", RECORDS)
    photographs(tmp_path / "val.tar")
    return DataSettings("ids-ade", str(tmp_path))


def test_features_are_extracted_once_in_order(corpus, looked):
    examples = load(corpus, "dev")
    assert [e.id for e in examples] == ["0", "1", "2"]
    assert examples[0].source == "ADE_0.jpg"
    assert examples[0].target == "a room .\nit's got walls .\nwhy ?"
    for k, example in enumerate(examples):
        found = np.asarray(example.image)
        assert found.shape == (4, 3)  # cells, width
        assert np.allclose(found[:, 0], 60 * k / 127.5 - 1, atol=1e-2)
        assert np.allclose(found[:, 1:], -1)
    assert load(corpus, "dev")[2].image == examples[2].image
    assert looked == [(3, 3, 224, 224)]


def test_features_beside_the_texts_are_taken(corpus, tmp_path):
    (tmp_path / "features").mkdir()
    for k in range(2):
        np.save(tmp_path / "features" / f"{k}.npy", np.full((5, 4), k, np.float32))
    examples = load(DataSettings("ids-ade", str(tmp_path), Size(dev=2)), "dev")
    assert [np.asarray(e.image).mean() for e in examples] == [0, 1]
    with pytest.raises(ValueError, match="image 2 has no features"):
        load(corpus, "dev")


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (lambda f: (f / "val.tar").unlink(), "neither features/ nor a dev file that ends in .tar"),
        (lambda f: (f / "val.tar").write_bytes(b"x" * 600), "val.tar is not a tar file"),
        (lambda f: photographs(f / "val.tar", RECORDS[:2]), "val.tar has no picture ADE_2.jpg"),
        (lambda f: photographs(f / "val.tar", content=b"no"), "ADE_0.jpg is not a picture"),
        (lambda f: (f / "val.jsonl.gz").unlink(), "has no dev file"),
    ],
)
def test_what_is_wrong_is_one_sentence(corpus, tmp_path, looked, spoil, sentence):
    spoil(tmp_path)
    with pytest.raises(ValueError, match=sentence):
        load(corpus, "dev")
