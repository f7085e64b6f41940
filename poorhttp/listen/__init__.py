"""Sockets and rights: binding, adopting and closing listening sockets, the user that serves, systemd."""
