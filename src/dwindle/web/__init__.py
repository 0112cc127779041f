"""A small server for pages on this machine: address, bounds, tokens, headers. Knows no page."""
