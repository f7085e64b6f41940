"""How many sessions a store of `bench sessions --suite tornado` holds: `count_sessions.py ADDRESS` prints the number.

Asks the store as others would, not through poorhttp; that has only the names of table and collection.
"""

import sys
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


def lines(path):
    return len(Path(path).read_bytes().splitlines())


def files(path):
    return sum(1 for file in Path(path).glob("??/*") if len(file.name) == 64)


def rows(address):
    import pymysql

    from poorhttp.sessions.stores.sql import TABLE

    parts = urlsplit(address)
    place = parse_qs(parts.query)["unix_socket"][0]
    with pymysql.connect(unix_socket=place, user=parts.username, database=parts.path[1:]) as connection:
        cursor = connection.cursor()
        cursor.execute(f"SELECT COUNT(*) FROM {TABLE}")
        return cursor.fetchone()[0]


def items(address):
    from pymemcache.client.base import Client

    parts = urlsplit(address)
    told = Client((parts.hostname, parts.port), timeout=10).stats()
    if told[b"evictions"]:
        raise SystemExit(f"{told[b'evictions']} sessions were evicted: the memory of Memcached is too small")
    return told[b"curr_items"]


def keys(address):
    import redis

    return redis.Redis.from_url(address, socket_timeout=10).dbsize()


def documents(address):
    import pymongo

    from poorhttp.sessions.stores.mongodb import COLLECTION

    with pymongo.MongoClient(address) as client:
        return client.get_default_database()[COLLECTION].count_documents({})


scheme, _, path = sys.argv[1].partition(":")
if scheme in ("file", "directory"):
    print({"file": lines, "directory": files}[scheme](path))
else:
    print({"mariadb": rows, "memcached": items, "redis": keys, "mongodb": documents}[scheme](sys.argv[1]))
