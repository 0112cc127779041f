"""Analyses of systems from their outputs and coverage.

Reads run folders and files, never loads a model.
"""
