"""One module a corpus, and the worlds: synthetic data of which everything is known. Knows no model."""
