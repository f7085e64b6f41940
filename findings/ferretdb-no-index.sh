#!/bin/sh
# FerretDB 1.24.0 with SQLite, by PyMongo 4.20.1: a document is not found by the index of its _id.
#
# Each time the last document of a collection is asked for by its _id alone, which is a str. Seen: with 20,000 documents
# this takes more than ten times as long as with 200, and it grows with their number. SQLite scans the table: FerretDB
# makes the index on _ferretdb_sjson->"_id", but asks for _ferretdb_sjson->'$._id', and SQLite uses the index of an
# expression only for the same expression. Updates and deletes find their document in the same way.
# Expected: about equal times. MongoDB's manual, "Default Index": the unique index on _id is made with the collection;
# FerretDB's, "Pushdown": for SQLite a filter by an _id of type string is handed to the database.
. "$(dirname "$(realpath "$0")")/lib"
command -v go >/dev/null || unavailable "no Go"
pypi pymongo==4.20.1
source=$(timeout 300 go mod download -json github.com/FerretDB/FerretDB@v1.24.0 2>go.log |
    sed -n 's/^.*"Dir": "\(.*\)",$/\1/p')
[ -d "$source" ] || unavailable "go could not fetch FerretDB"
cp -r "$source" source && chmod -R u+w source && printf v1.24.0 >source/build/version/version.txt
(cd source && go build -buildvcs=false -tags ferretdb_no_postgresql -o ../ferretdb ./cmd/ferretdb) >go.log 2>&1 ||
    unavailable "go could not build FerretDB"
mkdir data state
serve 'exec ./ferretdb --handler=sqlite --sqlite-url=file:$PWD/data/ --listen-addr=127.0.0.1:$PORT --debug-addr=- \
    --telemetry=disable --state-dir=$PWD/state --log-level=error'
cat >show.py <<'PY'
import os
import sqlite3
import time

from pymongo import MongoClient

db = MongoClient(f"mongodb://127.0.0.1:{os.environ['PORT']}/").show


def seconds(count):
    """The best of ten attempts to find the last of so many documents."""
    pages = db[f"pages{count}"]
    for start in range(0, count, 1000):
        pages.insert_many({"_id": f"page {number}"} for number in range(start, min(start + 1000, count)))
    times = []
    for _ in range(10):
        begin = time.perf_counter()
        assert pages.find_one({"_id": f"page {count - 1}"})
        times.append(time.perf_counter() - begin)
    return min(times)


print("slower by more than ten times:", seconds(20_000) > 10 * seconds(200))
file = sqlite3.connect("file:data/show.sqlite?mode=ro", uri=True)
index = "SELECT tbl_name FROM sqlite_master WHERE type = 'index' AND tbl_name LIKE 'pages20000%' AND sql LIKE '%_id\")%'"
(table,) = file.execute(index).fetchone()
for expression in """_ferretdb_sjson->'$._id'""", '''_ferretdb_sjson->"_id"''':
    plan = file.execute(f'EXPLAIN QUERY PLAN SELECT 1 FROM "{table}" WHERE {expression} = ?', ('"page 1"',)).fetchall()
    print(expression, plan[0][3].split()[0])
PY
verdict "slower by more than ten times: True
_ferretdb_sjson->'\$._id' SCAN
_ferretdb_sjson->\"_id\" SEARCH" "$(timeout 120 python show.py 2>&1)"
