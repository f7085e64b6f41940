#!/bin/sh
# pyruvate 1.6.1 and freastal 0.0.3 (WSGI): close() of the application's iterable is never called.
#
# Seen: after 20 complete answers the application counts 0 calls of close(). Django ends its request there (the signal
# request_finished, which gives database connections back).
# Expected: 20. PEP 3333, "Specification Details": if the iterable has a close() method, the server MUST call it when
# the request is complete, however it ended.
. "$(dirname "$(realpath "$0")")/lib"
pypi pyruvate==1.6.1 freastal==0.0.3
cat >app.py <<'PY'
closed = 0


class Answer:
    def __init__(self):
        self.parts = [b"ok\n"]

    def __iter__(self):
        return self

    def __next__(self):
        if not self.parts:
            raise StopIteration
        return self.parts.pop()

    def close(self):
        global closed
        closed += 1


def application(environ, start_response):
    if environ["PATH_INFO"] == "/count":
        body = [f"closed {closed} of 20".encode()]
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(body[0])))])
        return body
    start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", "3")])
    return Answer()
PY
count() {
    for _ in $(seq 20); do http 'GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' | tail -2 >>answers; done
    [ "$(grep -c ok answers)" = 20 ] || unavailable "not every request was answered"
    rm answers
    http 'GET /count HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n' | tail -1
}
serve 'python -c "import os, app, pyruvate; pyruvate.serve(app.application, \"127.0.0.1:\" + os.environ[\"PORT\"], 1)"'
seen="pyruvate $(count)"
serve 'python -c "import os, app, freastal; freastal.serve(app.application, \"127.0.0.1\", int(os.environ[\"PORT\"]))"'
seen="$seen
freastal $(count)"
verdict "pyruvate closed 0 of 20
freastal closed 0 of 20" "$seen"
