"""The Stanford paragraphs in their published form, and any features with texts: small files of the
true format."""

import json

import numpy as np
import pytest

from dwindle.data.features import paragraph
from dwindle.data.load import DataSettings, Size, load

PARAGRAPHS = [
    {
        "image_id": 2356347,
        "url": "https://a.b/2356347.jpg",
        "paragraph": "A man's hat, red.  It is\nbig! ",
    },
    {"image_id": 2317429, "url": "https://a.b/2317429.jpg", "paragraph": "Two dogs run."},
    {"image_id": 2356347, "url": "https://a.b/2356347.jpg", "paragraph": "A hat."},
    {"image_id": 5, "url": "https://a.b/5.jpg", "paragraph": "One cat."},
]


@pytest.fixture
def stanford(tmp_path):
    (tmp_path / "paragraphs_v1.json").write_text(json.dumps(PARAGRAPHS))
    for file, ids in (("train", [2356347, 2317429]), ("val", [5]), ("test", [2317429])):
        (tmp_path / f"{file}_split.json").write_text(json.dumps(ids))
    (tmp_path / "features").mkdir()
    for id in (2356347, 2317429, 5):
        np.savez_compressed(
            tmp_path / "features" / f"{id}.npz", feat=np.full((3, 2), id, np.float32)
        )
    return tmp_path


def settings(folder, corpus="image-paragraphs", **size):
    return DataSettings(corpus, str(folder), Size(**size))


def test_images_and_paragraphs_as_published(stanford):
    hat, dogs = load(settings(stanford), "train")
    assert (hat.id, hat.source) == ("2356347", "2356347")
    assert hat.references == ("a man's hat , red .\nit is big !", "a hat .")  # it stands twice
    assert dogs.target == "two dogs run ."
    assert np.asarray(dogs.input).tolist() == [[2317429.0] * 2] * 3
    assert [e.id for e in load(settings(stanford), "dev")] == ["5"]
    assert [e.id for e in load(settings(stanford, train=1), "train")] == ["2356347"]


def test_text_is_tokenised_as_captions_are():
    assert paragraph("A well-lit room's (big) T.V.") == "a well-lit room's ( big ) t .\nv ."
    assert paragraph(" \n ") == ""


@pytest.mark.parametrize(
    ("spoil", "split", "sentence"),
    [
        (lambda f: (f / "features/5.npz").unlink(), "dev", "image 5 has no features"),
        (lambda f: (f / "val_split.json").write_text("[5, 6]"), "dev", "image 6 has no text"),
        (
            lambda f: (f / "val_split.json").write_text("[]"),
            "dev",
            "the dev split of .* has no image",
        ),
        (lambda f: (f / "val_split.json").write_text("{}"), "dev", "not a JSON list"),
        (lambda f: (f / "val_split.json").unlink(), "dev", r"there is no .*val_split\.json"),
        (
            lambda f: (f / "paragraphs_v1.json").write_text('[{"image_id": 5}]'),
            "dev",
            "without image_id and paragraph",
        ),
        (lambda f: (f / "paragraphs_v1.json").write_text("["), "dev", "is not JSON"),
        (lambda f: np.savez(f / "features/5.npz", feat=np.zeros((0, 2))), "dev", "has no regions"),
    ],
)
def test_bad_input_is_one_sentence(stanford, spoil, split, sentence):
    spoil(stanford)
    with pytest.raises(ValueError, match=sentence):
        load(settings(stanford), split)


def test_a_text_of_blanks_is_no_text(stanford):
    (stanford / "paragraphs_v1.json").write_text(json.dumps([PARAGRAPHS[3] | {"paragraph": "  "}]))
    with pytest.raises(ValueError, match="image 5 has no text"):
        load(settings(stanford), "dev")


def test_a_corpus_without_a_path_says_what_to_give():
    with pytest.raises(
        ValueError, match=r"image-paragraphs needs a path: give the folder of paragraphs_v1\.json"
    ):
        load(DataSettings("image-paragraphs"), "train")


def test_any_features_with_texts(tmp_path):
    (tmp_path / "features").mkdir()
    for id in "ab":
        np.save(tmp_path / "features" / f"{id}.npy", np.ones((2, 3)))
    (tmp_path / "train.json").write_text(
        json.dumps({"a": "One. Two.", "b": ["A cat.", "It sits."]})
    )
    one, two = load(settings(tmp_path, "features"), "train")
    assert one.references == ("one .\ntwo .",)
    assert two.references == ("a cat .", "it sits .")
    assert np.asarray(two.input).shape == (2, 3)
    with pytest.raises(ValueError, match=r"has no dev\.json"):
        load(settings(tmp_path, "features"), "dev")
    (tmp_path / "dev.json").write_text('{"a": 3}')
    with pytest.raises(ValueError, match="image a: its text is neither a string nor a list"):
        load(settings(tmp_path, "features"), "dev")
    (tmp_path / "dev.json").write_text("[]")
    with pytest.raises(ValueError, match="is not a JSON object"):
        load(settings(tmp_path, "features"), "dev")
