"""Run a command that serves on 127.0.0.1:8080, and end it when each of these paths has been answered with 200.

python3 answers.py 'poorhttp examples' / /light /heavy
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request

MINUTES = 20  # of compiling, perhaps under emulation


def answer(path: str, server: subprocess.Popen[bytes], end: float) -> str:
    """The status, the server and the size of the body. Ends with a message if the command has ended, or is late."""
    while time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:8080{path}", timeout=60) as answered:
                return f"{answered.status} {answered.headers['Server']}, {len(answered.read()):,} bytes"
        except ConnectionRefusedError:
            pass
        except OSError as error:
            if not isinstance(getattr(error, "reason", None), ConnectionRefusedError):
                sys.exit(f"{path}: {error}")
        if server.poll() is not None:
            sys.exit(f"the command ended with {server.returncode} before it answered {path}")
        time.sleep(0.5)
    sys.exit(f"no answer to {path} within {MINUTES} minutes")


def main(command: str, *paths: str) -> None:
    server = subprocess.Popen(["sh", "-c", command], start_new_session=True)
    end = time.monotonic() + 60 * MINUTES
    for path in paths:
        print(f"user {os.getuid()}, {command.split('&&')[-1].strip()}: {path} {answer(path, server, end)}", flush=True)
    os.killpg(server.pid, signal.SIGTERM)
    server.wait(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
