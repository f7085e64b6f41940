"""The application under test: answers with what it saw of a request, so that a misreading shows.

Plain PEP 3333; imports nothing of a server. Text is latin-1: a character is a byte.
"""

import json


def application(environ, start_response):
    body = environ["wsgi.input"].read()
    seen = {
        "method": environ["REQUEST_METHOD"],
        "path": environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""),
        "query": environ.get("QUERY_STRING", ""),
        "fields": {name: environ[name] for name in environ if name.startswith("HTTP_") or name == "CONTENT_TYPE"},
        "body": body.decode("latin-1"),
    }
    answer = json.dumps(seen).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(answer)))])
    return [] if seen["method"] == "HEAD" else [answer]
