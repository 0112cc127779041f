"""The families of the paper: models of their own for those `transformers` lacks, presets for the
others. No corpora."""
