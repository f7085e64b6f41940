#!/bin/sh
# falcon 4.4.0: in a form, a part whose header has no blank after the colon has no name, no file name and no type.
#
# Seen: "Content-Disposition:form-data; name=..." gives name None and filename None, without an error; with a blank
# both are there.
# Expected: the same for both. RFC 7578 section 4.2 uses the header fields of MIME, and RFC 5322 section 2.2 has a
# field as name, colon and body, the blank being part of the body that nothing demands.
. "$(dirname "$(realpath "$0")")/lib"
pypi falcon==4.4.0
cat >show.py <<'PY'
import io

from falcon.media import MultipartFormHandler

for blank in (b" ", b""):
    form = b'--x\r\nContent-Disposition:%sform-data; name="a"; filename="f.txt"\r\n\r\none\r\n--x--\r\n' % blank
    for part in MultipartFormHandler().deserialize(io.BytesIO(form), "multipart/form-data; boundary=x", len(form)):
        print(f"blank {blank!r}: name {part.name!r}, file {part.filename!r}, data {part.get_data()!r}")
PY
verdict "blank b' ': name 'a', file 'f.txt', data b'one'
blank b'': name None, file None, data b'one'" "$(python show.py 2>&1)"
