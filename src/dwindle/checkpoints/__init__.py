"""Published checkpoints of other projects, opened as they are. One file a format; ``opening.py``
has the table."""
