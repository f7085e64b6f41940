"""1 KB of JSON, made anew for each request."""

import json

ROWS = [{"id": number, "name": f"row {number}", "price": number * 1.5, "tags": ["new", "\u017elu\u0165"]}
        for number in range(13)]  # fmt: skip


def application(environ, start_response):
    body = json.dumps({"path": environ["PATH_INFO"], "rows": ROWS}).encode()
    start_response("200 OK", [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
    return [body]
