"""Flask: `poorhttp flask_hello.py`, run from here (needs `pip install flask`)."""

from flask import Flask

app = Flask(__name__)


@app.get("/")
def hello():
    return "<p>Hello from Flask</p>"
