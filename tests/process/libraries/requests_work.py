"""requests: a session that all requests share, with its pools and cookies; nothing is sent."""

import io

import requests
import urllib3
from requests.adapters import BaseAdapter, HTTPAdapter


class Answering(BaseAdapter):
    def send(self, request, **others):
        headers = {"Content-Type": "application/json", "Set-Cookie": "name=value"}
        body = io.BytesIO(b'{"a": [1, 2]}')
        response = urllib3.HTTPResponse(body, headers=headers, status=200, preload_content=False)
        return HTTPAdapter().build_response(request, response)

    def close(self):
        pass


SESSION = requests.Session()
SESSION.mount("http://", Answering())


def work(number):
    answer = SESSION.post("http://host/path", json={"number": number}, params={"q": [1, 2]}, headers={"X": "y"})
    return [answer.json(), answer.request.url, answer.request.body.decode(), answer.ok, SESSION.trust_env]
