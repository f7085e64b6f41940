"""Processes that are started before a save, so that the next version of the application answers sooner."""
