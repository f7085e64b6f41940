"""A Django application with its admin: one query in sqlite, a template of 20 rows."""

import os
import sqlite3
import tempfile
from pathlib import Path

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.shortcuts import render
from django.urls import path

HERE = Path(__file__).resolve().parent
DATABASE = HERE.parent / "build" / "django.sqlite3"


def make_database():
    """One table of the admin's, with 20 rows; replaced as a whole, since another process may be reading it."""
    DATABASE.parent.mkdir(exist_ok=True)
    handle, name = tempfile.mkstemp(dir=DATABASE.parent)
    os.close(handle)
    with sqlite3.connect(name) as database:
        database.execute("CREATE TABLE auth_group (id INTEGER PRIMARY KEY, name TEXT)")
        database.executemany("INSERT INTO auth_group VALUES (?, ?)", [(n, f"row <{n}>") for n in range(20)])
    database.close()
    os.replace(name, DATABASE)


make_database()
settings.configure(
    ALLOWED_HOSTS=["127.0.0.1"],
    SECRET_KEY="of the bench",
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=[f"django.contrib.{name}" for name in ("admin", "auth", "contenttypes", "sessions", "messages")],
    MIDDLEWARE=[
        "django.middleware.security.SecurityMiddleware",
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.common.CommonMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
            "DIRS": [HERE / "templates"],
            "APP_DIRS": True,
            "OPTIONS": {
                "context_processors": [
                    "django.template.context_processors.request",
                    "django.contrib.auth.context_processors.auth",
                    "django.contrib.messages.context_processors.messages",
                ]
            },
        }
    ],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": DATABASE}},
    STATIC_URL="static/",
)
application = get_wsgi_application()

from django.contrib import admin  # noqa: E402 - both need the applications that are loaded above
from django.contrib.auth.models import Group  # noqa: E402


def rows(request):
    return render(request, "django.html", {"rows": Group.objects.order_by("id")})


urlpatterns = [path("admin/", admin.site.urls), path("", rows, name="rows")]
