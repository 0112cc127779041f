"""One module a corpus, and the worlds: made data of which everything is known. Knows no model."""
