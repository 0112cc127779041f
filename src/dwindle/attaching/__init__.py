"""Puts a rule into a `transformers` model: its cross-attention, its cache, its config. No training, no data."""
