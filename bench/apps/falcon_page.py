"""A Falcon application: a line of text."""

import falcon


class Page:
    def on_get(self, req, resp):
        resp.content_type = falcon.MEDIA_HTML
        resp.text = "Hello, World!"


application = falcon.App()
application.add_route("/", Page())
