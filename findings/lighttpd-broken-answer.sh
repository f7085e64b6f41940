#!/bin/sh
# lighttpd 1.4.69 (mod_proxy, its default settings): an answer that its server breaks off reaches the client as a whole
# one.
#
# The server behind lighttpd answers in the chunked coding, sends the chunk "first" and ends the connection before the
# last chunk, with FIN or with a reset. Seen with `server.stream-response-body = 0`, the default: "Content-Length: 5"
# and "first" for both endings, so curl over HTTP/1.1 reports success. With 1 and 2 the client gets a chunked answer
# without its last chunk, and curl reports that the transfer was cut (status 18). That needs a head that went out
# before the end came: when all of it arrived at once, 1 gave the whole answer too, and so did 2 for a reset.
# Expected: status 502, or an answer that is visibly incomplete. RFC 9112 section 8: a body in the chunked coding is
# incomplete unless the zero-sized chunk was received. With 0 lighttpd knows this before it sends anything.
. "$(dirname "$(realpath "$0")")/lib"
command -v curl >/dev/null || unavailable "no curl"
debian lighttpd=1.4.69-1
serve_broken
lighttpd_before "$PORT"
serve 'exec usr/sbin/lighttpd -D -m usr/lib/lighttpd -f lighttpd.conf'
fetch() {
    body=$(curl --silent --http1.1 --max-time 10 --dump-header head "http://127.0.0.1:$PORT/$1")
    echo "$1: '$body', curl's status $?, $(tr -d '\r' <head | grep -i -e '^Content-Length' -e '^Transfer-Encoding')"
}
verdict "0/fin: 'first', curl's status 0, Content-Length: 5
0/reset: 'first', curl's status 0, Content-Length: 5
1/fin: 'first', curl's status 18, Transfer-Encoding: chunked
1/reset: 'first', curl's status 18, Transfer-Encoding: chunked
2/fin: 'first', curl's status 18, Transfer-Encoding: chunked
2/reset: 'first', curl's status 18, Transfer-Encoding: chunked" "$(for mode in 0 1 2; do
    fetch "$mode/fin"
    fetch "$mode/reset"
done)"
