#!/bin/sh
# FerretDB 1.24.0 with SQLite, by PyMongo 4.20.1: updates of one document at the same time are lost, and several clients
# are told that theirs was the one.
#
# Eight clients at once. Seen: of 200 increments by $inc, all acknowledged, some two dozen are in the document;
# find_one_and_update gives one number to several clients; of update_one with the version in its filter several report
# modified_count 1; find_one_and_delete gives one job to several workers; an upsert makes several documents. FerretDB
# reads the document, and writes it back later without looking whether it is still the same.
# Expected: 200, all different, one, each job once, one. MongoDB's manual, "Atomicity and Transactions": a write
# operation is atomic on the level of a single document.
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
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from pymongo import MongoClient, ReturnDocument

CLIENTS = 8
db = MongoClient(f"mongodb://127.0.0.1:{os.environ['PORT']}/").show
pool = ThreadPoolExecutor(CLIENTS)


def together(work):
    barrier = Barrier(CLIENTS)

    def one(client):
        barrier.wait()
        return work(client)

    return list(pool.map(one, range(CLIENTS)))


def is_wrong(attempt):
    """Whether one of 20 attempts goes wrong."""
    return any([attempt(number) for number in range(20)])


def count(number):
    db.counters.insert_one({"_id": number, "count": 0})
    together(lambda client: [db.counters.update_one({"_id": number}, {"$inc": {"count": 1}}) for _ in range(25)])
    return db.counters.find_one({"_id": number})["count"] < 200


def tickets(number):
    db.tickets.insert_one({"_id": number, "last": 0})
    known, change, after = {"_id": number}, {"$inc": {"last": 1}}, ReturnDocument.AFTER
    given = together(lambda client: db.tickets.find_one_and_update(known, change, return_document=after)["last"])
    return len(set(given)) < CLIENTS


def compare_and_swap(number):
    db.pages.insert_one({"_id": number, "version": 0})
    change = {"$set": {"version": 1}}
    won = together(lambda client: db.pages.update_one({"_id": number, "version": 0}, change).modified_count)
    return sum(won) > 1


def jobs(number):
    db.jobs.insert_many({"of": number, "job": job} for job in range(CLIENTS))
    taken = [job["_id"] for job in together(lambda client: db.jobs.find_one_and_delete({"of": number})) if job]
    return len(set(taken)) < len(taken)


def upsert(number):
    together(lambda client: db.users.update_one({"name": number}, {"$set": {"client": client}}, upsert=True))
    return db.users.count_documents({"name": number}) > 1


print("of 200 increments some are lost:", count(0))
print("two clients get one number:", is_wrong(tickets))
print("two clients swap one version:", is_wrong(compare_and_swap))
print("two workers get one job:", is_wrong(jobs))
print("two documents by upserts of one:", is_wrong(upsert))
PY
verdict "of 200 increments some are lost: True
two clients get one number: True
two clients swap one version: True
two workers get one job: True
two documents by upserts of one: True" "$(timeout 120 python show.py 2>&1)"
