"""Errors, as a browser or a terminal shows them."""
