#!/bin/sh
# redis-py 8.1.0 with Redis 7.0.15: with socket_timeout set and all else by default, a command that Redis executes late
# is sent again, so that it takes effect twice, and the caller gets the answer to the second.
#
# While a script keeps Redis busy for 1.8 s (as KEYS, a save or a slow disk do), a client with socket_timeout=0.5 sends
# one command. Seen, without any error: INCR counts 2; RPUSH stores the mail twice; LPOP takes two jobs and gives the
# second, the first is lost; SET NX says None, "another has it", though this caller has set it: the lock is held, and
# no one knows. Redis executes what it reads from the abandoned connection.
# Expected: TimeoutError, as with redis-py 5.3.1: whether the command was executed is unknown then, and only the caller
# knows whether it may be repeated. Since 6.0.0 Redis() has three retries by default, for time-outs too.
. "$(dirname "$(realpath "$0")")/lib"
pypi redis==8.1.0
debian redis-tools=5:7.0.15-1~deb12u10 redis-server=5:7.0.15-1~deb12u10
serve 'exec usr/bin/redis-server --port $PORT --bind 127.0.0.1 --save ""'
cat >show.py <<'PY'
import os
import threading
import time

import redis

PORT = int(os.environ["PORT"])
BUSY = """
local first = redis.call('TIME')
repeat local now = redis.call('TIME') until (now[1] - first[1]) * 1000000 + now[2] - first[2] > 1800000
"""
calm = redis.Redis(port=PORT, decode_responses=True)
client = redis.Redis(port=PORT, socket_timeout=0.5, decode_responses=True)
client.ping()


def show(name, command, state):
    busy = threading.Thread(target=lambda: calm.eval(BUSY, 0))
    busy.start()
    time.sleep(0.1)
    result = command()
    busy.join()
    time.sleep(0.2)
    print(f"{name} -> {result!r}; afterwards {state()!r}")


calm.rpush("jobs", "one", "two", "three")
show("INCR visits", lambda: client.incr("visits"), lambda: calm.get("visits"))
show("RPUSH mails welcome", lambda: client.rpush("mails", "welcome"), lambda: calm.lrange("mails", 0, -1))
show("LPOP jobs", lambda: client.lpop("jobs"), lambda: calm.lrange("jobs", 0, -1))
show("SET lock me NX", lambda: client.set("lock", "me", nx=True), lambda: calm.get("lock"))
PY
verdict "INCR visits -> 2; afterwards '2'
RPUSH mails welcome -> 2; afterwards ['welcome', 'welcome']
LPOP jobs -> 'two'; afterwards ['three']
SET lock me NX -> None; afterwards 'me'" "$(python show.py 2>&1)"
