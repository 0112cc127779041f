"""Measurements of what a rule costs on this machine: the commands behind ``dwindle bench``."""
