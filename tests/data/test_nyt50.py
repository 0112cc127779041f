"""NYT50 from made files in the corpus's own format."""

import pytest

from dwindle.data import nyt50
from dwindle.data.load import DataSettings, Size, load
from tests.data.corpus_files import nitf, write_lines

LONG = "; ".join(f"sentence {i} of a summary that has plenty of words in it" for i in range(6))


def settings(path, **more):
    return DataSettings("nyt50", str(path), **more)


@pytest.fixture
def corpus(tmp_path):
    """Articles of five years in folders by date, as LDC2008T19 unpacks."""
    articles = {
        "1600001": (
            2004,
            ["It rained. Mr. Hu left &amp; slept.", "The end."],
            "Rain falls; Hu leaves; photos (M)",
        ),
        "1600002": (2005, ["Second."], LONG),
        "1600003": (2006, ["Third."], "Short one (S)"),
        "1600004": (2006, ["No summary."], "photo (M)"),
        "1500000": (2001, ["Too old."], LONG),
        "1815744": (2007, ["Test text. More text."], LONG + "; map; chart (L)"),
        "1815745": (2007, ["Test text."], "Too short (S)"),
    }
    for id, (year, paragraphs, abstract) in articles.items():
        folder = tmp_path / "data" / str(year) / "01" / "05"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{id}.xml").write_text(nitf(id, year, paragraphs, abstract), encoding="utf-8")
    return tmp_path


def test_an_article_and_its_cleaned_summary(corpus):
    article = next(corpus.rglob("1600001.xml"))
    assert nyt50.article(article) == (
        "It rained.\nMr. Hu left & slept.\nThe end.",
        "Rain falls\nHu leaves",
    )


@pytest.mark.parametrize(
    ("abstract", "cleaned"),
    [
        ("A rises; B falls (M)", "A rises\nB falls"),
        ("A rises; photo; map (S)", "A rises"),
        ("A takes photos; B falls; 2 photos, chart (L)", "A takes photos\nB falls"),
        ("Map of the world is sold", "Map of the world is sold"),
        ("A rises; drawing", "A rises"),
        ("Senator takes photos (S)", "Senator takes photos"),
        ("Recipe for soup; recipes", "Recipe for soup"),
    ],
)
def test_notes_after_a_summary_go(tmp_path, abstract, cleaned):
    (tmp_path / "1.xml").write_text(nitf("1", 2004, ["x"], abstract))
    assert nyt50.article(tmp_path / "1.xml")[1] == cleaned


def test_the_split_by_years(corpus, monkeypatch):
    monkeypatch.setattr(nyt50, "DEV", 1)
    ids = {
        split: [e.id for e in load(settings(corpus), split)] for split in ("train", "dev", "test")
    }
    assert ids == {"train": ["1600001", "1600002"], "dev": ["1600003"], "test": ["1815744"]}


def test_folders_of_other_years_are_not_read(corpus, monkeypatch):
    monkeypatch.setattr(nyt50, "DEV", 1)
    next(corpus.rglob("1500000.xml")).write_text("broken, but of 2001")
    assert [e.id for e in load(settings(corpus), "dev")] == ["1600003"]


def test_lists_of_ids_decide(corpus):
    write_lines(corpus / "train.txt", ["1600002", "1600001.xml"])
    write_lines(corpus / "acl2016_eval.txt", ["1815745"])
    assert [e.id for e in load(settings(corpus), "train")] == ["1600002", "1600001"]
    assert [e.id for e in load(settings(corpus, size=Size(train=1)), "train")] == ["1600002"]
    assert [e.id for e in load(settings(corpus), "test")] == ["1815745"]


def test_bad_lists_and_files_are_sentences(corpus):
    write_lines(corpus / "test.txt", ["1815744", "999"])
    with pytest.raises(
        ValueError, match=r"names 1 articles that are not there, such as 999: NYT50 is licensed"
    ):
        load(settings(corpus), "test")
    write_lines(corpus / "test.txt", ["1815744", "1815744"])
    with pytest.raises(ValueError, match="names 1815744 twice"):
        load(settings(corpus), "test")
    write_lines(corpus / "test.txt", ["1815744"])
    next(corpus.rglob("1815744.xml")).write_text("<nitf><body>")
    with pytest.raises(
        ValueError, match=r"1815744\.xml is not a NITF file .*: unpack the corpus again"
    ):
        load(settings(corpus), "test")


def test_how_to_get_it(tmp_path):
    with pytest.raises(ValueError, match="nyt50 needs a path: NYT50 is licensed: get LDC2008T19"):
        load(DataSettings("nyt50"), "train")
    with pytest.raises(ValueError, match=r"has no \.xml file: NYT50 is licensed"):
        load(settings(tmp_path), "train")
    (tmp_path / "1.xml").write_text(nitf("1", 1999, ["x"], "y"))
    with pytest.raises(ValueError, match="no article of 2007 is left for the test split"):
        load(settings(tmp_path), "test")
