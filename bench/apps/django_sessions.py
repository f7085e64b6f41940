"""A small Django site whose page reads a session, or reads and changes it, or has none.

The environment tells which, and where sessions are kept:
    ENGINE       none, db, cache, file or signed_cookies
    STORE        the URL of PostgreSQL or Redis, or a directory
    KEPT         1: a process keeps its connection to PostgreSQL; else it opens one for each request
    SYNCHRONOUS  off: a commit of PostgreSQL does not wait for the disk
    SIZE         KB of each session, of which the page without session tells too
"""

import hashlib
import json
import os
import random
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.shortcuts import render
from django.urls import path

ENGINE, STORE = os.environ["ENGINE"], os.environ.get("STORE", "")
PER_KB = 16  # things in a basket, as an item of them takes 64 bytes of JSON
USER = "somebody@example.com"
ROWS = [{"article": 1000 + number, "name": f"thing <{number}>", "price": number * 1.25} for number in range(20)]
LETTERS = bytes(97 + number % 26 for number in range(256))


def database():
    """The setting of the database that a URL `postgresql://user@/name?host=DIRECTORY&port=NUMBER` means."""
    found = urlsplit(STORE)
    asked = parse_qs(found.query)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": found.path.lstrip("/"),
        "USER": found.username,
        "HOST": asked["host"][0],
        "PORT": asked["port"][0],
        "CONN_MAX_AGE": 60 if os.environ.get("KEPT") == "1" else 0,
        "OPTIONS": {"options": f"-c synchronous_commit={os.environ.get('SYNCHRONOUS', 'on')}"},
    }


settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    SECRET_KEY="of the bench, for its own eyes only",
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["django.contrib.sessions"] if ENGINE == "db" else [],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        *(["django.contrib.sessions.middleware.SessionMiddleware"] if ENGINE != "none" else []),
        "django.middleware.common.CommonMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "DIRS": [Path(__file__).resolve().parent / "templates"],
        }
    ],
    DATABASES={"default": database()} if ENGINE == "db" else {},
    CACHES={"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": STORE}}
    if ENGINE == "cache"
    else {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}},
    SESSION_ENGINE=f"django.contrib.sessions.backends.{ENGINE}",
    SESSION_FILE_PATH=STORE if ENGINE == "file" else None,
    LOGGING={
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {"stderr": {"class": "logging.StreamHandler"}},
        "root": {"handlers": ["stderr"], "level": "ERROR"},
    },
)
application = get_wsgi_application()


def content(number):
    """The session of this number: its basket has SIZE KB as JSON."""
    chance, count = random.Random(number), PER_KB * int(os.environ["SIZE"])
    letters = chance.randbytes(25 * count).translate(LETTERS).decode()
    items = [
        {"article": 100_000 + place * 7919 % 900_000, "name": letters[25 * place :][:25], "count": 1 + place % 9}
        for place in range(count)
    ]
    return {"number": number, "user": USER, "visits": 0, "token": "", "items": items}


def shown(user, count):
    """What the template is given."""
    return {"user": user, "count": count, "rows": ROWS}


def digest(items):
    return hashlib.sha256(json.dumps(items, separators=(",", ":")).encode()).hexdigest()


def none(request):
    return render(request, "sessions.html", shown(USER, PER_KB * int(os.environ["SIZE"])))


def read(request):
    session = request.session
    return render(request, "sessions.html", shown(session.get("user", "nobody"), len(session.get("items", ()))))


def write(request):
    request.session["visits"] += 1
    return read(request)


def put(request):
    """Keep what the client says."""
    request.session["token"] = request.GET["token"]
    return JsonResponse({})


def check(request):
    """The session without its basket, of which only a digest is told."""
    session = request.session
    told = {name: session.get(name) for name in ("number", "visits", "token")}
    return JsonResponse({**told, "digest": digest(session.get("items"))})


def visits(request):
    return JsonResponse({"visits": request.session.get("visits")})


urlpatterns = [path(view.__name__, view) for view in (none, read, write, put, check, visits)]
