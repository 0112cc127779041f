"""A page of one's own models: paste a text, pick rules and decoding, and watch the outputs as they are written."""
