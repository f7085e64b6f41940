"""A small page."""

from time import strftime

from poorhttp import http


def light(req):
    req.content_type = "text/html"
    html = [
        "<html>",
        " <head>",
        "  <title>Light version</title>",
        " </head>",
        " <body>",
        "  <h1>This is the light version of the test</h1>",
        "  <p>Hello robot, this page is the light version of the html content.",
        "   If you want to test the heavy version, try to get the",
        '   <a href="/heavy">/heavy</a> version of the page with some more',
        f"   code. Today is <code>{strftime('%Y-%m-%d')}</code> and it is",
        f"   <code>{strftime('%H:%M:%S')}</code> o'clock.",
        "  </p>",
        "  Thanks for your test ;)",
        " </body>",
        "</html>",
    ]

    for line in html:
        req.write(line + "\n")

    return http.DONE
