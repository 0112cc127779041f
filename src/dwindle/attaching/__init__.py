"""Puts a rule into a `transformers` model: cross-attention, cache, config. No training, no data."""
