"""Work on whole corpora, cut into shards, in one process or on the workers of a cluster."""
