"""The core: concave functions, coverage, rules, attention, proofs. No models, no files."""
