"""Tornado without sessions: `tornado_page.py PORT` reads a field of the query and answers with a line of text."""

import asyncio
import sys

import tornado.web

PAGE = "Hello, World!"


class Store(tornado.web.RequestHandler):
    def get(self):
        self.get_argument("value")
        self.write(PAGE)


async def main():
    tornado.web.Application([("/store", Store)]).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


asyncio.run(main())
