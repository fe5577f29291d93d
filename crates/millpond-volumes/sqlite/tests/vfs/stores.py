"""The tests."""

import os
import random
import shutil
import socket
import subprocess
import threading
import time

from common import MODES, connect, enter, entered, make, refused, set_mode, start


def the_usual_things_work_in_every_journal_mode(_folder):
    for mode in MODES + ["memory", "off"]:
        store = f"memory://usual-{mode}"
        db = connect(store, memory="16M")
        assert db.execute("pragma millpond=memory").fetchall() == [("16M",)]
        set_mode(db, mode)
        make(db)
        for n in range(40):
            enter(db, n)
        if mode != "off":
            db.execute("begin")
            db.execute("delete from entries")
            db.execute("rollback")
        db.execute("create index by_amount on entries(amount)")
        # More than SQLite's own cache, so that it writes before the end.
        db.execute("begin")
        db.execute("create table large(x)")
        db.executemany("insert into large values(?)", ((os.urandom(3000),) for _ in range(1000)))
        db.execute("commit")
        db.execute("drop table large")
        db.execute("vacuum")
        assert entered(db) == 40, mode
        other = connect(store)
        assert entered(other) == 40, mode
        other.close()
        db.close()
        # It was closed: no takeover is needed.
        again = connect(store)
        assert entered(again) == 40, mode
        enter(again, 40)
        again.close()


def threads_see_whole_transactions(_folder):
    store = "memory://threads"
    db = connect(store)
    set_mode(db, "wal")
    make(db)
    ended = threading.Event()
    failures = []

    def read():
        try:
            own = connect(store)
            while not ended.is_set():
                entered(own)
            own.close()
        except Exception as error:
            failures.append(error)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    for n in range(200):
        enter(db, n)
    ended.set()
    for reader in readers:
        reader.join()
    assert not failures, failures
    assert entered(db) == 200


def one_process_has_a_store_and_one_that_lost_it_is_told(folder, store=None):
    store = store or f"file://{folder}/store"
    db = connect(store)
    make(db)
    db.close()
    first = start("enters_once_a_line", folder, store)
    assert first.stdout.readline() == "open\n"

    def enters(n):
        first.stdin.write(f"{n}\n")
        first.stdin.flush()
        return first.stdout.readline()

    assert enters(0) == "committed\n"
    refused(lambda: connect(store).execute("select 1 from entries"), "unable to open")
    db = connect(store, take_over=1)
    assert entered(db) == 1
    enter(db, 1)
    assert "I/O error" in enters(7)
    assert "I/O error" in enters(8)
    enter(db, 2)
    assert entered(db) == 3
    first.stdin.close()
    first.wait()
    assert entered(db) == 3
    db.close()
    assert entered(connect(store)) == 3


def committed_transactions_survive_a_kill(folder, store=None, kills=None):
    kills = int(kills or os.environ.get("MILLPOND_KILLS", 12))
    draw = random.Random(37)
    told = 0
    for kill in range(kills):
        mode = MODES[kill % len(MODES)]
        own = f"{store or f'file://{folder}/store'}-{mode}"
        if kill < len(MODES):
            db = connect(own)
            set_mode(db, mode)
            make(db)
            db.close()
        writer = start("enters_without_end", folder, own, mode)
        assert writer.stdout.readline() == "open\n"
        for _ in range(draw.randrange(1, 12)):
            last = int(writer.stdout.readline())
        time.sleep(draw.uniform(0, 0.02))
        writer.kill()
        for line in writer.stdout.read().splitlines(keepends=True):
            # The last may be cut off.
            last = int(line) if line.endswith("\n") else last
        writer.wait()
        refused(lambda: entered(connect(own)), "unable to open")
        db = connect(own, take_over=1)
        found = entered(db)
        # One more may have been committed than it could say.
        assert last <= found <= last + 1, (mode, last, found)
        told += last
        db.close()
    print(f"{kills} kills, {told} commits acknowledged before one")


def a_reader_follows_the_writer_by_whole_transactions(folder, store=None):
    for mode in MODES:
        own = f"{store or f'file://{folder}/followed'}-{mode}"
        db = connect(own)
        set_mode(db, mode)
        make(db)
        db.close()
        writer = start("enters_without_end", folder, own, mode)
        assert writer.stdout.readline() == "open\n"
        readers = [connect(own, mode="ro", poll_ms=5, memory="16M") for _ in range(2)]
        seen = [0, 0]
        last = 0
        until = time.monotonic() + 120
        while last < 15 or min(seen) < 5:
            assert time.monotonic() < until, (mode, last, seen)
            last = int(writer.stdout.readline())
            for n, reader in enumerate(readers):
                reader.execute("begin")
                found = entered(reader)
                assert seen[n] <= found, (mode, seen, found)
                seen[n] = found
                time.sleep(0.01)
                # As it was when the transaction began.
                assert entered(reader) == found, mode
                reader.execute("commit")
        writer.kill()
        writer.wait()
        # The writer is not needed, except for a transaction that it was killed in.
        seen = [max(found, entered(reader)) for found, reader in zip(seen, readers)]
        db = connect_elsewhere(folder, own)
        assert db >= max(seen), (mode, db, seen)
        until = time.monotonic() + 30
        while any(entered(reader) != db for reader in readers):
            assert time.monotonic() < until, (mode, db, [entered(reader) for reader in readers])
            time.sleep(0.01)
        for reader in readers:
            reader.close()


def connect_elsewhere(folder, store):
    """Another process takes it over, and says how many transactions there are."""
    other = start("takes_over", folder, store)
    found = int(other.stdout.read())
    assert other.wait() == 0
    return found


def a_reader_only_reads(folder):
    store = f"file://{folder}/store"
    refused(lambda: connect(store, mode="ro").execute("select 1 from entries"), "unable to open")
    db = connect(store)
    set_mode(db, "wal")
    make(db)
    enter(db, 0)
    # Of this process's own writer: without a commit between.
    live = connect(store, mode="ro")
    enter(db, 1)
    assert entered(live) == 2
    live.close()
    refused(lambda: connect(store, "other.db", mode="ro").execute("select 1 from entries"), "unable to open")
    db.close()
    db = connect(store, mode="ro", poll_ms=10)
    assert entered(db) == 2
    refused(lambda: enter(db, 2), "readonly")
    db.execute("rollback")
    refused(lambda: db.execute("pragma wal_checkpoint").fetchall(), "readonly")
    refused(lambda: connect(store, "other.db", mode="ro").execute("select 1 from entries"), "unable to open")
    refused(lambda: connect(store).execute("select 1 from entries"), "unable to open")
    assert entered(db) == 2
    db.close()
    for wrong in [{"take_over": 1}, {"page_bytes": 4096}, {"poll_ms": 0}, {"poll_ms": "soon"}, {"snapshot": "none"}]:
        refused(lambda: connect(store, mode="ro", **wrong).execute("select 1 from entries"), "unable to open")
    refused(lambda: connect(store, poll_ms=10).execute("select 1 from entries"), "unable to open")
    # All of it was closed: it can be written.
    db = connect(store)
    enter(db, 2)
    assert entered(db) == 3


def what_was_not_synced_is_committed_every_so_often(folder):
    store = f"file://{folder}/store"
    db = connect(store)
    set_mode(db, "wal")
    make(db)
    db.close()
    writer = start("enters_unsynced", folder, store)
    assert writer.stdout.readline() == "20\n"
    db = connect(store, mode="ro", poll_ms=10)
    until = time.monotonic() + 60
    while entered(db) < 20:
        assert time.monotonic() < until
        time.sleep(0.01)
    writer.kill()
    writer.wait()
    db.close()
    db = connect(store, take_over=1)
    assert entered(db) == 20
    db.close()
    # Killed at any moment, also in a checkpoint: what is left is whole transactions, and none that were there are gone.
    draw, found = random.Random(38), 20
    for _ in range(6):
        writer = start("enters_unsynced_without_end", folder, store)
        assert writer.stdout.readline() == "open\n"
        time.sleep(draw.uniform(0.1, 0.6))
        writer.kill()
        writer.wait()
        before, found = found, connect_elsewhere(folder, store)
        assert found >= before, (before, found)
    assert found > 20


def what_is_not_possible_is_an_error(_folder):
    db = connect("memory://limits")
    db.execute("create table here(x)")
    other = "file:memory://limits//other.db?vfs=millpond-store"
    db.execute(f"attach '{other}' as other")
    db.execute("create table other.there(x)")
    both = "insert into here values(1); insert into there values(1);"
    # The journal of both would be a third file, of a new name each time.
    refused(lambda: db.executescript(f"begin; {both} commit;"), "unable to open")
    if db.in_transaction:
        db.execute("rollback")
    assert db.execute("select * from here").fetchall() == []
    for name in ["main", "other"]:
        assert db.execute(f"pragma {name}.journal_mode=wal").fetchall() == [("wal",)]
    db.executescript(f"begin; {both} commit;")
    assert db.execute("select * from here, there").fetchall() == [(1, 1)]
    db.close()
    # What is committed by the clock needs the syncs of a checkpoint.
    db = connect("memory://clock", commit_ms=1000)
    for off in ["off", "0", "'OFF'", "7"]:
        refused(lambda: db.execute(f"pragma synchronous={off}"), "leave commit_ms out")
        refused(lambda: db.execute(f"pragma main.synchronous={off}"), "leave commit_ms out")
    for level in [1, 2, 3]:
        db.execute(f"pragma synchronous={level}")
        assert db.execute("pragma synchronous").fetchall() == [(level,)]
    db.close()
    db = connect("memory://clock")
    db.execute("pragma synchronous=off")
    assert db.execute("pragma synchronous").fetchall() == [(0,)]
    db.close()
    refused(lambda: connect("nothing").execute("select 1"), "unable to open")
    refused(lambda: connect("memory://limits", page_bytes=5000).execute("select 1"), "unable to open")
    # It has the pages that it was made with, which need not be said.
    connect("memory://pages", page_bytes=4096).execute("create table t(x)").connection.close()
    connect("memory://pages").execute("insert into t values(1)").connection.close()
    refused(lambda: connect("memory://pages", page_bytes=65536).execute("select 1"), "unable to open")


def all_of_it_on_a_server(folder):
    # `none`, say, where it is not wanted.
    program = shutil.which(os.environ.get("MILLPOND_VERSITYGW", "versitygw"))
    if not program:
        print("skipped: SQLite on a server: no versitygw")
        return
    if os.environ.get("MILLPOND_HAS_S3") == "0":
        print("skipped: SQLite on a server: it was built without s3")
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    keys = {"ROOT_ACCESS_KEY": "test-key", "ROOT_SECRET_KEY": "test-secret"}
    os.makedirs(f"{folder}/served/bucket")
    command = [program, "--port", f"127.0.0.1:{port}", "posix", f"{folder}/served"]
    server = subprocess.Popen(
        command, env=os.environ | keys, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "test-key",
        "AWS_SECRET_ACCESS_KEY": "test-secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }
    try:
        until = time.monotonic() + 30
        while socket.socket().connect_ex(("127.0.0.1", port)) != 0:
            assert server.poll() is None and time.monotonic() < until, "versitygw does not answer"
            time.sleep(0.05)
        one_process_has_a_store_and_one_that_lost_it_is_told(folder, "s3://bucket/fenced")
        committed_transactions_survive_a_kill(folder, "s3://bucket/killed", 4)
        a_reader_follows_the_writer_by_whole_transactions(folder, "s3://bucket/followed")
    finally:
        server.kill()
        server.wait()
