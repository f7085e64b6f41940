"""Writes what lies in `share/` of a system: the manual page of the command `poorhttp`, and its completion in shells.

Knows the settings, the commands and the tables of docs/running.md, from which all of it follows. The files that it has
written are in the repository beside it, in the folders that they get in an environment; setup.cfg puts them into the
wheel. `python -m share` writes them anew.
"""
