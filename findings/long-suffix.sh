#!/bin/sh
# Werkzeug 3.1.9 (Flask's send_file), WebOb 1.8.11 and Express 5.3.0: a file that is shorter than the end of it that the
# client asks for cannot be read.
#
# Seen: "Range: bytes=-65536" of a file of 113 bytes gets 416. So the zip readers that begin with the last 64 KiB, as
# remotezip 0.12.6 does, open large archives on these servers and fail with small ones.
# Expected: 206 with the whole file, as nginx, Apache, Starlette and aiohttp send it. RFC 9110 section 14.1.2: if the
# selected representation is shorter than the specified suffix-length, the entire representation is used.
. "$(dirname "$(realpath "$0")")/lib"
pypi Flask==3.1.3 Werkzeug==3.1.9 WebOb==1.8.11 remotezip==0.12.6
npm_packages express@5.3.0
mkdir www
python -c 'import zipfile
for name, size in ("small", 5), ("large", 100_000):
    with zipfile.ZipFile(f"www/{name}.zip", "w") as archive:
        archive.writestr("a.txt", "x" * size)'
cat >wsgi.py <<'PY'
import os
import sys
from wsgiref.simple_server import make_server

from flask import Flask
from webob.static import DirectoryApp

flask = Flask("show", static_folder=os.path.abspath("www"), static_url_path="")
application = {"werkzeug": flask, "webob": DirectoryApp("www")}[sys.argv[1]]
make_server("127.0.0.1", int(os.environ["PORT"]), application).serve_forever()
PY
cat >express.js <<'JS'
const express = require("express");
const application = express();
application.use(express.static("www"));
application.listen(Number(process.env.PORT), "127.0.0.1");
JS
cat >read.py <<'PY'
import os
import sys

from remotezip import RemoteIOError, RemoteZip

for name in ("large", "small"):
    try:
        with RemoteZip(f"http://127.0.0.1:{os.environ['PORT']}/{name}.zip") as archive:
            seen = archive.namelist()
    except RemoteIOError as error:
        seen = str(error).partition(":")[0].lower()
    print(f"{sys.argv[1]}, {os.path.getsize(f'www/{name}.zip')} bytes: {seen}")
PY
for name in werkzeug webob express; do
    serve "exec $([ $name = express ] && echo node express.js || echo python wsgi.py $name)"
    python read.py $name >>seen 2>&1
done
verdict "werkzeug, 100108 bytes: ['a.txt']
werkzeug, 113 bytes: 416 client error
webob, 100108 bytes: ['a.txt']
webob, 113 bytes: 416 client error
express, 100108 bytes: ['a.txt']
express, 113 bytes: 416 client error" "$(cat seen)"
