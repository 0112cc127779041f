"""Words and sentences of any script."""

import re
from pathlib import Path

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

from dwindle.data import script
from dwindle.data.script import sentences
from tests.scripts import TEXTS, UNMARKED, UNSPACED


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        (
            "Mr. Smith met Dr. J. K. Low in the U.S. Army.",
            ["Mr. Smith met Dr. J. K. Low in the U.S. Army."],
        ),
        (
            'It cost $3.5 million. "Too much," he said.',
            ["It cost $3.5 million.", '"Too much," he said.'],
        ),
        ('He said "no." Then he left.', ['He said "no."', "Then he left."]),
        ("one two . three four ! five", ["one two .", "three four !", "five"]),
        ("`` go . '' he left . '", ["`` go . ''", "he left . '"]),
        ("first line\nsecond. Third.\n\n", ["first line", "second. Third."]),
        ("no end", ["no end"]),
        ("Dr.", ["Dr."]),
        ("", []),
        (" \n ", []),
    ],
)
def test_examples(text, parts):
    assert sentences(text) == parts


def test_nothing_is_lost():
    text = "A. b. C d! E (f.) G 'h.' I . J . K"
    assert "".join("".join(sentences(text)).split()) == "".join(text.split())


@pytest.mark.parametrize("name", TEXTS)
def test_twelve_scripts(name):
    text = TEXTS[name]
    found = script.words(text)
    if name in UNSPACED:
        # Characters: the peer is the grapheme clusters of Unicode's own algorithm, which join a few
        # letters more.
        graphemes = [g for g in regex.findall(r"\X", text) if regex.search(r"\w", g)]
        assert len(graphemes) <= len(found) <= 1.2 * len(graphemes)
        assert "".join(found) == "".join(regex.findall(r"[\w\p{M}]", text))
    else:
        assert found == [part.strip(".।").casefold() for part in text.split()]
    assert [text[a:b].casefold() for a, b in script.word_spans(text)] == found
    assert len(script.sentences(text)) == (1 if name in UNMARKED else 3)
    assert "".join(text[a:b] for a, b in script.sentence_spans(text)) == text
    assert script.is_latin(text) == (name == "Latin")
    assert script.has_spaces([text]) == (name not in UNSPACED)
    assert script.has_sentences([3 * text]) == (name not in UNMARKED)


def test_chinese_words_are_those_of_sacrebleu():
    """Its tokenizer ``zh``, without punctuation."""
    text = TEXTS["Han"] + "他买了iPhone 15，花了3000元！"
    peer = [token.casefold() for token in TokenizerZh()(text).split() if token.isalnum()]
    assert script.words(text) == peer


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("cafe\u0301 CAFÉ", ["cafe\u0301", "café"]),  # a mark is part of its word, composed or not
        ("می‌خواهم", ["می‌خواهم"]),  # so is the joiner inside a Persian word
        ("ガ ｶﾞ 人々", ["ガ", "ｶ", "ﾞ", "人", "々"]),
        ("東京2020で", ["東", "京", "2020", "で"]),
        ("snake_case don't", ["snake_case", "don", "t"]),
        ("", []),
        ("…！？", []),
    ],
)
def test_words(text, words):
    assert script.words(text) == words


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("「何？」と言った。彼は笑った。", ["「何？」と言った。", "彼は笑った。"]),
        ("他说：“走吧。”她笑了!真的", ["他说：“走吧。”", "她笑了!", "真的"]),
        ("我 来 了 。 他 走 了 。", ["我 来 了 。", "他 走 了 。"]),
        ("价格是3.5元。约３．５米。", ["价格是3.5元。", "约３．５米。"]),
        ("هل جاء؟ نعم.", ["هل جاء؟", "نعم."]),
        (
            "Er kam. Ärger gab es. Il vint. Émile aussi.",
            ["Er kam.", "Ärger gab es.", "Il vint.", "Émile aussi."],
        ),
        ("一行目。二行目。\n三行目。", ["一行目。二行目。", "三行目。"]),
    ],
)
def test_ends_of_other_scripts(text, parts):
    assert script.sentences(text) == parts


@given(st.text(st.sampled_from("ab .!?\n\t\"'漢か。！」ภ้นกAÉи।1"), max_size=50))
def test_spans_are_the_text_and_words_do_not_cross_them(text):
    spans = script.sentence_spans(text)
    assert "".join(text[a:b] for a, b in spans) == (text if text.strip() else "")
    assert all(text[a:b].strip() for a, b in spans)
    assert sum(len(script.word_spans(text[a:b])) for a, b in spans) >= len(script.word_spans(text))
    for a, b in script.word_spans(text):
        assert all(script.within_word(text, k) for k in range(a + 1, b))
        assert not script.within_word(text, a)


def test_one_owner():
    """No other module has a pattern for words or the marks that end sentences: they ask this
    one."""
    home = Path(script.__file__).parents[1]
    known = {
        "data/script.py",
        "data/features.py",
        "data/worlds/newsroom_words.py",
        "report/scatter.py",
    }
    known |= {"bench/compiled.py"}  # labels of assembly, not words of a text
    found = {
        str(file.relative_to(home))
        for file in home.rglob("*.py")
        if re.search(r"\\w\+|\[\.!\?\]|。", file.read_text(encoding="utf-8"))
    }
    assert found <= known
