#!/bin/sh
# httpcneg 0.1.0: best_match() chooses the media type that the client has refused with q=0, and the less wanted of two.
#
# Seen: for "text/html;q=0, */*" with the offers text/html and image/png it gives text/html; for "*/*;q=0.8,
# text/html;q=0.1" too: the range */* covers text/html, though the more specific range says otherwise.
# Expected: image/png for both. RFC 9110 section 12.5.1: the most specific range that matches a type decides its
# quality; section 12.4.2: a quality of 0 means "not acceptable".
. "$(dirname "$(realpath "$0")")/lib"
pypi httpcneg==0.1.0
cat >show.py <<'PY'
from httpcneg import best_match

for accept in ("text/html;q=0, */*", "*/*;q=0.8, text/html;q=0.1"):
    print(f"Accept: {accept} -> {best_match(accept, ['text/html', 'image/png'])}")
PY
verdict "Accept: text/html;q=0, */* -> text/html
Accept: */*;q=0.8, text/html;q=0.1 -> text/html" "$(python show.py 2>&1)"
