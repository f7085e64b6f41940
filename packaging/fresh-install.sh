#!/usr/bin/env bash
# Try an install in a Debian that is made from nothing, as root and as an ordinary user:
#
#     packaging/fresh-install.sh RELEASE                the README's first command: it installs, and serves
#     packaging/fresh-install.sh RELEASE tests          the second one too: it passes the tests
#     packaging/fresh-install.sh RELEASE wheel [ARCH]   a wheel of dist/, without a compiler; it serves in each type
#
# RELEASE: bookworm or trixie. ARCH: arm64 or armhf, under emulation (apt-get install qemu-user-static). Needs root,
# debootstrap, unshare, and a way to the package registries. All that is made is removed at the end.
set -euo pipefail
cd "$(dirname "$0")/.."

release=${1:?name a release: bookworm or trixie}
what=${2:-source}
arch=${3:-$(dpkg --print-architecture)}
case $release in
    bookworm) rust='rustc-web cargo-web' ;;
    trixie) rust=cargo ;;
    *) echo "unknown release $release; expected bookworm or trixie" >&2; exit 2 ;;
esac
[ "$what" != wheel ] || rust=
mirror=$(grep -rhoE '(^URIs: |^deb )https?://\S+/debian/?( |$)' /etc/apt/sources.list* | head -n 1 | grep -oE 'http\S+')
install=$(grep -m 1 '^    python3 -m venv .*poorhttp.ini$' README.md | sed 's/^ *//')
test=$(grep -m 1 '^    python3 -m venv .*pytest$' README.md | sed 's/^ *//')

root=$(mktemp -d)
trap 'rm -rf --one-file-system "$root"' EXIT
chmod 755 "$root"  # it is the root of an ordinary user too
logged() { "$@" >>"$root/log" 2>&1 || { tail -n 20 "$root/log" >&2; exit 1; }; }
if [ "$arch" = "$(dpkg --print-architecture)" ]; then
    logged debootstrap --variant=minbase "$release" "$root" "$mirror"
else
    logged debootstrap --variant=minbase --arch="$arch" --foreign "$release" "$root" "$mirror"
    logged chroot "$root" /debootstrap/debootstrap --second-stage
    echo "deb $mirror $release main" >"$root/etc/apt/sources.list"
fi
# Names and certificates as this machine has them: it may stand behind a proxy.
cp -L /etc/resolv.conf "$root/etc/resolv.conf"
logged chroot "$root" apt-get update -q
# shellcheck disable=SC2086 one word for each package
logged chroot "$root" apt-get install -q -y --no-install-recommends python3-venv ca-certificates $rust
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
logged chroot "$root" useradd --create-home somebody

# inside USER COMMAND...: in a clone, and in namespaces of its own, so that nothing of it stays.
inside() {
    local user=$1 home clone
    shift
    home=$(chroot "$root" getent passwd "$user" | cut -d : -f 6)
    clone=$root$home/poorhttp
    git clone --quiet . "$clone"
    [ "$what" != wheel ] || cp -r dist "$clone/"
    chroot "$root" chown -R "$user" "$home/poorhttp"
    # shellcheck disable=SC2016 the inner shells expand these
    unshare --mount --pid --fork --kill-child sh -euc '
        root=$1 user=$2 home=$3; shift 3
        mount -t proc proc "$root/proc"
        mount -t tmpfs tmpfs "$root/dev/shm"
        exec chroot --userspec="$user:" "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME="$home" USER="$user" \
            PIP_CERT=/etc/ssl/certs/ca-certificates.crt CARGO_HTTP_CAINFO=/etc/ssl/certs/ca-certificates.crt \
            sh -euc "cd \"\$HOME/poorhttp\" && exec \"\$@\"" sh "$@"' sh "$root" "$user" "$home" "$@"
    rm -rf "$clone"
}

for user in root somebody; do
    if [ "$what" = wheel ]; then
        inside "$user" sh -euc 'python3 -m venv .venv
            .venv/bin/pip install --quiet --no-index --find-links dist poorhttp
            for type in single forking threading; do
                python3 packaging/answers.py ".venv/bin/poorhttp examples --type $type" / /light /heavy
            done'
    else
        inside "$user" python3 packaging/answers.py "$install" /
    fi
done
[ "$what" != tests ] || inside somebody sh -c "$test"
echo "$release, $arch, $what: it works"
