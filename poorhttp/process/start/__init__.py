"""A start: what `process.server` does step by step, and what of it can be tried without serving."""
