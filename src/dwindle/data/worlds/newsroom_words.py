"""The words of the synthetic world ``newsroom``: its verbs, things and forms of a sentence. No
chance in here.

A form is a sentence with places for ``{who}``, ``{verb}`` and ``{thing}``. Every verb is its own
participle, so each goes into each form.
"""

import re

# Four verbs for one action. Articles use all; a summary that puts it in its own words has one of
# the first two.
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
mill bridge tower harbour bakery ferry chapel museum garden theatre station library stadium castle
brewery lighthouse orchard quarry hotel barn school market fountain statue tunnel palace dairy
cinema forge stable cottage windmill academy temple warehouse airfield vineyard monument pavilion
foundry cellar workshop kiosk carriage sailboat tram balloon telescope
"""
NOUNS = tuple(_NOUNS.split())
_ADJECTIVES = """
old new red white tall wooden golden broken famous royal hidden northern southern narrow quiet
crooked marble haunted green rusty floating secret modern humble striped sunken glass ancient
leaning silver lonely round
"""
ADJECTIVES = tuple(_ADJECTIVES.split())
_MOODS = "sad proud strange happy shameful glorious awful bright dreadful fine odd cheerful"
MOODS = tuple(_MOODS.split())
VOCABULARY = frozenset((*NOUNS, *ADJECTIVES, *MOODS, *ACTION_OF))

# How a fact is told, for the first time or again. What happened long ago is told without a day,
# with OLD around it.
TELLINGS = (
    "{who} has {verb} {thing}",
    "{thing} was {verb} by {who}",
    "{thing} had been {verb} by {who}",
    "it was {who} who {verb} {thing}",
    "officials said that {who} {verb} {thing}",
    "witnesses saw that {who} {verb} {thing}",
)
NEWS = (
    *TELLINGS,
    "{who} {verb} {thing} today",
    "{who} {verb} {thing} on monday",
    "{thing} was {verb} by {who} on friday",
    "this week {who} {verb} {thing}",
)
BACKGROUND = ("years ago {0}", "formerly {0}", "{0} years ago", "{0} decades earlier")
OLD = frozenset({"ago", "formerly", "earlier"})
"""One of these is in every form of BACKGROUND."""
QUOTES = (
    "`` what a {mood} day for {thing} '' said {who}",
    "`` {thing} is a {mood} place '' said {who}",
    "{who} said `` it is a {mood} time ''",
)
SUMMARY = ("{who} {verb} {thing}", "{thing} was {verb} by {who}")
BARE = "{who} {verb} {thing} says {first}"
"""Pattern of news that a summary copies: its first word is looked at twice."""
SAME_PERSON = "{verb} {thing}"
"""Words after "and" when one person made two pieces of news."""

_FORMS = (*NEWS, *BACKGROUND, *QUOTES, *SUMMARY, BARE)
FUNCTION = frozenset(re.sub(r"\{\w+\}", " ", " ".join(_FORMS)).split()) | {
    "the",
    "of",
    "and",
    ".",
    ",",
    "a",
}
"""Words that carry no fact."""
