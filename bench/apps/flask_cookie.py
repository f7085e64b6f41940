"""A Flask application with its own session, which lies in a signed cookie."""

from flask import Flask, session

application = Flask(__name__)
application.secret_key = "a secret of the bench, for its own eyes only"
PAGE = "Hello, World!"


@application.route("/login")
def login():
    session["user"] = "somebody@example.com"
    session["count"] = 0
    return PAGE


@application.route("/read")
def read():
    return PAGE if session.get("user") else "nobody"
