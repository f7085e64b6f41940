#!/bin/sh
# Django 5.2.19, Starlette 1.10.0, Tornado 6.6.1 and Paste 3.10.1: a client that refuses gzip gets gzip.
#
# Seen: with "Accept-Encoding: gzip;q=0", and with "br, gzip;q=0, identity", their compression
# (GZipMiddleware, GZipMiddleware, compress_response, paste.gzipper) sends "Content-Encoding: gzip": each of them looks
# for the word gzip in the field.
# Expected: the plain answer. RFC 9110 section 12.4.2: a quality value of 0 means "not acceptable"; section 12.5.3: a
# coding is acceptable unless its qvalue is 0. A client that refuses it cannot decode it, or needs the plain bytes.
. "$(dirname "$(realpath "$0")")/lib"
pypi Django==5.2.19 starlette==1.10.0 httpx==0.28.1 tornado==6.6.1 Paste==3.10.1
cat >show.py <<'PY'
import asyncio
from wsgiref.util import setup_testing_defaults

import django
import httpx
import tornado.httpserver
import tornado.web
from django.conf import settings
from django.http import HttpResponse
from django.urls import path
from paste.gzipper import middleware
from starlette.applications import Starlette
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import PlainTextResponse
from starlette.routing import Route

TEXT = "plain text " * 200
settings.configure(ROOT_URLCONF=__name__, MIDDLEWARE=["django.middleware.gzip.GZipMiddleware"], ALLOWED_HOSTS=["*"])
django.setup()
urlpatterns = [path("", lambda request: HttpResponse(TEXT))]


def by_django(accepted):
    from django.test import Client

    return Client().get("/", headers={"accept-encoding": accepted}).headers.get("Content-Encoding")


def by_starlette(accepted):
    application = Starlette(routes=[Route("/", lambda request: PlainTextResponse(TEXT))])
    return asyncio.run(asked(httpx.ASGITransport(GZipMiddleware(application)), "http://localhost/", accepted))


async def asked(transport, url, accepted):
    async with httpx.AsyncClient(transport=transport) as client:
        return (await client.get(url, headers={"Accept-Encoding": accepted})).headers.get("Content-Encoding")


class Page(tornado.web.RequestHandler):
    def get(self):
        self.set_header("Content-Type", "text/plain")
        self.write(TEXT)


async def by_tornado_at_a_port(accepted):
    sockets = tornado.netutil.bind_sockets(0, "127.0.0.1")
    tornado.httpserver.HTTPServer(tornado.web.Application([("/", Page)], compress_response=True)).add_sockets(sockets)
    return await asked(None, f"http://127.0.0.1:{sockets[0].getsockname()[1]}/", accepted)


def by_tornado(accepted):
    return asyncio.run(by_tornado_at_a_port(accepted))


def by_paste(accepted):
    def application(environ, start_response):
        start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(len(TEXT)))])
        return [TEXT.encode()]

    fields = {}
    environ = {"HTTP_ACCEPT_ENCODING": accepted}
    setup_testing_defaults(environ)
    list(middleware(application)(environ, lambda status, headers, exc_info=None: fields.update(headers)))
    return httpx.Headers(fields).get("Content-Encoding")


for ask in (by_django, by_starlette, by_tornado, by_paste):
    codings = [ask(accepted) for accepted in ("identity", "gzip;q=0", "br, gzip;q=0, identity")]
    print(ask.__name__.removeprefix("by_"), *codings)
PY
verdict "django None gzip gzip
starlette None gzip gzip
tornado None gzip gzip
paste None gzip gzip" "$(python show.py 2>&1)"
