#!/bin/sh
# Bottle 0.13.4 and CherryPy 18.10.0 (tools.staticdir with tools.etags): a browser keeps a page that was replaced by one
# with the same time, although the ETag tells the difference.
#
# A deployment replaces a file by a longer one with the same time of change, as reproducible images, Nix and `touch -d`
# in a build make them. The client sends both validators that it got, as each browser does. Seen: the new file has
# another ETag, and the answer is 304, by the time alone.
# Expected: 200 with the new page. RFC 9110 section 13.1.3: a recipient MUST ignore If-Modified-Since if the request
# contains an If-None-Match field. Werkzeug, aiohttp, Starlette and Tornado do.
. "$(dirname "$(realpath "$0")")/lib"
pypi bottle==0.13.4 CherryPy==18.10.0
mkdir www
cat >bottle_server.py <<'PY'
import os
from wsgiref.simple_server import make_server

import bottle

site = bottle.Bottle()
site.route("/<name>", callback=lambda name: bottle.static_file(name, "www"))
make_server("127.0.0.1", int(os.environ["PORT"]), site).serve_forever()
PY
cat >cherrypy_server.py <<'PY'
import os

import cherrypy

cherrypy.config.update({"server.socket_port": int(os.environ["PORT"]), "environment": "embedded"})
tools = {"staticdir.on": True, "staticdir.dir": os.path.abspath("www"), "etags.on": True, "etags.autotags": True}
cherrypy.quickstart(None, "/", {"/": {f"tools.{name}": value for name, value in tools.items()}})
PY
cat >ask.py <<'PY'
import http.client
import os
import sys


def put(text):
    with open("www/new", "w") as file:
        file.write(text)
    os.utime("www/new", (1, 1))
    os.replace("www/new", "www/page.html")


def get(**fields):
    connection = http.client.HTTPConnection("127.0.0.1", int(os.environ["PORT"]), timeout=10)
    connection.request("GET", "/page.html", headers={name.replace("_", "-"): value for name, value in fields.items()})
    answer = connection.getresponse()
    answer.read()
    return answer


put("old page")
old = get()
put("new and longer page")
new = get()
both = get(If_None_Match=old.headers["ETag"], If_Modified_Since=old.headers["Last-Modified"])
print(f"{sys.argv[1]}: another ETag: {new.headers['ETag'] != old.headers['ETag']}, with both validators: {both.status}")
PY
for name in bottle cherrypy; do
    serve "exec python ${name}_server.py"
    python ask.py $name >>seen 2>&1
done
verdict "bottle: another ETag: True, with both validators: 304
cherrypy: another ETag: True, with both validators: 304" "$(cat seen)"
