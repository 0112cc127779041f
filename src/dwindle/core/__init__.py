"""The core: concave functions, coverage, rules, attention, and proofs about them. No models, no files."""
