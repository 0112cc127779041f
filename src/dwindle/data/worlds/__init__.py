"""Synthetic data of which everything is known: what each source says, and so exactly what an output
leaves out, says again or makes up. No text of the world outside."""
