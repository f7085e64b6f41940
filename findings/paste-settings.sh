#!/bin/sh
# pyruvate 1.6.1 under PasteDeploy 3.1.0: `async_logging = True` in the ini file turns asynchronous logging off and
# `async_logging = False` turns it on; `chunked_transfer = true` is taken for false.
#
# Seen: what pyruvate's entry point for PasteDeploy hands to its serve(): the opposite of the file for the first, and
# False for every spelling but "True" for the second.
# Expected: what the file says. PasteDeploy's converter asbool takes true, yes, on, 1 (and False for their opposites)
# in any case; pyruvate's README gives both settings as booleans under "[server:main]".
. "$(dirname "$(realpath "$0")")/lib"
pypi pyruvate==1.6.1 PasteDeploy==3.1.0
cat >show.py <<'PY'
import pyruvate
from paste.deploy import loadserver

seen = {}
pyruvate.serve = lambda app, socket, workers, **settings: seen.update(settings)
for value in ("True", "true", "False", "false"):
    with open("site.ini", "w") as file:
        file.write(
            "[server:main]\nuse = egg:pyruvate#main\nsocket = 127.0.0.1:0\nworkers = 1\n"
            f"async_logging = {value}\nchunked_transfer = {value}\n"
        )
    loadserver("config:site.ini", relative_to=".")(None)
    print(f"{value}: async_logging={seen['async_logging']} chunked_transfer={seen['chunked_transfer']}")
PY
verdict "True: async_logging=False chunked_transfer=True
true: async_logging=False chunked_transfer=False
False: async_logging=True chunked_transfer=False
false: async_logging=False chunked_transfer=False" "$(python show.py 2>&1)"
