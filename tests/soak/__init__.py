"""The soak: random trials for minutes, each with a seed that repeats it. ``make soak``, or
``python -m tests.soak``.

A trial draws its case from ``random.Random``, compares with a slow or untouched twin and returns
how many checks it made. What the tests hold for chosen cases, trials look for in all others.
"""
