#!/bin/sh
# CherryPy 18.10.0 with tools.gzip: a client that takes another coding than gzip, but not gzip, gets 406 instead of the
# page.
#
# Seen: "Accept-Encoding: br", "zstd", "deflate" and "*" each get "406 Not Acceptable", with the message that neither
# identity nor gzip are acceptable. The same page without the tool, or without the field, is sent.
# Expected: 200 and the plain page (with "*" gzip too). RFC 9110 section 12.5.3: if the representation has no content
# coding, it is acceptable by default unless excluded by "identity;q=0", or by "*;q=0" without an entry for identity.
. "$(dirname "$(realpath "$0")")/lib"
pypi CherryPy==18.10.0
cat >server.py <<'PY'
import os

import cherrypy


class Site:
    @cherrypy.expose
    @cherrypy.tools.gzip()
    def page(self):
        return "page " * 200


cherrypy.config.update({"server.socket_port": int(os.environ["PORT"]), "environment": "embedded"})
cherrypy.quickstart(Site())
PY
serve 'exec python server.py'
seen=$(for accepted in "" gzip "gzip, br" br zstd deflate "*" "br, identity"; do
    echo "'$accepted': $(curl --silent --max-time 5 --output /dev/null --write-out '%{http_code}' \
        --header "Accept-Encoding: $accepted" "http://127.0.0.1:$PORT/page")"
done)
verdict "'': 200
'gzip': 200
'gzip, br': 200
'br': 406
'zstd': 406
'deflate': 406
'*': 406
'br, identity': 200" "$seen"
