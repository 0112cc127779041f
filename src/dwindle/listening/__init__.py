"""Which heads tell what was read, and what an output left out. Knows models and sources; draws nothing."""
