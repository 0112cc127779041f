"""The folder of a run, through which all rooms meet: its files, their names and formats. Knows no torch."""
