"""The human evaluation: sampling, pages, ballots, tally. Knows nothing of training."""
