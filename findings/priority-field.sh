#!/bin/sh
# sfvparse 0.1.0: the Priority field that browsers send ("u=1, i") is refused, and a byte sequence is given back in
# base64.
#
# Seen: parse_dict("u=1, i") raises ValueError "expected '=' after dictionary key 'i'"; parse_item(":aGVsbG8=:"), the
# form of Content-Digest and of signatures, gives b'aGVsbG8=' as its bytes.
# Expected: {'u': 1, 'i': True} and b'hello'. RFC 8941 (and RFC 9651) section 3.2: a member whose value is the boolean
# true MUST be written without "="; section 4.2.7: parsing a byte sequence gives the result of decoding it.
. "$(dirname "$(realpath "$0")")/lib"
pypi sfvparse==0.1.0
cat >show.py <<'PY'
import sfvparse

try:
    print(sfvparse.parse_dict("u=1, i"))
except ValueError as error:
    print("refused:", str(error).split(" at ")[0])
print(sfvparse.parse_item(":aGVsbG8=:")["value"])
PY
verdict "refused: expected '=' after dictionary key 'i'
b'aGVsbG8='" "$(python show.py 2>&1)"
