"""The application of `bench faults`: an answer repeats its question, names its process and the age of its code."""

import os
import time

from pages import hello

LOADED = time.monotonic()


def application(environ, start_response):
    """At /ask: wait as many milliseconds as the question begins with; elsewhere a fixed answer."""
    if environ["PATH_INFO"] != "/ask":
        return hello(environ, start_response)
    question = environ["QUERY_STRING"]
    time.sleep(int(question.partition("-")[0]) / 1000)
    answer = f"{question} {os.getpid()} {LOADED}".encode()
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(answer)))])
    return [answer]
