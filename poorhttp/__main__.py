"""`python -m poorhttp` is the command `poorhttp`."""

from poorhttp.cli import entry

if __name__ == "__main__":
    entry()
