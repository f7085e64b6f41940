"""Processes made in advance, so that the next version of the application answers sooner."""
