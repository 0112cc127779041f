"""The pointer-generator (See et al., 2017), with a rule on its context vector and with its own coverage mechanism."""
