"""What outputs and coverage say about systems: reads run folders and files, never loads a model."""
