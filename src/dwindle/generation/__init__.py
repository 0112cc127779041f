"""Decoding: what the paper and its rivals add to the library's beam search, and whole corpora. No training."""
