"""The three questions, in one place for the pages, the Mechanical Turk template and the tally. Words of our own."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """``name`` is the field of a ballot, ``asked`` stands above the answers, ``meaning`` in the guidelines."""

    name: str
    title: str
    asked: str
    meaning: str


REPRESENTATIVENESS = Question(
    "representativeness",
    "Representativeness",
    "Which summary better tells what matters in the source?",
    "A representative summary holds the main points of the source and spends few words on anything else. "
    "Prefer the summary that misses less of what matters. Where both hold the same points, prefer the one that is "
    "briefer and does not repeat itself. The style of writing does not count here.",
)
READABILITY = Question(
    "readability",
    "Readability",
    "Which summary reads better?",
    "A readable summary is grammatical and hangs together: its sentences flow, follow from one another, do not "
    "contradict one another, and are understood at first reading. What it says about the source does not count here.",
)
FACTUALITY = Question(
    "factual",
    "Factual correctness",
    "Does the source support everything this summary says?",
    'Answer for each summary by itself. One wrong name, number or claim makes it "no". So does a claim that may be '
    "true but that the source does not support. Leaving something out is not an error here.",
)
COMPARED = (REPRESENTATIVENESS, READABILITY)
QUESTIONS = (*COMPARED, FACTUALITY)
