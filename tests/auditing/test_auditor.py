"""The auditor of columns: the same findings as pair by pair, in ``datasets`` and by hand."""

import pickle
from dataclasses import replace

import datasets
import pytest

import dwindle
from dwindle.auditing.auditor import record_of
from tests.auditing import small
from tests.docs import pages

SHORT = {3: "ferry", 5: ""}
PAIRS = [(text, SHORT.get(n, text)) for n, text in enumerate(small.TEXTS[:12])]
COLUMNS = {
    "source": [source for source, _ in PAIRS],
    "hypothesis": [output for _, output in PAIRS],
    "n": list(range(12)),
}


@pytest.fixture(scope="module")
def listeners(model, tokenizer):
    return dwindle.listeners(model, tokenizer, small.TEXTS)


@pytest.fixture(scope="module")
def folder(model, tokenizer, listeners, tmp_path_factory):
    """The model saved, with its listeners beside it."""
    folder = tmp_path_factory.mktemp("model")
    copies = vars(model).pop("generate")  # cannot be saved
    model.save_pretrained(folder)
    model.generate = copies
    tokenizer.save_pretrained(folder)
    listeners.save(folder)
    return folder


def test_columns_are_added(model, tokenizer, listeners):
    expected = [
        record_of("", one, "characters")
        for one in dwindle.omissions(model, tokenizer, PAIRS, listeners, batch=4)
    ]
    found = dwindle.Auditor(model, listeners, tokenizer, batch=4, brief=False)(COLUMNS)
    assert list(found) == [
        "source",
        "hypothesis",
        "n",
        "score",
        "alarm",
        "spans",
        "unread",
        "chars",
    ]
    assert {name: found[name] for name in COLUMNS} == COLUMNS
    for name in ("score", "alarm", "spans", "chars"):
        assert found[name] == [record[name] for record in expected]
    assert [n for n, alarm in enumerate(found["alarm"]) if alarm] == [3, 5]
    assert found["unread"] == [None] * 12


def test_a_name_opens_the_model_at_the_first_call_and_stays_small_in_a_pickle(
    folder, listeners, model, tokenizer
):
    auditor = dwindle.Auditor(folder, batch=4)
    assert auditor.listeners == listeners
    before = pickle.dumps(auditor)
    assert auditor(COLUMNS) == dwindle.Auditor(model, listeners, tokenizer, batch=4)(COLUMNS)
    assert (
        len(pickle.dumps(auditor))
        == len(before)
        < 50_000
        < (folder / "model.safetensors").stat().st_size
    )
    assert pickle.loads(before)(COLUMNS) == auditor(COLUMNS)


def test_a_table_of_datasets(folder):
    """Also if no finding is in the first batch: without ``features``, the library would take the
    spans for nothing."""
    auditor = dwindle.Auditor(folder, batch=4, brief=False)
    table = datasets.Dataset.from_dict(COLUMNS)
    assert auditor({name: column[:3] for name, column in COLUMNS.items()})["spans"] == [[]] * 3
    found = table.map(auditor, batched=True, batch_size=3, features=auditor.features(table))
    expected = auditor(COLUMNS)
    assert [row["alarm"] for row in found] == expected["alarm"]
    assert found[3]["spans"] == expected["spans"][3]
    assert found[3]["score"] == pytest.approx(expected["score"][3], abs=2e-4)
    assert len(found[0]["chars"]) == len(COLUMNS["source"][0])


def test_repaired_texts(model, tokenizer, listeners):
    found = dwindle.Auditor(model, listeners, tokenizer, repair=True)(COLUMNS)
    assert found["repaired"][5].strip() == small.TEXTS[5]
    assert found["repaired"][0] is None
    with pytest.raises(ValueError, match="sounds cannot be repaired"):
        dwindle.Auditor(model, replace(listeners, unit="seconds"), tokenizer, repair=True)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"src": ["a"], "hypothesis": ["b"]}, "there is no column 'source'"),
        (
            {"source": ["a"], "hypothesis": ["b"], "score": [1]},
            "the column 'score' is there already: rename it",
        ),
        ({"source": ["a", "a"], "hypothesis": ["b", None]}, "row 1 of these columns has no text"),
        ({"source": [None], "hypothesis": ["b"]}, "row 0 of these columns has no text"),
    ],
)
def test_columns_that_cannot_be_audited(model, tokenizer, listeners, columns, sentence):
    with pytest.raises(ValueError, match=sentence):
        dwindle.Auditor(model, listeners, tokenizer)(columns)


def test_what_an_auditor_needs(model, tokenizer, listeners, tmp_path):
    with pytest.raises(ValueError, match="no listeners beside the model"):
        dwindle.Auditor(tmp_path)
    for given in ((model, listeners), ("a name", listeners, tokenizer)):
        with pytest.raises(
            ValueError, match="pass the name of a model, or a model and its tokenizer"
        ):
            dwindle.Auditor(*given)


def test_the_page_on_corpora(folder):
    where = repr(str(folder))
    pages.perform("docs/CORPORA.md", run=None, stand_ins={"MODEL": where, "LISTENERS": where})
