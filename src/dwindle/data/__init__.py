"""One module a corpus, and the worlds: synthetic data whose facts are known. Knows no model."""
