#!/bin/sh
# lighttpd 1.4.69: `server.max-request-field-size` above 65535 is accepted, but has no effect beyond that.
#
# Seen: with 131072 `lighttpd -tt` reports nothing, and a request head of 60 kB is served. One of 70 kB, which the
# setting allows, is answered "400 Bad Request", and the error log has no line about it (with the default settings for
# the log). With 65535 the same head is answered 431, and the log tells why.
# Expected: 200, or an error from `lighttpd -tt`. RFC 9110 section 15.5.1: 400 is for what seems to be an error of the
# client; RFC 6585 section 5: 431 is the status for header fields that are too large.
. "$(dirname "$(realpath "$0")")/lib"
command -v curl >/dev/null || unavailable "no curl"
debian lighttpd=1.4.69-1
echo hello >page.txt
fetch() {
    python3 -c 'print("Cookie: c=" + "x" * (1000 * int("'"$2"'")))' >field
    echo "$1: head of $2 kB: $(curl --silent --max-time 10 --output /dev/null --write-out '%{http_code}' \
        --header @field "http://127.0.0.1:$PORT/page.txt")"
}
with() {
    cat >"lighttpd-$1.conf" <<CONF
server.document-root = "$T"
server.bind = "127.0.0.1"
server.port = env.PORT
server.errorlog = "$T/error-$1.log"
server.max-request-field-size = $1
CONF
    test=$(PORT=1 usr/sbin/lighttpd -tt -m usr/lib/lighttpd -f "lighttpd-$1.conf" 2>&1)
    seen="$seen$1: lighttpd -tt: status $? '$test'
"
    serve "exec usr/sbin/lighttpd -D -m usr/lib/lighttpd -f lighttpd-$1.conf"
    seen="$seen$(fetch "$1" 60)
$(fetch "$1" 70)
$1: lines about it in the error log: $(grep -c 'request' "error-$1.log")
"
}
seen=
with 65535
with 131072
verdict "65535: lighttpd -tt: status 0 ''
65535: head of 60 kB: 200
65535: head of 70 kB: 431
65535: lines about it in the error log: 1
131072: lighttpd -tt: status 0 ''
131072: head of 60 kB: 200
131072: head of 70 kB: 400
131072: lines about it in the error log: 0
" "$seen"
