#!/bin/sh
# glibc 2.36 (Debian 12): a robust mutex that cannot be recovered is taken for one that is in use.
#
# A thread ends with the mutex, the next one is told so (EOWNERDEAD) and gives it back without having made its data
# consistent. Seen: pthread_mutex_trylock says ENOTRECOVERABLE once, and leaves the mutex locked: from then on each thread
# gets EBUSY. pthread_mutex_lock says ENOTRECOVERABLE each time, as it should. Expected: ENOTRECOVERABLE from both, always.
# POSIX.1-2008, pthread_mutex_lock: EBUSY is for a mutex that is locked, and a call that fails does not lock it; a mutex
# that cannot be recovered can only be destroyed.
. "$(dirname "$(realpath "$0")")/lib"
debian libc6=2.36-9+deb12u14
cat >trying.py <<'PY'
import ctypes
import threading
from errno import errorcode

libc = ctypes.CDLL(None)


def not_recoverable():
    mutex, attributes = ctypes.create_string_buffer(64), ctypes.create_string_buffer(16)
    libc.pthread_mutexattr_init(attributes)
    libc.pthread_mutexattr_setrobust(attributes, 1)
    libc.pthread_mutex_init(mutex, attributes)
    owner = threading.Thread(target=libc.pthread_mutex_lock, args=(mutex,))
    owner.start()
    owner.join()
    assert errorcode[libc.pthread_mutex_lock(mutex)] == "EOWNERDEAD"
    assert libc.pthread_mutex_unlock(mutex) == 0
    return mutex


for name in "pthread_mutex_lock", "pthread_mutex_trylock":
    mutex = not_recoverable()
    print(name, *(errorcode[getattr(libc, name)(mutex)] for _ in range(3)))
PY
libraries=$T/lib/x86_64-linux-gnu
seen=$(timeout 20 "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries:/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu" \
    /usr/bin/python3 trying.py 2>&1)
verdict "pthread_mutex_lock ENOTRECOVERABLE ENOTRECOVERABLE ENOTRECOVERABLE
pthread_mutex_trylock ENOTRECOVERABLE EBUSY EBUSY" "$seen"
