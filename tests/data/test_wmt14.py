"""WMT14 from line-aligned files and from the hub's form."""

import pytest

from dwindle.data.load import DataSettings, load
from tests.data.corpus_files import write_lines

ENGLISH = ["The house is small.", "Two dogs."]
GERMAN = ["Das Haus ist klein.", "Zwei Hunde."]


def texts(examples):
    return [(e.id, e.source, e.target) for e in examples]


EXPECTED = [("1", ENGLISH[0], GERMAN[0]), ("2", ENGLISH[1], GERMAN[1])]


@pytest.mark.parametrize(
    ("split", "name"),
    [
        ("train", "train"),
        ("dev", "newstest2013"),
        ("test", "newstest2014"),
        ("dev", "valid"),
        ("test", "test"),
    ],
)
def test_line_aligned_files_by_their_usual_names(tmp_path, split, name):
    write_lines(tmp_path / f"{name}.en.gz", ENGLISH)
    write_lines(tmp_path / f"{name}.de", GERMAN)
    assert texts(load(DataSettings("wmt14-en-de", str(tmp_path)), split)) == EXPECTED
    turned = DataSettings("wmt14-en-de", str(tmp_path), source="de", target="en")
    assert texts(load(turned, split)) == [(id, de, en) for id, en, de in EXPECTED]


def test_the_hubs_form(tmp_path, monkeypatch):
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    datasets.disable_progress_bars()
    rows = [{"translation": {"de": de, "en": en}} for en, de in zip(ENGLISH, GERMAN, strict=True)]
    # Other pairs lie beside, as in the hub's repository.
    for pair, names in (
        ("de-en", ("train-00000-of-00001", "validation-00000-of-00001")),
        ("cs-en", ("train-0",)),
    ):
        (tmp_path / "copy" / pair).mkdir(parents=True)
        for name in names:
            content = rows if pair == "de-en" else [{"translation": {"cs": "x", "en": "y"}}]
            datasets.Dataset.from_list(content).to_parquet(
                tmp_path / "copy" / pair / f"{name}.parquet"
            )
    settings = DataSettings("wmt14-en-de", str(tmp_path / "copy"), moses=True)
    assert load(settings, "dev")[0].target == "Das Haus ist klein ."
    assert texts(load(DataSettings("wmt14-en-de", str(tmp_path / "copy")), "train")) == EXPECTED
    with pytest.raises(ValueError, match="the column 'translation' has no 'fr' inside"):
        load(DataSettings("wmt14-en-fr", str(tmp_path / "copy" / "de-en")), "train")


def test_other_languages_are_refused(tmp_path):
    with pytest.raises(ValueError, match="wmt14-en-fr has en and fr, not en and de"):
        load(DataSettings("wmt14-en-fr", str(tmp_path), target="de"), "train")
    with pytest.raises(ValueError, match=r"has no train file that ends in \.en"):
        load(DataSettings("wmt14-en-fr", str(tmp_path)), "train")
