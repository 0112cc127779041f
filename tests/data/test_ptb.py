"""Tokens of the Penn Treebank, by hand."""

import pytest

from dwindle.data import ptb
from dwindle.data.example import Example
from dwindle.data.finish import finish
from dwindle.data.settings import DataSettings


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (
            "\"We can't (really) say: 'no',\" he said.",
            "`` We ca n't ( really ) say : ' no ' , '' he said .",
        ),
        ("Mr. Smith's dog is in the U.S. at 8:01.", "Mr. Smith 's dog is in the U.S. at 8:01 ."),
        ("It cannot cost $1,000... or 3.5%?", "It can not cost $ 1,000 ... or 3.5 % ?"),
        (
            "The 42-year-old, I'm told, isn't O'Brien's.",
            "The 42-year-old , I 'm told , is n't O'Brien 's .",
        ),
        ('He said: "Go!"', "He said : `` Go ! ''"),
        ("it’s £5 [sic] and/or more", "it’s £5 [ sic ] and/or more"),
        ("‘No, it’s late,’ he said.", "‘ No , it’s late , ’ he said ."),
        ("He said: ‘We wait. It’s “over”.’", "He said : ‘ We wait. It’s “over” . ’"),
        ("The players’ ‘it’s over’ (“not yet”).", "The players’ ‘it’s over’ ( “ not yet” ) ."),
        (
            "A 'paw-fect' day for 'it’s', 'b***' and '92.",
            "A 'paw-fect ' day for 'it’s ' , 'b*** ' and '92 .",
        ),
        ("He 'can't' go, 'they're' told.", "He ' ca n't ' go , ' they 're ' told ."),
    ],
)
def test_by_hand(text, right):
    assert ptb.tokens(text) == right


def test_each_sentence_and_one_way_only():
    finished = finish(DataSettings("jsonl", ptb=True, lowercase=True))
    assert finished(Example("1", "Don't.\nGo.", ("It's me.",))).source == "do n't .\ngo ."
    with pytest.raises(ValueError, match="two ways to tokenise: give one of them"):
        DataSettings("jsonl", ptb=True, moses=True)
