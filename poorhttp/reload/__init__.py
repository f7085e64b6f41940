"""Replacing running code: the handover from one program to the next, and the trial before it."""
