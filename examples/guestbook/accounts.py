"""Users and their passwords. `python3 accounts.py NAME` adds a user, or changes the password of one."""

import hashlib
import hmac
import os
import sys
from getpass import getpass

from storage import database


def digest(password, salt):
    """What is kept in place of the password. It takes a fifth of a second and 16 MB, so guessing is slow."""
    return hashlib.scrypt(password.encode(), salt=salt, n=2**14, r=8, p=5)


def add(name, password):
    salt = os.urandom(16)
    with database() as db:
        db.execute("INSERT OR REPLACE INTO users VALUES (?, ?, ?)", (name, salt, digest(password, salt)))


def is_right(name, password):
    with database() as db:
        found = db.execute("SELECT salt, password FROM users WHERE name = ?", (name,)).fetchone()
    salt, expected = found or (b"", b"")  # a name that is not there takes as long as one that is
    return hmac.compare_digest(digest(password, salt), expected)


if __name__ == "__main__":
    add(sys.argv[1], getpass(f"Password of {sys.argv[1]}: "))
