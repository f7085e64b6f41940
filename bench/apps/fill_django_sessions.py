"""Put sessions into the store of django_sessions: `fill_django_sessions.py COUNT`, with the environment of that site.

Prints JSON: `page`, which each of these sessions must give, and `sessions`, each with its `cookie` (the value) and the
`digest` of its basket.
"""

import contextlib
import json
import sys
from importlib import import_module

import django_sessions as site
from django.conf import settings
from django.core.management import call_command
from django.db import transaction
from django.template.loader import render_to_string


def made(number):
    """The session of this number, saved."""
    content = site.content(number)
    session = import_module(settings.SESSION_ENGINE).SessionStore()
    session.update(content)
    session.save()
    return {"cookie": session.session_key, "digest": site.digest(content["items"])}


count = 0 if site.ENGINE == "none" else int(sys.argv[1])
if site.ENGINE == "db":
    call_command("migrate", "sessions", verbosity=0)
with transaction.atomic() if site.ENGINE == "db" else contextlib.nullcontext():
    sessions = [made(number) for number in range(count)]
page = render_to_string("sessions.html", site.shown(site.USER, len(site.content(0)["items"])))
print(json.dumps({"page": page, "sessions": sessions}))
