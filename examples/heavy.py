"""The same page with some work in it: regular expressions, digests, the interpreter's own facts."""

import os
import sys
from hashlib import md5, sha1
from time import strftime

from poorhttp import http

mails = [
    "example@example.com",
    "mail_test@example.com",
    "mail.test@example.com",
    "mail-test@example.com",
    "mail test@example.com",
    "mail0test@example.com",
    "mail.test0example.com",
    "mail-test-example-com",
    "mail.test&example.com",
    "mail.test^example.com",
    "mail$test@example.com",
    "mail.test@example#com",
    "mail.test*example.com",
    "mail.test(example)com",
    "mail[test@example]com",
]


def heavy(req):
    req.content_type = "text/html"
    html = [
        "<html>",
        " <head>",
        "  <title>Heavy version</title>",
        " </head>",
        " <body>",
        "  <h1>This is the heavy version of the test</h1>",
        "  <p>Hello robot, this page is the heavy version of the html content.",
        "   If you want to test the light version, try to get the",
        '   <a href="/light">/light</a> version of the page with some less',
        f"   code. Today is <code>{strftime('%Y-%m-%d')}</code> and it is",
        f"   <code>{strftime('%H:%M:%S')}</code> o'clock.",
        "  </p>",
    ]
    for line in html:
        req.write(line + "\n")

    req.write("  <h2>Mail test:</h2>\n")
    for mail in mails:
        result = "ok" if req.re_mail.match(mail) else "fail"
        req.write(f"  <code>{mail.replace('&', '&amp;')} - {result}</code><br>\n")

    now = strftime("%H:%M:%S").encode()
    html = [
        f"  <p>Python version: {sys.version}; System name: {os.name}",
        f"   md5: {md5(now, usedforsecurity=False).hexdigest()},",
        f"   sha1: {sha1(now, usedforsecurity=False).hexdigest()}</p>",
        f"  <pre>{sys.copyright}</pre>",
        "  Thanks for your test ;)",
        " </body>",
        "</html>",
    ]
    for line in html:
        req.write(line + "\n")

    return http.DONE
