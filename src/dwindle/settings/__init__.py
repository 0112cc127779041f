"""Facts about settings that every room's settings classes share."""
