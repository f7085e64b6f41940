"""A Flask application, for what several processes of one weigh."""

from flask import Flask

application = Flask(__name__)


@application.route("/")
def page():
    return "Hello, World!"
