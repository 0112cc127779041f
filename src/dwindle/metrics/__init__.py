"""Strings in, `Score(value, signature)` out, and significance. Knows no model and no run."""
