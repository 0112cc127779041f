"""The words of the made world ``newsroom``: its verbs, things and forms of a sentence. No chance in here.

A form is a sentence with places for ``{full}`` (first and last name), ``{last}``, ``{verb}`` and ``{thing}``.
Every verb is its own participle, so each goes into each form.
"""

import re

# Four verbs for one action. Articles use all, summaries the first two.
_VERBS = """
bought acquired purchased obtained
sold auctioned offloaded traded
opened launched inaugurated unveiled
closed shut shuttered sealed
burned torched scorched ignited
repaired restored fixed mended
looted robbed plundered ransacked
found discovered located uncovered
lost misplaced forfeited mislaid
painted decorated coloured varnished
banned outlawed prohibited barred
praised lauded hailed applauded
visited toured inspected surveyed
built erected constructed assembled
damaged wrecked ruined battered
filmed photographed recorded captured
guarded protected defended shielded
donated bequeathed pledged surrendered
rented leased hired chartered
moved relocated shifted transported
"""
ACTIONS = {line.split()[0]: tuple(line.split()) for line in _VERBS.split("\n") if line}
"""An action is called by its first verb."""
ACTION_OF = {verb: action for action, verbs in ACTIONS.items() for verb in verbs}

_NOUNS = """
mill bridge tower harbour bakery ferry chapel museum garden theatre station library stadium castle brewery
lighthouse orchard quarry hotel barn school market fountain statue tunnel palace dairy cinema forge stable
cottage windmill academy temple warehouse airfield vineyard monument pavilion foundry cellar workshop kiosk
carriage sailboat tram balloon telescope
"""
NOUNS = tuple(_NOUNS.split())
_ADJECTIVES = """
old new red white tall wooden golden broken famous royal hidden northern southern narrow quiet crooked
marble haunted green rusty floating secret modern humble striped sunken glass ancient leaning silver
lonely round
"""
ADJECTIVES = tuple(_ADJECTIVES.split())
_MOODS = "sad proud strange happy shameful glorious awful bright dreadful fine odd cheerful"
MOODS = tuple(_MOODS.split())
VOCABULARY = frozenset((*NOUNS, *ADJECTIVES, *MOODS, *ACTION_OF))

# The first telling of news, its telling again, and what a summary says.
NEWS = (
    "{full} {verb} {thing} today",
    "{full} {verb} {thing} on monday",
    "{full} {verb} {thing} on friday",
    "{full} has {verb} {thing}",
    "{thing} was {verb} by {full}",
    "this week {thing} was {verb} by {full}",
    "it was {full} who {verb} {thing}",
    "officials said that {full} {verb} {thing}",
)
AGAIN = (
    "{thing} had been {verb} by {last}",
    "witnesses saw that {last} {verb} {thing}",
    "so {last} {verb} {thing}",
    "{last} it is said {verb} {thing}",
)
SUMMARY = ("{full} {verb} {thing}", "{thing} was {verb} by {full}")
SUMMARY_LATER = ("{last} {verb} {thing}", "{thing} was {verb} by {last}")
SAME_PERSON = "{verb} {thing}"
"""What follows "and" when one person made two pieces of news."""

# What happened long ago, and its telling again. One of OLD is in every form.
OLD = frozenset({"ago", "once", "earlier", "formerly"})
BACKGROUND = (
    "years ago {full} {verb} {thing}",
    "{thing} was once {verb} by {full}",
    "{full} had {verb} {thing} decades earlier",
    "formerly {full} {verb} {thing}",
)
BACKGROUND_AGAIN = ("long ago {thing} was {verb} by {last}", "{last} it is said once {verb} {thing}")
QUOTES = (
    "`` what a {mood} day for {thing} '' said {last}",
    "`` {thing} is a {mood} place '' said {last}",
    "{full} said `` it is a {mood} time ''",
)

_FORMS = (*NEWS, *AGAIN, *SUMMARY, *SUMMARY_LATER, *BACKGROUND, *BACKGROUND_AGAIN, *QUOTES)
FUNCTION = frozenset(re.sub(r"\{\w+\}", " ", " ".join(_FORMS)).split()) | {"the", "of", "and", ".", ",", "a"}
"""Words that carry no fact."""
