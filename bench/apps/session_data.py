"""What the sessions of the bench hold besides a user and a number: random letters, always the same."""

import random


def text(kilobytes):
    """So many KB, of which a byte holds less than five bits."""
    return bytes(97 + byte % 26 for byte in random.Random(kilobytes).randbytes(kilobytes << 10)).decode()
