#!/usr/bin/env bash
# Try the README's install command in a Debian that is made from nothing, as root and as an ordinary user:
#
#     packaging/fresh-install.sh bookworm|trixie [tests]
#
# Needs root, debootstrap (apt-get install debootstrap), unshare, and a way to the package registries. With `tests` the
# second command of the README runs too. The system that is made is removed at the end, with all that runs in it.
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:?name a release: bookworm or trixie}
case $release in
    bookworm) rust='rustc-web cargo-web' ;;
    trixie) rust=cargo ;;
    *) echo "unknown release $release; expected bookworm or trixie" >&2; exit 2 ;;
esac
mirror=$(grep -rhoE '(^URIs: |^deb )https?://\S+/debian/?( |$)' /etc/apt/sources.list* | head -n 1 | grep -oE 'http\S+')
install=$(grep -m 1 '^    python3 -m venv .*poorhttp.ini$' README.md | sed 's/^ *//')
test=$(grep -m 1 '^    python3 -m venv .*pytest$' README.md | sed 's/^ *//')

root=$(mktemp -d)
chmod 755 "$root"  # it is the root of an ordinary user too
trap 'rm -rf --one-file-system "$root"' EXIT
debootstrap --variant=minbase "$release" "$root" "$mirror" >"$root/log" || { tail -n 20 "$root/log"; exit 1; }
# Names and certificates as this machine has them: it may stand behind a proxy.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
# shellcheck disable=SC2086 one word for each package
chroot "$root" apt-get install -qq -y --no-install-recommends python3-venv ca-certificates $rust >>"$root/log" 2>&1 \
    || { tail -n 20 "$root/log"; exit 1; }
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
chroot "$root" useradd --create-home somebody

# What runs inside, where README's first command serves until it is ended.
cat >"$root/answer.py" <<'PYTHON'
import os, subprocess, sys, time, urllib.request

server = subprocess.Popen(["sh", "-c", sys.argv[1]])
for _ in range(1200):
    try:
        with urllib.request.urlopen("http://127.0.0.1:8080/", timeout=5) as answer:
            print("answered:", answer.status, answer.headers["Server"], os.getuid())
            break
    except OSError:
        if server.poll() is not None:
            sys.exit(f"the command ended with {server.returncode}")
        time.sleep(0.5)
else:
    sys.exit("no answer within ten minutes")
PYTHON

# inside USER COMMAND...: in a process namespace of its own, so that nothing of it stays.
inside() {
    local user=$1 home
    shift
    home=$(chroot "$root" getent passwd "$user" | cut -d : -f 6)
    git clone --quiet . "$root$home/poorhttp"
    chroot "$root" chown -R "$user" "$home/poorhttp"
    # shellcheck disable=SC2016 the inner shell expands these
    unshare --mount --pid --fork --kill-child sh -euc '
        root=$1 user=$2 home=$3; shift 3
        mount -t proc proc "$root/proc"
        mount -t tmpfs tmpfs "$root/dev/shm"
        exec chroot --userspec="$user:" "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$home" USER="$user" \
            PIP_CERT=/etc/ssl/certs/ca-certificates.crt CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt \
            sh -euc "cd \"\$HOME/poorhttp\" && exec \"\$@\"" sh "$@"' sh "$root" "$user" "$home" "$@"
    rm -rf "$root$home/poorhttp"
}

for user in root somebody; do
    inside "$user" python3 /answer.py "$install"
done
if [ "${2:-}" = tests ]; then
    inside somebody sh -c "$test"
fi
echo "$release: as the README says"
