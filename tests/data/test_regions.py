"""Region features on disk: every format gives the same numbers, lazily; every broken file its own
sentence."""

import base64
import pickle

import numpy as np
import pytest

from dwindle.data.regions import FeatureStore, Npy, Npz, TsvRow, tsv_index

FEATURES = {
    f"{10 + i}": np.random.default_rng(i).normal(size=(3 + i, 6)).astype(np.float32)
    for i in range(3)
}
BOXES = {id: np.arange(4 * len(x), dtype=np.float32).reshape(-1, 4) for id, x in FEATURES.items()}


def tsv_line(id, features=None, count=None):
    features = FEATURES[id] if features is None else features
    numbers = [base64.b64encode(x.tobytes()).decode() for x in (BOXES.get(id, features), features)]
    return (
        "\t".join([id, "640", "480", str(len(features) if count is None else count), *numbers])
        + "\n"
    )


@pytest.fixture(params=["npz", "named", "npy", "tsv", "several tsv"])
def place(request, tmp_path):
    if request.param == "tsv":
        (tmp_path / "all.tsv").write_text("".join(map(tsv_line, FEATURES)))
        return tmp_path / "all.tsv"
    for id, x in FEATURES.items():
        if request.param == "npz":
            np.savez_compressed(tmp_path / f"{id}.npz", feat=x, bbox=BOXES[id])
        elif request.param == "named":
            np.savez(tmp_path / f"{id}.npz", features=x, boxes=BOXES[id])
        elif request.param == "npy":
            np.save(tmp_path / f"{id}.npy", x)
        else:
            (tmp_path / f"part{id}.tsv").write_text(tsv_line(id))
    return tmp_path


def test_every_format_gives_the_same_numbers(place):
    store = FeatureStore(place)
    for id, x in FEATURES.items():
        handle = store[id]
        assert handle.shape == x.shape
        assert np.array_equal(np.asarray(handle), x)
        assert np.array(handle).flags.writeable
        assert np.asarray(handle, dtype=np.float64).dtype == np.float64
        if not isinstance(handle, Npy):
            assert np.array_equal(handle.boxes, BOXES[id])
        # for a loader's workers
        assert np.array_equal(np.asarray(pickle.loads(pickle.dumps(handle))), x)


def test_a_missing_image_is_named(place):
    with pytest.raises(
        ValueError, match=r"image 99 has no features in .*: extract them, or leave the image out"
    ):
        FeatureStore(place)["99"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"there are no features at .*nowhere"):
        FeatureStore(tmp_path / "nowhere")


def test_rows_of_one_file_are_images(tmp_path):
    np.save(tmp_path / "all.npy", np.arange(20, dtype=np.float32).reshape(10, 2))
    handle = Npy(tmp_path / "all.npy", 3, 5)
    assert handle.shape == (2, 2)
    assert np.asarray(handle).tolist() == [[6, 7], [8, 9]]


def test_shapes_are_known_without_reading_the_features(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "1.npz", feat=FEATURES["10"])
    monkeypatch.setattr(np, "load", lambda *a, **k: pytest.fail("it was read"))
    assert Npz(tmp_path / "1.npz").shape == (3, 6)


def test_half_precision_is_read_as_single(tmp_path):
    np.save(tmp_path / "1.npy", FEATURES["10"].astype(np.float16))
    assert np.asarray(Npy(tmp_path / "1.npy")).dtype == np.float32


@pytest.mark.parametrize(
    ("name", "write", "sentence"),
    [
        ("7.npz", lambda f: f.write_bytes(b"no zip"), "is not a file of region features"),
        ("7.npy", lambda f: f.write_bytes(b""), "is not a file of region features"),
        (
            "7.npy",
            lambda f: np.save(f, np.array([{}], dtype=object), allow_pickle=True),
            "is not a file of region features",
        ),
        (
            "7.npz",
            lambda f: np.savez(f, a=np.zeros(1), b=np.zeros(1)),
            "it holds a, b: name the array of features 'feat'",
        ),
        ("7.npy", lambda f: np.save(f, np.zeros((0, 6))), "has no regions"),
        (
            "7.npy",
            lambda f: np.save(f, np.zeros(6)),
            r"shape \(6,\): store features as \(regions, width\)",
        ),
        ("7.tsv", lambda f: f.write_text("7\t640\t480\n"), "needs six fields separated by tabs"),
        (
            "7.tsv",
            lambda f: f.write_text(tsv_line("7", np.zeros((0, 6), np.float32))),
            "has no regions",
        ),
    ],
)
def test_a_broken_file_is_met_when_it_is_looked_up(tmp_path, name, write, sentence):
    write(tmp_path / name)
    with pytest.raises(ValueError, match=sentence):
        FeatureStore(tmp_path)["7"]


def test_a_broken_tsv_line_is_broken_alone(tmp_path):
    lines = [
        tsv_line("7", np.zeros((3, 7), np.float32), count=4),
        tsv_line("10"),
        "8\t1\t1\t2\t?\t????????????????\n",
    ]
    (tmp_path / "all.tsv").write_text("".join(lines))
    store = FeatureStore(tmp_path)
    with pytest.raises(ValueError, match=r"all\.tsv, byte 0 has 84 bytes for 4 regions of float32"):
        store["7"]
    assert isinstance(store["10"], TsvRow)
    assert np.array_equal(np.asarray(store["10"]), FEATURES["10"])
    assert set(tsv_index(tmp_path / "all.tsv")) == {"7", "8", "10"}
    broken = TsvRow(tmp_path / "all.tsv", sum(map(len, lines[:2])))
    with pytest.raises(ValueError, match="is broken"):
        np.asarray(broken)
