#!/bin/sh
# httpdex-cookies 0.1.0: a cookie that the server deletes by an Expires in the past is kept and sent again.
#
# Seen: after "sid=1" and then "sid=; Expires=Thu, 01 Jan 1970 00:00:00 GMT" the store sends "sid="; the attribute is
# not read at all. With Max-Age=0 the cookie goes.
# Expected: no cookie. RFC 6265 section 5.2.1 (Expires) and 5.3, step 3: without Max-Age the expiry time is that of
# Expires; section 3.1 shows this very way for a server to remove a cookie, and most frameworks use it.
. "$(dirname "$(realpath "$0")")/lib"
pypi httpdex-cookies==0.1.0
cat >show.py <<'PY'
from httpdex_cookies import CookieStore

URL = "https://site.example/"
for attribute in ("Expires=Thu, 01 Jan 1970 00:00:00 GMT", "Max-Age=0"):
    store = CookieStore()
    for field in ("sid=1; Path=/", f"sid=; Path=/; {attribute}"):
        store.extract_cookies(URL, [("Set-Cookie", field)])
    print(f"{attribute}: {store.get_cookie_header(URL)!r}")
PY
verdict "Expires=Thu, 01 Jan 1970 00:00:00 GMT: 'sid='
Max-Age=0: None" "$(python show.py 2>&1)"
