"""Finds heads that tell what was read, and what an output left out. Knows models; draws nothing."""
