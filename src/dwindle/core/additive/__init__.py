"""Additive attention (Bahdanau et al., 2015): a query looks at a source through v . tanh(k_i + q +
w c_i)."""
