"""The pointer-generator (See et al., 2017), with a rule on its context or its own coverage."""
