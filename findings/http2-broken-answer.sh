#!/bin/sh
# HAProxy 2.6.12 and lighttpd 1.4.69 (mod_proxy): to a client of HTTP/2 an answer that the server behind them breaks off
# is a whole one.
#
# The server answers in the chunked coding, sends the chunk "first" and ends the connection before the last chunk, with
# FIN or with a reset. Seen: both proxies end the stream with END_STREAM, so curl over HTTP/2 prints "first" and
# reports success; lighttpd does so for each value of `server.stream-response-body`. To a client of HTTP/1.1 HAProxy
# shows the break (curl's status 18), and so does lighttpd with 1 and 2.
# Expected: RST_STREAM, as nginx 1.22.1 sends it (curl's status 92). RFC 9112 section 8: a body in the chunked coding
# is incomplete unless the zero-sized chunk was received; RFC 9113 section 8.1: END_STREAM says that the response is
# complete.
. "$(dirname "$(realpath "$0")")/lib"
curl --version 2>/dev/null | grep -q HTTP2 || unavailable "no curl with HTTP/2"
debian lighttpd=1.4.69-1 haproxy=2.6.12-1+deb12u4
serve_broken
lighttpd_before "$PORT"
cat >haproxy.cfg <<CFG
defaults
    mode http
    timeout connect 5s
    timeout client 10s
    timeout server 10s
listen front
    bind "127.0.0.1:\${PORT}"
    server broken 127.0.0.1:$PORT
CFG
fetch() {
    body=$(curl --silent "$1" --max-time 10 "http://127.0.0.1:$PORT/$2")
    echo "$2 $1: '$body', curl's status $?"
}
serve 'exec usr/sbin/haproxy -f haproxy.cfg'
seen=$(for end in fin reset; do
    fetch --http1.1 "haproxy/$end"
    fetch --http2-prior-knowledge "haproxy/$end"
done)
serve 'exec usr/sbin/lighttpd -D -m usr/lib/lighttpd -f lighttpd.conf'
verdict "haproxy/fin --http1.1: 'first', curl's status 18
haproxy/fin --http2-prior-knowledge: 'first', curl's status 0
haproxy/reset --http1.1: 'first', curl's status 18
haproxy/reset --http2-prior-knowledge: 'first', curl's status 0
0/fin --http2-prior-knowledge: 'first', curl's status 0
0/reset --http2-prior-knowledge: 'first', curl's status 0
1/fin --http2-prior-knowledge: 'first', curl's status 0
1/reset --http2-prior-knowledge: 'first', curl's status 0
2/fin --http2-prior-knowledge: 'first', curl's status 0
2/reset --http2-prior-knowledge: 'first', curl's status 0" "$seen
$(for mode in 0 1 2; do
    fetch --http2-prior-knowledge "$mode/fin"
    fetch --http2-prior-knowledge "$mode/reset"
done)"
