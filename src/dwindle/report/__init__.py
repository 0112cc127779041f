"""Tables and figures, made from data that other rooms computed."""
