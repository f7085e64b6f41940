"""The article's pages as bare WSGI functions: the same functions as in the examples, which write into a list."""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))

import heavy as heavy_page
import light as light_page


class Page(list):
    """What the pages need of a request."""

    write = list.append
    re_mail = re.compile(r"^[a-z0-9\-_.]+@[a-z0-9\-_.]+$")


def light(environ, start_response):
    return answer(light_page.light, start_response)


def heavy(environ, start_response):
    return answer(heavy_page.heavy, start_response)


def answer(write, start_response):
    page = Page()
    write(page)
    body = "".join(page).encode()
    start_response(
        "200 OK", [("Content-Type", f"{page.content_type}; charset=utf-8"), ("Content-Length", str(len(body)))]
    )
    return [body]
