"""Suites that others wrote for HTTP/1.1, fed to poorhttp and to its peers: see CONTRIBUTING.md."""
