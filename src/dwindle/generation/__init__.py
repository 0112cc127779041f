"""Decoding: additions to the library's beam search, and whole corpora. No training."""
