"""Replacing running code: what one program hands to the next, and how that is tried before."""
