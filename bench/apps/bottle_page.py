"""A Bottle application: a line of text."""

from bottle import Bottle

application = Bottle()


@application.route("/")
def page():
    return "Hello, World!"
