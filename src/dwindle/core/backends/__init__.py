"""The ways to compute ``dwindle.attention``: one module or folder each, all with the same
numbers."""
