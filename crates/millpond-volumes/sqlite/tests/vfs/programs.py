"""Processes that tests start: the first argument is the test's folder."""

import sys

from common import connect, enter, entered, set_mode


def enters_without_end(_folder, store, mode):
    """Says the number of each transaction that was committed."""
    db = connect(store)
    # But for a WAL it is a connection's own.
    set_mode(db, mode)
    n = entered(db)
    print("open", flush=True)
    while True:
        enter(db, n)
        n += 1
        print(n, flush=True)


def enters_once_a_line(_folder, store):
    """Enters when it is told to, and says what came of it."""
    db = connect(store, timeout=0)
    print("open", flush=True)
    for line in sys.stdin:
        try:
            enter(db, int(line))
            print("committed", flush=True)
        except Exception as error:
            print(f"{error}", flush=True)
            if db.in_transaction:
                db.execute("rollback")


def takes_over(_folder, store):
    db = connect(store, take_over=1)
    print(entered(db), flush=True)
    db.close()


def enters_unsynced(_folder, store):
    """Enters 20 times, none of which SQLite syncs, and stays."""
    db = connect(store, commit_ms=20)
    db.execute("pragma synchronous=normal")
    db.execute("pragma wal_autocheckpoint=0")
    for n in range(20):
        enter(db, n)
    print(20, flush=True)
    sys.stdin.read()


def enters_unsynced_without_end(_folder, store):
    db = connect(store, commit_ms=5)
    db.execute("pragma synchronous=normal")
    # Checkpoints come often.
    db.execute("pragma wal_autocheckpoint=40")
    n = entered(db)
    print("open", flush=True)
    while True:
        enter(db, n)
        n += 1
