"""Outputs of the originals' own code for tiny models, and our imports and searches held against
them: see README.md."""
