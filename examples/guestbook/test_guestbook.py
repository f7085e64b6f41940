"""Run by `python3 -m unittest`."""

import io
import os
import tempfile
import unittest
from urllib.parse import urlencode
from wsgiref.util import setup_testing_defaults

data = tempfile.TemporaryDirectory()
os.environ["GUESTBOOK_DATA"] = data.name  # before the imports, so that your own data is left alone

import accounts
import dispatch_table
import storage

from poorhttp.dispatch import application


class Browser:
    site = staticmethod(application(dispatch_table))

    def __init__(self):
        self.cookie = ""

    def get(self, path):
        return self.ask("GET", path)

    def post(self, path, **fields):
        return self.ask("POST", path, urlencode(fields).encode())

    def ask(self, method, path, form=b"", **more):
        environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "HTTP_COOKIE": self.cookie, **more}
        environ |= {"wsgi.input": io.BytesIO(form), "CONTENT_LENGTH": str(len(form))}
        environ.setdefault("CONTENT_TYPE", "application/x-www-form-urlencoded")
        setup_testing_defaults(environ)
        body = []

        def start_response(status, fields, exc_info=None):
            self.status = int(status[:3])
            self.cookie = dict(fields).get("Set-Cookie", self.cookie).partition(";")[0]
            return body.append

        body += self.site(environ, start_response)
        return self.status, b"".join(body).decode()


class GuestBook(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with storage.database() as db:
            db.executescript(storage.SCHEMA)
        accounts.add("ada", "right")

    def test_a_user_writes_and_a_text_stays_text(self):
        browser = Browser()
        self.assertEqual(browser.post("/login", name="ada", password="right")[0], 303)
        self.assertEqual(browser.post("/", text="<script>")[0], 303)
        self.assertIn("<p>&lt;script&gt;</p>", Browser().get("/")[1])
        browser.post("/logout")
        self.assertIn("Log in", browser.get("/")[1])

    def test_others_do_not_write(self):
        browser = Browser()
        self.assertEqual(browser.post("/login", name="ada", password="wrong")[0], 403)
        browser.post("/", text="unwanted")
        status, text = browser.get("/")
        self.assertEqual(status, 200)
        self.assertNotIn("unwanted", text)

    def test_a_form_of_another_site_is_refused(self):
        status, _ = Browser().ask("POST", "/login", b"name=ada&password=right", HTTP_ORIGIN="https://evil.example")
        self.assertEqual(status, 403)


if __name__ == "__main__":
    unittest.main()
