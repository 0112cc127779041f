"""Texts in twelve scripts, mixed: where words and sentences stand, and that a repeated text is
counted as repeated."""

from pathlib import Path
from random import Random

from dwindle.data import script
from tests.scripts import TEXTS

CASES = 40


def trial(random: Random, folder: Path) -> int:
    for _ in range(CASES):
        chosen = random.choices(list(TEXTS), k=random.randint(1, 4))
        text = random.choice([" ", "\n", "  \n"]).join(TEXTS[name] for name in chosen)
        _spans(text, chosen)
        times = random.randint(2, 5)
        lines = "\n".join([text.replace("\n", " ")] * times)
        once = script.words(text)
        assert once, chosen
        assert script.words(lines) == once * times, f"{chosen}, {times} times: other words"
        assert len(script.sentences(lines)) == times, f"{chosen}: a line is a sentence"
    return 5 * CASES


def _spans(text: str, chosen: list[str]) -> None:
    """Sentences are the whole text, words follow each other in it; both are what the lists say."""
    sentences, words = script.sentence_spans(text), script.word_spans(text)
    ends = [0, *(last for _, last in sentences)]
    assert [first for first, _ in sentences] == ends[:-1], f"{chosen}: sentences with gaps"
    assert ends[-1] == len(text), f"{chosen}: the end is in no sentence"
    flat = [place for span in words for place in span]
    assert flat == sorted(flat), f"{chosen}: words overlap"
    assert [text[a:b].casefold() for a, b in words] == script.words(text), (
        f"{chosen}: other words than spans"
    )
