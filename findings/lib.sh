# What every finding shares: a temporary folder that goes at the end with its processes, public packages installed into
# it, a program on a free port of the loopback, raw HTTP, and the verdict. Sourced by the scripts beside it.
#
# Exit status of a finding: 0 the behaviour is as stated, 1 it changed, 2 the software could not be installed or
# started.

set -u
T=$(mktemp -d)
started=
finish() {
    for pid in $started; do
        kill -- "-$pid" 2>/dev/null || kill "$pid" 2>/dev/null
    done
    [ -z "$started" ] || sleep 0.3
    for pid in $started; do
        kill -9 -- "-$pid" 2>/dev/null
    done
    rm -rf "$T"
}
trap finish EXIT
trap 'exit 2' INT TERM
cd "$T" || exit 2

unavailable() {
    echo "could not try it: $1"
    exit 2
}

# pypi NAME==VERSION...: into a new environment; afterwards `python` is that environment's.
pypi() {
    "${PYTHON:-python3}" -m venv venv >venv.log 2>&1 || unavailable "no environment for packages"
    PATH=$T/venv/bin:$PATH
    timeout 300 python -m pip install --quiet --disable-pip-version-check "$@" >>venv.log 2>&1 ||
        unavailable "pip could not install $*"
    echo "installed: $*"
}

# npm_packages NAME@VERSION...: into ./node_modules.
npm_packages() {
    command -v npm >/dev/null || unavailable "no npm"
    timeout 300 npm install --silent --no-audit --no-fund --prefix . "$@" >npm.log 2>&1 ||
        unavailable "npm could not install $*"
    echo "installed: $*"
}

# serve COMMAND...: starts it with PORT set to a free port, and waits up to 20 s until it takes connections.
serve() {
    PORT=$(python3 -c 'import socket; s = socket.create_server(("127.0.0.1", 0)); print(s.getsockname()[1])')
    export PORT
    PYTHONPATH=$T setsid sh -c "$*" >"server.log" 2>&1 </dev/null &
    started="$started $!"
    for _ in $(seq 100); do
        python3 -c 'import os, socket; socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 1)' 2>/dev/null && return
        sleep 0.2
    done
    tail -3 server.log
    unavailable "the server did not take connections"
}

# http TEXT [half]: sends TEXT (with \r\n as in printf) in one write, with `half` ends the client's direction after it,
# and prints the whole answer up to the end of the connection, at most 5 s; line ends are shown as plain ones.
http() {
    printf "$1" | python3 -c '
import os, socket, sys
s = socket.create_connection(("127.0.0.1", int(os.environ["PORT"])), 5)
s.sendall(sys.stdin.buffer.read())
if "half" in sys.argv:
    s.shutdown(socket.SHUT_WR)
s.settimeout(5)
answer = b""
try:
    while piece := s.recv(65536):
        answer += piece
except OSError as end:
    answer += b"\n[no end: %s]" % str(end).encode()
print(answer.decode("latin-1").replace("\r\n", "\n"))
' "${2:-whole}"
}

# verdict EXPECTED SEEN: prints what was seen, compares, and ends the script.
verdict() {
    printf 'seen:\n%s\n' "$2"
    if [ "$1" = "$2" ]; then
        echo "as stated"
        exit 0
    fi
    printf 'CHANGED, stated was:\n%s\n' "$1"
    exit 1
}
