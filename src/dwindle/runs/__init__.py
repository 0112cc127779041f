"""Recipes, the folder of a run, the steps from recipe to scores, and the arena. Knows no HTML."""
