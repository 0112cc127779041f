"""The machine that runs dwindle: its hardware and software, the launched processes, the user's
cache. No torch."""
