"""The kinds of stores, one module each; `poorhttp.sessions.addresses` knows when which is imported."""
