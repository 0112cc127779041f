"""The human evaluation: sampling, pages, ballots, tally. Reads ``outputs.jsonl``; knows nothing of training."""
