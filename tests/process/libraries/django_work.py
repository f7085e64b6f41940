"""Django: the ORM on SQLite, templates, the admin."""

import os
from wsgiref.util import setup_testing_defaults

import django
from django.conf import settings

settings.configure(
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.path.abspath("django.sqlite3")}},
    INSTALLED_APPS=[f"django.contrib.{name}" for name in ("admin", "auth", "contenttypes", "sessions", "messages")],
    MIDDLEWARE=[
        "django.contrib.sessions.middleware.SessionMiddleware",
        "django.middleware.csrf.CsrfViewMiddleware",
        "django.contrib.auth.middleware.AuthenticationMiddleware",
        "django.contrib.messages.middleware.MessageMiddleware",
    ],
    TEMPLATES=[
        {
            "BACKEND": "django.template.backends.django.DjangoTemplates",
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
    ALLOWED_HOSTS=["127.0.0.1"],
    ROOT_URLCONF=__name__,
    SECRET_KEY="of the tests",
    USE_TZ=True,
)
django.setup()

from django.contrib import admin  # noqa: E402
from django.contrib.auth.models import User  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connections, transaction  # noqa: E402
from django.http import HttpResponse  # noqa: E402
from django.template import Context, Template  # noqa: E402
from django.urls import path  # noqa: E402

call_command("migrate", verbosity=0)
if not User.objects.exists():
    User.objects.bulk_create(User(username=f"user {number}", email=f"u{number}@host") for number in range(50))
connections.close_all()
TEMPLATE = Template("{% for user in users %}<li>{{ user.username }} {{ user.email|upper }}{% endfor %}")


def home(request):
    return HttpResponse(TEMPLATE.render(Context({"users": User.objects.order_by("-id")[:20]})))


def rows(request):
    number = int(request.GET["number"])
    with transaction.atomic():
        count = User.objects.filter(id__gt=number).exclude(username="user 3").count()
        names = list(User.objects.values_list("username", flat=True).order_by("id")[:3])
    return HttpResponse(f"{count} {names} {User(first_name='Ann').get_full_name()}")


urlpatterns = [path("", home), path("rows", rows), path("admin/", admin.site.urls)]
pages = get_wsgi_application()


def work(number):
    told = []
    for place in "/", "/rows", "/admin/login/":
        environ = {"PATH_INFO": place, "QUERY_STRING": f"number={number}"}
        setup_testing_defaults(environ)
        body = pages(environ, lambda status, headers, exc_info=None: told.append(status))
        told.append(b"".join(body).decode()[:300])  # what follows has a token against forgery
        body.close()
    return told
