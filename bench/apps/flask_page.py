"""A Flask application: a line of text, for what several processes of one weigh, and a page that a template makes."""

from flask import Flask, render_template

application = Flask(__name__)
ROWS = [{"id": number, "name": f"row <{number}>"} for number in range(20)]


@application.route("/")
def page():
    return "Hello, World!"


@application.route("/rows")
def rows():
    return render_template("flask.html", rows=ROWS)
