"""Jinja2: templates that were compiled before the fork, and some that are compiled in a request."""

import jinja2

SOURCES = {
    "base": "<{% block inner %}{% endblock %}>",
    "page": "{% extends 'base' %}{% block inner %}{% for each in items %}{{ loop.index }}:{{ each|upper|e }} {% endfor %}"
    "{% endblock %}",
}
ENVIRONMENT = jinja2.Environment(loader=jinja2.DictLoader(SOURCES), autoescape=True)
PAGE = ENVIRONMENT.get_template("page")


def work(number):
    counted = ENVIRONMENT.from_string("{{ number + 1 }}").render(number=number)
    return [PAGE.render(items=["a&", str(number)]), counted, ENVIRONMENT.get_template("page").render(items=[1])]
