"""A page of one's own models: paste a text, pick rules and decoding, watch outputs grow."""
