"""For tests of error pages: exceptions of an author's module, and the page about one."""

from poorhttp.dev.page import pages, problem

LOCAL = {"REMOTE_ADDR": "127.0.0.1", "HTTP_HOST": "localhost:8080", "REQUEST_METHOD": "GET", "REQUEST_URI": "/a?b=c"}
HTML = {**LOCAL, "HTTP_ACCEPT": "text/html,application/xhtml+xml,*/*;q=0.8"}
STATUS = "500 Internal Server Error"


def raised(source, file="/author/views.py", **names):
    """What a module with this source raises; as if it were a file of the author's."""
    import linecache

    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    try:
        exec(compile(source, file, "exec"), {"__name__": "views", **names})
    except BaseException as error:
        return error.with_traceback(error.__traceback__.tb_next)  # without this very frame
    raise AssertionError("nothing was raised")


def body(error, **environ):
    _, fields, data = pages.answer(problem.of(error), {**LOCAL, **environ}, STATUS)
    assert int(dict(fields)["Content-Length"]) == len(data)
    return dict(fields)["Content-Type"], data.decode()
