"""The application of `bench robust`: bodies that last, in both directions, and small answers beside them."""

import os
import tempfile
import zlib

from pages import hello

BLOCK = b"x" * 65_536
LARGE = BLOCK * 16
SCARCE = 64  # descriptors

held = []


def application(environ, start_response):
    return PAGES.get(environ["PATH_INFO"], hello)(environ, start_response)


def scarce():
    """The same, by an application that holds descriptors of its own, so that the server runs out of them."""
    held.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(SCARCE))
    return application


def start(start_response, length):
    return start_response("200 OK", [("Content-Type", "text/plain"), ("Content-Length", str(length))])


def large(environ, start_response):
    """A mebibyte in one block."""
    start(start_response, len(LARGE))
    return [LARGE]


def stream(environ, start_response):
    """As many bytes as the query says, in blocks."""
    length = int(environ["QUERY_STRING"])
    start(start_response, length)
    return (BLOCK for _ in range(length // len(BLOCK)))


def written(environ, start_response):
    """The same, each of them by `write()`."""
    length = int(environ["QUERY_STRING"])
    write = start(start_response, length)
    for _ in range(length // len(BLOCK)):
        write(BLOCK)
    return []


def file(environ, start_response):
    """As many bytes as the query says, from a sparse file."""
    source = tempfile.TemporaryFile()  # noqa: SIM115 the server closes it
    source.truncate(int(environ["QUERY_STRING"]))
    start(start_response, int(environ["QUERY_STRING"]))
    return environ["wsgi.file_wrapper"](source)


def upload(environ, start_response):
    """Read the body in blocks; answer its length and its CRC-32."""
    length = crc = 0
    while block := environ["wsgi.input"].read(len(BLOCK)):
        length, crc = length + len(block), zlib.crc32(block, crc)
    answer = f"{length} {crc:08x}".encode()
    start(start_response, len(answer))
    return [answer]


PAGES = {"/large": large, "/stream": stream, "/write": written, "/file": file, "/upload": upload}
