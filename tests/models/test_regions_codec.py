"""The codec of images: padding, masks, words, sentences, files, and what it refuses before
training."""

import numpy as np
import pytest
import torch

from dwindle.models.build import build
from dwindle.models.settings import ModelSettings
from dwindle.models.top_down_codec import RegionCodec
from dwindle.models.vocabulary import END, PAD, START, UNK, Vocabulary


def image(regions, width=4, value=1.0):
    return np.full((regions, width), value, dtype=np.float32)


PAIRS = [(image(3), "a red star .\nit is big ."), (image(5), "a red moon ."), (image(1), "a moon")]


def codec(**changes):
    return RegionCodec.fitted(
        PAIRS, **{"size": None, "max_regions": 5, "target_length": 8} | changes
    )


def test_rows_become_a_padded_batch_and_words_come_back():
    regions = codec()
    batch = regions.collate([regions.encode(*pair) for pair in PAIRS])
    assert batch["features"].shape == (3, 5, 4)
    assert batch["attention_mask"].tolist() == [[1, 1, 1, 0, 0], [1] * 5, [1, 0, 0, 0, 0]]
    assert torch.equal(batch["features"][..., 0], batch["attention_mask"].float())
    assert batch["labels"].shape == (3, 8)
    assert (batch["labels"] == -100).tolist() == [
        [False] * 8,
        [False] * 5 + [True] * 3,
        [False] * 3 + [True] * 5,
    ]
    sequences = torch.cat(
        [torch.full((3, 1), START), batch["labels"].where(batch["labels"] >= 0, PAD)], 1
    )
    # Eight places: the first paragraph is cut after seven words, and ends all the same.
    assert regions.decode(sequences, batch) == ["a red star .\nit is big", "a red moon .", "a moon"]


def test_words_that_are_rare_or_new_are_unknown():
    # the special ones and the three most frequent: a . moon, then red by the alphabet
    few = codec(size=7)
    assert few.vocabulary.words[4:] == [".", "a", "moon"]
    assert few.encode(image(1), "a blue moon")["labels"] == [5, UNK, 6, END]


def test_texts_after_the_end_and_special_words_are_not_shown():
    regions = codec()
    a = regions.vocabulary.id("a")
    assert regions.decode(torch.tensor([[START, a, PAD, END, a, a]]), {}) == ["a"]
    assert regions.source_tokens(image(2)) == ["region 1", "region 2"]


def test_features_are_copied_not_shared():
    regions, array = codec(), image(2)
    row = regions.encode(array)
    array[:] = 7
    assert row["features"].max() == 1
    assert "labels" not in row


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (image(0), "no regions: extract its features again"),
        (image(6), "6 regions, but the model takes 5: keep the best of them"),
        (image(2, width=3), "width 3, but the model reads 4: extract all alike"),
        (np.zeros(4), r"shape \(4,\): store them as \(regions, width\)"),
    ],
)
def test_bad_images_are_refused_when_fitted_and_when_encoded(source, sentence):
    with pytest.raises(ValueError, match=sentence):
        codec().encode(source)
    with pytest.raises(ValueError, match=sentence):
        RegionCodec.fitted([*PAIRS, (source, "a moon")], None, 5, 8)


def test_nothing_to_train_on_is_refused():
    with pytest.raises(ValueError, match="no image to train on"):
        RegionCodec.fitted([], None, 5, 8)


def test_build_makes_model_and_codec_of_one_size():
    settings = ModelSettings(
        "top-down", size="tiny", vocabulary=9, source_length=5, target_length=8, rule="dim:log(1.9)"
    )
    model, regions = build(settings, lambda: PAIRS, seed=1)
    assert model.config.vocab_size == len(regions.vocabulary) == 9
    assert (
        model.config.feature_size,
        regions.width,
        regions.max_regions,
        regions.target_length,
    ) == (4, 4, 5, 8)
    assert model.config.rule == "dim:log(1.9)"
    again, _ = build(settings, lambda: PAIRS, seed=1)
    assert all(
        torch.equal(a, b) for a, b in zip(model.parameters(), again.parameters(), strict=True)
    )


def test_a_folder_without_a_codec_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"has no regions\.json"):
        RegionCodec.from_pretrained(tmp_path)
    (tmp_path / "regions.json").write_text("{}")
    with pytest.raises(ValueError, match=r"has no vocabulary\.txt"):
        RegionCodec.from_pretrained(tmp_path)


def test_a_vocabulary_has_every_word_once(tmp_path):
    with pytest.raises(ValueError, match="is twice"):
        Vocabulary(["a", "a"])
    words = Vocabulary.counted(["b b a c c", "<s> a d"])
    assert words.words[4:] == ["a", "b", "c", "d"]
    words.save(tmp_path)
    assert Vocabulary.load(tmp_path).words == words.words
