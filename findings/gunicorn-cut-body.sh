#!/bin/sh
# gunicorn 27.0.1: an application gets the beginning of a body that broke off as the whole body.
#
# A client announces 100 bytes of a form, sends "amount=12", and its connection ends, as that of a phone in a tunnel.
# Seen: `wsgi.input.read()` returns b"amount=12" without an error, for the sync and the gthread worker, and Flask, which
# trusts gunicorn's `wsgi.input_terminated`, has amount '12' in request.form. waitress does not call the application; uWSGI
# raises OSError in `read()`.
# Expected: no body, or an error. RFC 9112 section 6.3, rule 6: if the sender closes the connection before the indicated
# number of octets are received, the recipient must consider the message to be incomplete.
. "$(dirname "$(realpath "$0")")/lib"
pypi gunicorn==27.0.1 Flask==3.1.3
cat >app.py <<'PY'
from flask import Flask, request

application = Flask(__name__)


@application.post("/pay")
def pay():
    print("PAID", request.form.to_dict(), "of", request.content_length, "bytes", flush=True)
    return "paid\n"
PY
for worker in sync gthread; do
    serve "exec python -m gunicorn --bind 127.0.0.1:\$PORT --worker-class $worker --no-control-socket app"
    http 'POST /pay HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\namount=12' half >"answer.$worker"
    sleep 0.3
    grep ^PAID server.log >"paid.$worker"
done
verdict "sync: HTTP/1.1 200 OK, PAID {'amount': '12'} of 100 bytes
gthread: HTTP/1.1 200 OK, PAID {'amount': '12'} of 100 bytes" "$(for worker in sync gthread; do
    echo "$worker: $(sed -n 1p answer.$worker), $(cat paid.$worker)"
done)"
