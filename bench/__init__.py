"""The bench: what poorhttp costs beside the bare loop and its peers. See README.md in this directory."""
