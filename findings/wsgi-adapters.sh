#!/bin/sh
# asgiref 3.13.0 (WsgiToAsgi), azure-functions 1.26.0 (WsgiMiddleware) and httpx 0.28.1 (WSGITransport): three adapters
# for WSGI applications leave out parts of PEP 3333.
#
# Seen: start_response() of asgiref and azure-functions returns None, so an application that uses write() fails with
# TypeError; that of httpx returns a function that drops what it gets: the page lacks its beginning, with status 200.
# close() of the answer is never called by asgiref and azure-functions: Django's request_finished does not come, files
# and database connections stay open. azure-functions has no third argument: an error page by exc_info is a TypeError.
# Expected: PEP 3333: start_response() must return a write(body_data) callable; takes an optional exc_info; and if the
# iterable has a close() method, the server must call it after the request. a2wsgi and WebTest do.
. "$(dirname "$(realpath "$0")")/lib"
pypi asgiref==3.13.0 azure-functions==1.26.0 httpx==0.28.1
cat >show.py <<'PY'
import asyncio
import sys

import azure.functions
import httpx
from asgiref.wsgi import WsgiToAsgi

closed = []


class Answer(list):
    def close(self):
        closed.append(True)


def application(environ, start_response):
    if environ["PATH_INFO"] == "/error":
        try:
            raise ValueError("the page failed")
        except ValueError:
            start_response("500 Internal Server Error", [("Content-Type", "text/plain")], sys.exc_info())
        return Answer([b"an error page"])
    write = start_response("200 OK", [("Content-Type", "text/plain")])
    if environ["PATH_INFO"] == "/write":
        write(b"written, ")
    return Answer([b"returned"])


def by_asgiref(path):
    async def ask():
        transport = httpx.ASGITransport(WsgiToAsgi(application))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
            return (await client.get(path)).text

    return asyncio.run(ask())


def by_azure(path):
    request = azure.functions.HttpRequest(method="GET", url="http://localhost" + path, body=b"")
    return azure.functions.WsgiMiddleware(application).handle(request).get_body().decode()


def by_httpx(path):
    transport = httpx.WSGITransport(application, raise_app_exceptions=False)
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        return client.get(path).text


for ask in (by_asgiref, by_azure, by_httpx):
    for path in ("/", "/write", "/error"):
        closed.clear()
        try:
            seen = ask(path)
        except TypeError:
            seen = "TypeError"
        print(f"{ask.__name__[3:]} {path}: {seen}; close() called: {bool(closed)}")
PY
verdict "asgiref /: returned; close() called: False
asgiref /write: TypeError; close() called: False
asgiref /error: an error page; close() called: False
azure /: returned; close() called: False
azure /write: TypeError; close() called: False
azure /error: TypeError; close() called: False
httpx /: returned; close() called: True
httpx /write: returned; close() called: True
httpx /error: an error page; close() called: True" "$(python show.py 2>&1)"
