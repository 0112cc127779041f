"""The folder of a run, where all rooms meet: files, names and formats. Knows no torch."""
