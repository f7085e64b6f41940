#!/bin/sh
# libmc 1.4.17 with memcached 1.6.18: an expiry of less than a second keeps the value for ever.
#
# Seen: set("half", "value", 0.5) returns True and sends the expiry 0. After 2.5 s the value is still there, while one
# with an expiry of 1 is gone; asked for the time left, memcached says -1, never.
# Expected: an error, or the next second. memcached's protocol.txt: 0 means that an item never expires; libmc's other
# types (timedelta, None) raise TypeError, and pymemcache and pylibmc refuse a float.
. "$(dirname "$(realpath "$0")")/lib"
pypi libmc==1.4.17
debian memcached=1.6.18-1+deb12u1
serve 'usr/bin/memcached -u nobody -l 127.0.0.1 -p $PORT'
cat >show.py <<'PY'
import os
import time

import libmc

client = libmc.Client(["127.0.0.1:" + os.environ["PORT"]])
print("set:", client.set("half", "value", 0.5), client.set("second", "value", 1))
time.sleep(2.5)
print("after 2.5 s: 0.5 s ->", client.get("half"), "/ 1 s ->", client.get("second"))
PY
seen=$(python show.py 2>&1)
ttl=$(printf 'mg half t\r\nquit\r\n' | python3 -c '
import os, socket, sys
s = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 5)
s.sendall(sys.stdin.buffer.read())
print(s.makefile().readline().strip())')
verdict "set: True True
after 2.5 s: 0.5 s -> value / 1 s -> None
HD t-1" "$seen
$ttl"
