"""The ``dwindle`` command, one file a verb. Verbs parse, call a room and print; none computes."""
