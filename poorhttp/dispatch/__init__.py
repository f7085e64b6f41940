"""The dispatch table of the original Poor Http as a plain WSGI application.

    import dispatch_table
    from poorhttp.dispatch import application
    application = application(dispatch_table)

Runs under any WSGI server: of poorhttp it imports only `poorhttp.pages`, and nothing that was compiled, but two classes
of the engine where that is loaded already.
The names that handlers use are in `poorhttp.http`; what they get is a `Request`.
"""

from poorhttp.dispatch.decorated import Table
from poorhttp.dispatch.dispatcher import application
from poorhttp.dispatch.faults import TableError
from poorhttp.dispatch.request import Request

__all__ = ["Request", "Table", "TableError", "application"]
