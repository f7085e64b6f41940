"""The examples' pages by a handler of mod_python alone, without a dispatch table: the least that Apache needs."""

from types import SimpleNamespace

from dispatch_table import setreq
from heavy import heavy
from light import light
from mod_python import apache


def handler(req):
    written = []
    page = SimpleNamespace(write=written.append, log_error=req.log_error)
    setreq(page)
    (heavy if req.uri == "/heavy" else light)(page)
    req.content_type = page.content_type
    req.write("".join(written))
    return apache.OK
