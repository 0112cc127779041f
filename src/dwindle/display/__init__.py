"""Shows results in a notebook: HTML, data frames, axes. Knows nothing of what they are about."""
