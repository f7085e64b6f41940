"""psycopg: statements, values for the database and from it, a connection that is refused."""

import datetime
import decimal

import psycopg
from psycopg import sql
from psycopg.adapt import PyFormat, Transformer

VALUES = "text", decimal.Decimal("1.5"), datetime.date(2024, 1, 2), [1, 2], True


def work(number):
    statement = sql.SQL("select {} from {} where x = %s").format(sql.Identifier("a b"), sql.Identifier("t"))
    transformer = Transformer()
    dumped = [bytes(transformer.get_dumper(each, PyFormat.TEXT).dump(each)).decode() for each in (number, *VALUES)]
    integer = psycopg.adapters.types["int4"].oid
    loader = psycopg.adapters.get_loader(integer, psycopg.pq.Format.TEXT)
    try:
        psycopg.connect("host=/nonexistent dbname=none", connect_timeout=1)
    except psycopg.OperationalError as error:
        refused = type(error).__name__
    return [statement.as_string(None), dumped, loader(integer, None).load(b"17"), refused]
