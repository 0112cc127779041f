"""Metrics on texts in twelve scripts: a text against itself, a text three times over, and what
peers give."""

import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

import dwindle
from dwindle.data import script
from dwindle.metrics import catalogue
from dwindle.runfiles.outputs import Item, outputs
from tests.scripts import TEXTS, UNMARKED, UNSPACED

# F1 of ROUGE-1, -2, -L by rouge-score 0.1.2, RougeScorer([...], tokenizer=T) where T.tokenize is
# `script.words`: of half of a text and again a third of it, against the whole. By its own tokens,
# ASCII only, the package gives 0 for any of these texts against itself.
PEER = {
    "Cyrillic": (50.0000, 45.4545, 50.0000),
    "Greek": (52.1739, 47.6190, 52.1739),
    "Arabic": (47.6190, 42.1053, 47.6190),
    "Hebrew": (52.1739, 47.6190, 52.1739),
    "Devanagari": (59.2593, 48.0000, 59.2593),
    "Tamil": (55.5556, 50.0000, 55.5556),
    "Hangul": (55.5556, 50.0000, 55.5556),
    "Han": (61.1111, 52.9412, 61.1111),
    "Japanese": (65.4545, 56.6038, 65.4545),
    "Khmer": (56.7164, 49.2308, 56.7164),
    "Thai": (57.5000, 48.7179, 55.0000),
}


@pytest.mark.parametrize("name", TEXTS)
def test_a_text_against_itself_and_thrice(name):
    text = TEXTS[name]
    same = dwindle.evaluate([text], [text], [text])
    assert [same[m].value for m in ("rouge1", "rouge2", "rougeL", "novelty1", "copied-share")] == [
        100,
        100,
        100,
        0,
        100,
    ]
    assert same["length"].value == len(script.words(text))
    thrice = dwindle.evaluate([3 * text], [text], [text])
    assert thrice["rouge1"].value == pytest.approx(50)
    assert thrice["repetition1"].value >= 66
    assert thrice["repetition3"].value > 60
    if name in UNMARKED:
        assert "sentences" not in thrice
        assert "layout1" not in thrice
    else:
        assert same["sentences"].value == 3
        assert same["layout1"].value == 100


@pytest.mark.parametrize("name", PEER)
def test_rouge_by_a_peer(name):
    reference = TEXTS[name]
    hypothesis = reference[: len(reference) // 2] + reference[: len(reference) // 3]
    ours = dwindle.evaluate([hypothesis], [reference], metrics="rouge")
    assert [score.value for score in ours.values()] == pytest.approx(PEER[name], abs=2e-3)
    with pytest.raises(
        ValueError, match="in another script: take rouge1, which counts the words of any script"
    ):
        dwindle.evaluate([hypothesis], [reference], metrics="rouge:rouge-score")


@pytest.mark.parametrize("name", TEXTS)
def test_bleu_and_chrf_by_their_peer(name):
    reference = TEXTS[name]
    hypothesis = reference[: -len(reference) // 4]
    for option, tokens in (("bleu:char", "char"), ("bleu:zh", "zh"), ("bleu", "13a")):
        if option == "bleu" and name in UNSPACED:
            with pytest.raises(
                ValueError, match=r"needs spaces between words.*take bleu:zh for Chinese"
            ):
                dwindle.evaluate([hypothesis], [reference], metrics=option)
            continue
        (ours,) = dwindle.evaluate([hypothesis], [reference], metrics=option).values()
        assert ours.value == pytest.approx(
            BLEU(tokenize=tokens).corpus_score([hypothesis], [[reference]]).score
        )
    (ours,) = dwindle.evaluate([hypothesis], [reference], metrics="chrf").values()
    assert ours.value == pytest.approx(CHRF().corpus_score([hypothesis], [[reference]]).score)


def test_tokenised_chinese_is_scored_as_it_is():
    text = "星期一 下 了 大雨 。 河水 上涨 了 两 米 。"
    (ours,) = dwindle.evaluate([text], [text], metrics="bleu:none").values()
    assert ours.value == pytest.approx(100)


def test_a_few_words_of_another_script_change_nothing_in_english():
    """The published setting: ROUGE-1.5.5 does not see them."""
    plain = "Beijing was told of the storm by officials"
    with_name = plain.replace("Beijing", "Beijing (北京)")
    one, two = (
        dwindle.evaluate([plain], [text], metrics="rouge")["rouge1"] for text in (plain, with_name)
    )
    assert one.value == two.value == 100


def test_signatures_say_so():
    names = [
        "rouge",
        "rouge:script",
        "repetition",
        "novelty",
        "copied",
        "layout",
        "length",
        "cider",
        "cider:spaces",
    ]
    found = {m.name: dict(m.signature.settings).get("scripts") for m in catalogue.find(names)}
    assert {name for name, setting in found.items() if setting is None} == {
        *("rouge1:script", "rouge2:script", "rougeL:script", "cider:spaces")
    }
    assert set(found.values()) == {None, "own-words"}


def test_thai_sentences_are_refused_by_name_and_left_out_of_the_defaults():
    text = 3 * TEXTS["Thai"]
    system = outputs("thai", [Item("1", text, (text,), text)])
    assert "sentences" not in [metric.name for metric in catalogue.defaults(system)]
    with pytest.raises(
        ValueError, match="a script that does not mark it: put each sentence on a line"
    ):
        dwindle.evaluate([text], [text], metrics="sentences")
    lines = text.replace(" ", "\n")
    assert dwindle.evaluate([lines], [lines], metrics="sentences")["sentences"].value == 7
