"""The dispatch table of the original Poor Http as a plain WSGI application.

    import dispatch_table
    from poorhttp.dispatch import application
    application = application(dispatch_table)

It runs under any WSGI server: of the rest of poorhttp it imports only `poorhttp.pages`. Nothing of it is compiled. If
the engine is loaded already, two of its classes take the place of slower ones.
The names that handlers use are in `poorhttp.http`; what they get is a `Request`.
"""

from poorhttp.dispatch.decorated import Table
from poorhttp.dispatch.dispatcher import application
from poorhttp.dispatch.faults import TableError
from poorhttp.dispatch.request import Request

__all__ = ["Request", "Table", "TableError", "application"]
