"""Flask: routes, sessions, context variables, its test client."""

import flask

app = flask.Flask(__name__)
app.secret_key = "of the tests"


@app.route("/page/<int:number>", methods=["GET", "POST"])
def page(number):
    flask.session["number"] = number
    following = flask.url_for("page", number=number + 1)
    return flask.jsonify(number=number, following=following, word=flask.request.form.get("word"))


def work(number):
    client = app.test_client()
    posted = client.post(f"/page/{number}", data={"word": "said"})
    got = client.get(f"/page/{number}")
    return [posted.get_json(), got.status_code, "session" in got.headers["Set-Cookie"], client.get("/none").status_code]
