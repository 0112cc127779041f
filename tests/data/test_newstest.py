"""WMT's news tests by years."""

import pickle

import pytest

from dwindle.data.load import DataSettings, Size, load
from tests.data.corpus_files import write_lines


@pytest.fixture
def corpus(tmp_path):
    for year in range(2017, 2021):
        for side in ("zh", "en"):
            write_lines(
                tmp_path / f"newstest{year}.zh-en.{side}.gz",
                [f"{side} {year} {i}" for i in range(3)],
            )
    return DataSettings("newstest-zh-en", str(tmp_path))


def test_years_are_splits(corpus):
    assert [e.id for e in load(corpus, "train")] == [
        f"{y}-{i}" for y in (2017, 2018) for i in (1, 2, 3)
    ]
    (example,) = load(DataSettings("newstest-zh-en", corpus.path, Size(test=1)), "test")
    assert (example.id, example.source, example.target) == ("2020-1", "zh 2020 0", "en 2020 0")
    dev = load(corpus, "dev")
    assert list(pickle.loads(pickle.dumps(dev))) == list(dev)


def test_english_to_french(tmp_path):
    """The paper's own dev and test sets; four earlier years to tune on."""
    for year in range(2009, 2015):
        for side in ("en", "fr"):
            write_lines(
                tmp_path / f"newstest{year}.en-fr.{side}", [f"{side} {year} {i}" for i in range(2)]
            )
    settings = DataSettings("newstest-en-fr", str(tmp_path))
    assert [e.id for e in load(settings, "train")] == [
        f"{y}-{i}" for y in range(2009, 2013) for i in (1, 2)
    ]
    assert [e.id for e in load(settings, "dev")] == ["2013-1", "2013-2"]
    assert [(e.source, e.target) for e in load(settings, "test")] == [
        (f"en 2014 {i}", f"fr 2014 {i}") for i in (0, 1)
    ]


def test_what_is_wrong_is_one_sentence(corpus, tmp_path):
    write_lines(tmp_path / "newstest2020.zh-en.en.gz", ["one"])
    with pytest.raises(ValueError, match=r"has 3 lines, .* has 1: lines must correspond"):
        load(corpus, "test")
    write_lines(tmp_path / "newstest2019.zh-en.en.gz", ["one", "", "three"])
    with pytest.raises(
        ValueError, match=r"newstest2019.zh-en.zh.gz, line 2 has an empty source or reference"
    ):
        load(corpus, "dev")
    (tmp_path / "newstest2018.zh-en.zh.gz").unlink()
    with pytest.raises(
        ValueError, match=r"there is neither .*newstest2018.zh-en.zh nor newstest2018.zh-en.zh.gz"
    ):
        load(corpus, "train")
