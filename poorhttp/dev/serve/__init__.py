"""The server while you write: its supervisor, and the processes that load and serve the application."""
