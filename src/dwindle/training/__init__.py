"""Training: the library's ``Seq2SeqTrainer``, set up from settings. Knows models and examples,
nothing of recipes."""
