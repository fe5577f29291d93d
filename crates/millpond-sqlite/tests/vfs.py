"""SQLite on the VFS, from Python: each test is a function. `vfs.py LIBRARY NAME FOLDER` runs one in a new folder.

The Rust test `sqlite` runs them all, each in a process of its own, since a process has one cache.
"""

import os
import random
import sqlite3
import subprocess
import sys
import threading
import time

LIBRARY = sys.argv[1]
MODES = ["delete", "truncate", "persist", "wal"]
# What follows is not for pieces.
MAIN = "if __name__ == " + repr("__main__")


def load():
    loader = sqlite3.connect(":memory:")
    loader.enable_load_extension(True)
    loader.load_extension(LIBRARY)
    loader.close()  # the library stays


def ours(path, parameters="", **options):
    options.setdefault("isolation_level", None)
    return sqlite3.connect(f"file:{path}?vfs=millpond{parameters}", uri=True, **options)


def plain(path, **options):
    options.setdefault("isolation_level", None)
    return sqlite3.connect(f"file:{path}?vfs=unix", uri=True, **options)


def ask(connection, sql, *values):
    return connection.execute(sql, values).fetchone()[0]


def check(connection):
    assert ask(connection, "pragma integrity_check") == "ok"


def fails(text, call):
    try:
        call()
    except sqlite3.Error as error:
        assert text in str(error), error
    else:
        raise AssertionError(f"went well: should be {text}")


def other(code, *values):
    """Runs a piece of Python after this file, in another process, which has the VFS if it calls load(). The values are
    sys.argv[2:]."""
    command = [sys.executable, "-B", "-c", open(__file__).read().split(MAIN)[0] + code, LIBRARY, *map(str, values)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)


def answer(code, *values):
    process = other(code, *values)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, process.returncode
    return said.strip()


TRY = """
import sqlite3
def attempt(call):
    try:
        return str(call())
    except sqlite3.OperationalError as error:
        return str(error)
"""


def what_one_vfs_has_written_the_other_reads(folder):
    load()
    for mode in MODES:
        for size in [1024, 4096, 16384]:
            path = f"{folder}/{mode}{size}.db"
            rows = 0
            for turn in range(4):
                connection = (ours if turn % 2 else plain)(path)
                connection.execute(f"pragma page_size={size}")
                assert ask(connection, f"pragma journal_mode={mode}") == mode
                connection.execute("create table if not exists t(a integer primary key, b blob)")
                assert ask(connection, "select count(*) from t") == rows
                connection.execute("begin")
                for _ in range(200):
                    connection.execute("insert into t(b) values(randomblob(300))")
                    rows += 1
                connection.execute("commit")
                connection.execute("update t set b=randomblob(400) where a%7=?", (turn,))
                check(connection)
                connection.close()
            assert sorted(os.listdir(folder)) == sorted(
                name for name in os.listdir(folder) if not name.endswith(("-wal", "-shm"))
            )


def a_database_is_one_processs_and_others_are_busy(folder):
    load()
    read = TRY + """
connection = plain(sys.argv[2], timeout=0)
print(attempt(lambda: ask(connection, "select count(*) from t")))
"""
    write = TRY + """
connection = plain(sys.argv[2], timeout=0)
print(attempt(lambda: connection.execute("insert into t values(1)").rowcount))
"""
    same = TRY + """
load()
connection = ours(sys.argv[2], timeout=0)
print(attempt(lambda: ask(connection, "select count(*) from t")))
"""
    locked = "database is locked"
    for mode in ["delete", "wal"]:
        path = f"{folder}/{mode}.db"
        connection = plain(path)
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("create table t(a)")
        connection.close()

        # Ours is open, and idle: all others wait.
        connection = ours(path)
        assert ask(connection, "select count(*) from t") == 0
        assert [answer(code, path) for code in (read, write, same)] == [locked] * 3
        beside = plain(path, timeout=0)
        fails(locked, lambda: beside.execute("select count(*) from t").fetchone())
        beside.close()
        assert [answer(code, path) for code in (read, write, same)] == [locked] * 3
        second = ours(path)
        assert ask(second, "select count(*) from t") == 0
        connection.close()
        assert answer(read, path) == locked
        second.close()
        assert [answer(code, path) for code in (read, write, same)] == ["0", "1", "1"]

        # Another has it: ours waits.
        beside = plain(path, timeout=0)
        beside.execute("begin")
        assert ask(beside, "select count(*) from t") == 1
        late = ours(path, timeout=0)
        fails(locked, lambda: late.execute("select count(*) from t").fetchone())
        beside.execute("commit")
        if mode == "delete":  # without a WAL an idle connection has no lock
            assert ask(late, "select count(*) from t") == 1
            fails(locked, lambda: beside.execute("select count(*) from t").fetchone())
        else:
            fails(locked, lambda: late.execute("select count(*) from t").fetchone())
            beside.close()
            assert ask(late, "select count(*) from t") == 1
        late.close()

        # What the other has written meanwhile is seen, and a wait ends when the other does.
        holder = other(
            """
connection = plain(sys.argv[2])
connection.execute("begin exclusive")
connection.execute("insert into t values(2)")
print("held", flush=True)
sys.stdin.readline()
connection.execute("commit")
connection.close()
""",
            path,
        )
        assert holder.stdout.readline() == "held\n"
        patient = ours(path, timeout=60)
        threading.Timer(0.3, lambda: holder.communicate("go\n")).start()
        assert ask(patient, "select count(*) from t") == 2
        check(patient)
        patient.close()


WRITER = """
load()
vfs, path, mode, seed = sys.argv[2:6]
random.seed(int(seed))
connection = (ours if vfs == "ours" else plain)(path, timeout=60)
connection.execute(f"pragma journal_mode={mode}")
connection.execute("pragma synchronous=full")
connection.execute("pragma wal_autocheckpoint=50")
connection.execute("create table if not exists t(n integer primary key, b blob)")
n = ask(connection, "select coalesce(max(n), 0) from t")
while True:
    connection.execute("begin")
    for _ in range(random.randrange(1, 20)):
        n += 1
        connection.execute("insert into t values(?, randomblob(?))", (n, random.randrange(2000)))
    connection.execute("update t set b=randomblob(100) where n in (select n from t order by random() limit 5)")
    connection.execute("commit")
    print(n, flush=True)
"""


def what_was_committed_is_there_after_a_kill(folder):
    load()
    for mode in ["delete", "wal"]:
        path = f"{folder}/{mode}.db"
        for kill in range(int(os.environ.get("MILLPOND_KILLS", "5"))):
            writer = other(WRITER, "ours", path, mode, kill)
            committed = int(writer.stdout.readline())
            time.sleep(random.random() / 2)
            writer.kill()
            for line in writer.stdout.read().splitlines()[:-1]:
                committed = int(line)
            writer.wait()
            connection = (plain, ours)[kill % 2](path, timeout=60)
            check(connection)
            there = ask(connection, "select count(*) from t")
            assert there >= committed and there == ask(connection, "select max(n) from t"), (there, committed)
            connection.close()


def threads_with_connections_of_their_own_see_whole_transactions(folder):
    load()
    accounts, start = 2000, 100
    for mode in ["delete", "wal"]:
        path = f"{folder}/{mode}.db"
        connection = ours(path, "&memory=4M")
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("pragma synchronous=normal")
        connection.execute("create table t(n integer primary key, amount integer, pad blob)")
        connection.execute("begin")
        for n in range(accounts):
            connection.execute("insert into t values(?, ?, randomblob(2500))", (n, start))
        connection.execute("commit")  # more than the budget
        end = time.monotonic() + float(os.environ.get("MILLPOND_SECONDS", "2.5"))
        wrong, reads, writes = [], [], []

        def transfer(seed):
            draw = random.Random(seed)
            own = ours(path, timeout=60)
            done = 0
            while (done == 0 or time.monotonic() < end) and not wrong:
                own.execute("begin immediate")
                for _ in range(draw.randrange(1, 5)):
                    amount = draw.randrange(10)
                    own.execute("update t set amount=amount-? where n=?", (amount, draw.randrange(accounts)))
                    own.execute("update t set amount=amount+? where n=?", (amount, draw.randrange(accounts)))
                own.execute("rollback" if draw.random() < 0.2 else "commit")
                done += 1
            own.close()
            writes.append(done)

        def sum_up(seed):
            own, done = ours(path, timeout=60), 0
            while (done == 0 or time.monotonic() < end) and not wrong:
                total = ask(own, "select sum(amount) from t")
                if total != accounts * start:
                    wrong.append(total)
                done += 1
            own.close()
            reads.append(done)

        def point(seed):
            draw = random.Random(seed)
            own, done = ours(path, timeout=60), 0
            while (done == 0 or time.monotonic() < end) and not wrong:
                own.execute("select pad from t where n=?", (draw.randrange(accounts),)).fetchone()
                done += 1
            own.close()
            reads.append(done)

        def guarded(work, seed):
            try:
                work(seed)
            except Exception as error:
                wrong.append(error)

        work = [transfer, transfer, sum_up, point]
        threads = [threading.Thread(target=guarded, args=(call, n)) for n, call in enumerate(work)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong, wrong
        assert min(reads + writes) > 0, (reads, writes)
        check(connection)
        assert ask(connection, "select sum(amount) from t") == accounts * start
        connection.close()
        connection = plain(path)
        check(connection)
        assert ask(connection, "select sum(amount) from t") == accounts * start
        connection.close()


def a_disk_that_fails_is_an_error_and_what_was_committed_stays(folder):
    load()  # with MILLPOND_SQLITE=faults=1
    for mode in ["delete", "wal"]:
        path = f"{folder}/{mode}.db"
        connection = ours(path)
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("create table t(a integer primary key, b blob)")
        connection.execute("insert into t(b) values(randomblob(5000))")
        for fault, error in [
            ("writes:28", "database or disk is full"),
            ("writes:5", "disk I/O error"),
            ("syncs:5:1", "disk I/O error"),
        ]:
            before = ask(connection, "select count(*) from t")
            connection.execute(f"pragma millpond='faults={fault}'")
            fails(error, lambda: connection.execute("insert into t(b) values(randomblob(50000))"))
            connection.execute("pragma millpond=faults")  # the disk was mended
            connection.close()
            connection = ours(path)
            check(connection)
            after = ask(connection, "select count(*) from t")
            # Of a commit whose WAL could not be made durable SQLite does not know: what of it is there may count.
            unknown = mode == "wal" and fault.startswith("syncs")
            assert after in (before, before + unknown), (mode, fault, before, after)
            connection.execute("insert into t(b) values(randomblob(50000))")
        connection.close()
        beside = ours(f"{folder}/beside.db")
        beside.execute("pragma millpond='faults=reads:5'")
        fails("disk I/O error", lambda: ours(path))
        beside.execute("pragma millpond=faults")
        beside.close()
        connection = ours(path)
        check(connection)
        fails("is no fault", lambda: connection.execute("pragma millpond='faults=cables:5'"))
        connection.close()


def threads_on_a_disk_that_fails_now_and_then_lose_nothing_that_was_committed(folder):
    load()  # with MILLPOND_SQLITE=faults=1
    for mode in ["delete", "wal"]:
        path = f"{folder}/{mode}.db"
        connection = ours(path, "&memory=4M", timeout=60)
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("pragma synchronous=full")
        connection.execute("create table t(n integer primary key, b blob)")
        committed, ends, wrong = [[], []], threading.Event(), []

        def insert(own, n):
            try:
                own.execute("insert into t values(?, randomblob(5000))", (n,))
                committed[n % 2].append(n)
            except sqlite3.OperationalError as error:
                if not any(text in str(error) for text in ["disk I/O error", "is full"]):
                    wrong.append(error)
                if own.in_transaction:
                    own.execute("rollback")

        def work(n):
            own = ours(path, timeout=60)
            while not ends.is_set():
                n += 2
                insert(own, n)
            own.close()

        connection.execute("insert into t values(0, randomblob(5000))")
        committed[0].append(0)
        threads = [threading.Thread(target=work, args=(n,)) for n in range(2)]
        for thread in threads:
            thread.start()
        for fault in ["writes:5", "reads:5", "writes:28", "syncs:5:1"]:
            time.sleep(0.1)
            connection.execute(f"pragma millpond='faults={fault}'")
            time.sleep(0.05)
            connection.execute("pragma millpond=faults")  # the disk was mended
        ends.set()
        for thread in threads:
            thread.join()
        connection.close()
        assert not wrong, wrong
        connection = plain(path, timeout=60)
        check(connection)
        there = {n for (n,) in connection.execute("select n from t")}
        lost = [n for each in committed for n in each if n not in there]
        assert not lost and there, (mode, lost)
        connection.close()


def all_databases_of_a_process_have_one_budget_and_settings_by_name(folder):
    load()  # with MILLPOND_SQLITE=memory=24M
    first = ours(f"{folder}/first.db")
    assert ask(first, "pragma millpond=memory") == "24M"
    second = ours(f"{folder}/second.db", "&memory=12M&dirty.background=20%25")
    assert ask(first, "pragma millpond=memory") == "12M"
    assert ask(first, "pragma millpond('dirty.background')") == "20%"
    second.execute("pragma millpond='memory=16M'")
    assert ask(first, "pragma millpond=memory") == "16M"
    assert "\nnr_dirty " in ask(first, "pragma millpond")
    fails("allowed is", lambda: first.execute("pragma millpond='dirty.background=900%'"))
    fails("no.such", lambda: first.execute("pragma millpond='no.such=1'"))
    fails("unable to open", lambda: ours(f"{folder}/third.db", "&memory=1"))
    # SQLite's own cache is small, and pages are lent to it.
    assert ask(first, "pragma cache_size") == -512
    assert ask(first, "pragma mmap_size") > 0
    assert ask(first, "pragma journal_mode=wal") == "wal"
    first.execute("create table t(a)")
    first.execute("insert into t values(randomblob(3000))")
    first.execute("pragma wal_checkpoint")

    def requests():
        return int(ask(first, "pragma millpond").split("page_requests ")[1].split()[0])

    before = requests()
    for _ in range(100):
        ask(first, "select length(a) from t")
    assert requests() >= before + 100
    assert os.path.exists(f"{folder}/first.db-wal") and not os.path.exists(f"{folder}/first.db-shm")


def the_usual_things_work(folder):
    load()
    path = f"{folder}/all.db"
    for mode in MODES:
        connection = ours(path, "&memory=8M")
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("pragma auto_vacuum=incremental")
        connection.execute("vacuum")
        connection.execute("drop table if exists t")
        connection.execute("create table t(a integer primary key, b blob, c text)")
        connection.execute("create index i on t(c)")
        connection.execute("begin")
        for n in range(3000):
            connection.execute("insert into t values(?, randomblob(1000), ?)", (n, f"text {n}"))
        connection.execute("savepoint s")
        connection.execute("delete from t where a%2=0")
        connection.execute("rollback to s")
        connection.execute("commit")
        assert ask(connection, "select count(*) from t") == 3000

        # A cursor has pages lent while the same connection, and another, change the table.
        writer = ours(path, timeout=60)
        seen = 0
        for n, a in enumerate(connection.execute("select a from t order by a")):
            seen += 1
            if n % 500 == 0 and mode == "wal":
                writer.execute("update t set b=randomblob(1000), c=c||'!' where a=?", (2999 - n,))
                writer.execute("pragma wal_checkpoint")
            elif n % 500 == 0:
                connection.execute("update t set b=randomblob(1000), c=c||'!' where a=?", (2999 - n,))
        assert seen == 3000
        writer.execute("pragma wal_checkpoint(truncate)")
        writer.close()

        # Two databases in one transaction, with a journal over both.
        connection.execute("attach ? as b", (f"file:{folder}/{mode}-b.db?vfs=millpond",))
        connection.execute("create table b.t as select * from main.t where a<100")
        connection.execute("begin")
        connection.execute("delete from main.t where a<100")
        connection.execute("update b.t set c='moved'")
        connection.execute("commit")
        assert ask(connection, "select count(*) from b.t where c='moved'") == 100
        connection.execute("detach b")

        connection.execute("delete from t where a%3=0")
        connection.execute("pragma incremental_vacuum")
        connection.execute("create temp table u as select * from t")
        connection.execute("vacuum")
        check(connection)
        copy = plain(f"{folder}/{mode}-copy.db")
        connection.backup(copy)
        check(copy)
        copy.close()
        connection.execute("pragma journal_mode=delete")
        connection.close()
    read_only = ours(path, "&mode=ro")
    assert ask(read_only, "select count(*) from t") > 0
    fails("readonly", lambda: read_only.execute("delete from t"))
    read_only.close()
    fails("unable to open", lambda: ours(f"{folder}/missing.db", "&mode=rw").execute("select 1 from t"))
    left = [name for name in os.listdir(folder) if not name.endswith(".db")]
    assert not left, left


def a_database_that_may_only_be_read_keeps_writers_out_while_it_is_open(folder):
    if os.getuid() != 0:
        return print("skipped: a database that may only be read: needs root, to be another user")
    path = f"{folder}/data.db"
    connection = plain(path)
    connection.execute("create table t(a)")
    connection.close()
    os.chmod(path, 0o444)
    os.chmod(folder, 0o755)
    reader = other(
        """
load()  # while the library can be reached
os.setgid(65534), os.setuid(65534)
connection = ours(sys.argv[2])
print(ask(connection, "select count(*) from t"), flush=True)
sys.stdin.readline()
try:
    connection.execute("insert into t values(1)")
except sqlite3.OperationalError as error:
    print(error, flush=True)
connection.close()
""",
        path,
    )
    assert reader.stdout.readline() == "0\n"
    beside = plain(path, timeout=0)
    assert ask(beside, "select count(*) from t") == 0
    fails("database is locked", lambda: beside.execute("insert into t values(1)"))
    said, _ = reader.communicate("go\n", timeout=60)
    assert said == "attempt to write a readonly database\n", said
    beside.execute("insert into t values(1)")


def a_forked_child_has_a_cache_of_its_own(folder):
    load()
    connection = ours(f"{folder}/parent.db")
    connection.execute("create table t(a)")
    child = os.fork()
    if child == 0:
        own = ours(f"{folder}/child.db", timeout=0)
        own.execute("create table t(a)")
        taken = ours(f"{folder}/parent.db", timeout=0)
        try:
            taken.execute("select * from t")
        except sqlite3.OperationalError as error:
            os._exit(0 if "locked" in str(error) else 1)
        os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    connection.execute("insert into t values(1)")
    check(connection)
    connection.close()
    late = plain(f"{folder}/parent.db", timeout=0)
    assert ask(late, "select count(*) from t") == 1
    check(late)
    check(plain(f"{folder}/child.db"))


def a_forked_child_that_closes_its_parents_connections_takes_nothing_from_the_parent(folder):
    load()
    for mode in MODES:
        path = f"{folder}/{mode}.db"
        connection = ours(path)
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("pragma synchronous=full")
        connection.execute("create table t(a)")
        # A WAL that holds nothing new is what the last connection deletes.
        connection.execute("pragma wal_checkpoint")
        busy = ours(f"{folder}/busy-{mode}.db")
        busy.execute(f"pragma journal_mode={mode}")
        busy.execute("create table t(a)")
        busy.execute("begin immediate")
        busy.execute("insert into t values(1)")
        before = sorted(os.listdir(folder))
        child = os.fork()
        if child == 0:
            try:
                fails("", lambda: connection.execute("insert into t values(7)"))
                fails("", lambda: connection.execute("select * from t").fetchall())
                fails("", lambda: busy.execute("commit"))
            except AssertionError:
                os._exit(1)
            for each in (connection, busy):
                each.close()
            os._exit(0 if sorted(os.listdir(folder)) == before else 2)
        assert os.waitpid(child, 0)[1] == 0
        busy.execute("commit")
        connection.execute("insert into t values(1)")
        # What is synced is in the files that have the names.
        copies = f"{folder}/copies-{mode}"
        os.mkdir(copies)
        for name in os.listdir(folder):
            if name.startswith((f"{mode}.db", f"busy-{mode}.db")):
                open(f"{copies}/{name}", "wb").write(open(f"{folder}/{name}", "rb").read())
        for name in (f"{mode}.db", f"busy-{mode}.db"):
            copy = plain(f"{copies}/{name}")
            check(copy)
            assert ask(copy, "select count(*) from t") == 1, (mode, name)
            copy.close()
        connection.close()
        busy.close()


def a_forked_child_that_closes_a_database_for_reading_leaves_its_parents_lock(folder):
    if os.getuid() != 0:
        return print("skipped: a database that may only be read: needs root, to be another user")
    path = f"{folder}/data.db"
    connection = plain(path)
    connection.execute("create table t(a)")
    connection.close()
    os.chmod(path, 0o444)
    os.chmod(folder, 0o755)
    reader = other(
        """
load()  # while the library can be reached
os.setgid(65534), os.setuid(65534)
connection = ours(sys.argv[2])
ask(connection, "select count(*) from t")
child = os.fork()
connection.close() if child == 0 else None
os._exit(0) if child == 0 else os.waitpid(child, 0)
print("closed in the child", flush=True)
sys.stdin.readline()
""",
        path,
    )
    assert reader.stdout.readline() == "closed in the child\n"
    beside = plain(path, timeout=0)
    fails("database is locked", lambda: beside.execute("insert into t values(1)"))
    reader.communicate("go\n", timeout=60)
    beside.execute("insert into t values(1)")


def a_wal_that_may_only_be_read_is_refused_in_every_locking_mode(folder):
    if os.getuid() != 0:
        return print("skipped: a database that may only be read: needs root, to be another user")
    path = f"{folder}/data.db"
    connection = plain(path)
    connection.execute("pragma journal_mode=wal")
    connection.execute("create table t(a)")
    os.chmod(path, 0o444)
    os.chmod(folder, 0o755)
    said = answer(
        TRY + """
load()  # while the library can be reached
os.setgid(65534), os.setuid(65534)
for locking in ["normal", "exclusive"]:
    connection = sqlite3.connect("file::memory:", uri=True, isolation_level=None)
    connection.execute(f"pragma locking_mode={locking}")  # of what is attached from now on
    print(attempt(lambda: connection.execute("attach ? as x", (f"file:{sys.argv[2]}?vfs=millpond",))))
""",
        path,
    )
    refused = ["unable to open database", "attempt to write a readonly database"]
    lines = said.splitlines()
    assert len(lines) == 2 and all(line.startswith(text) for line, text in zip(lines, refused)), said
    connection.close()


def a_journal_is_its_databases_owners_and_no_link_is_followed(folder):
    if os.getuid() != 0:
        return print("skipped: owners of files: needs root")
    load()
    for mode, ending in [("delete", "-journal"), ("wal", "-wal")]:
        path = f"{folder}/{mode}.db"
        connection = ours(path)
        connection.execute(f"pragma journal_mode={mode}")
        connection.execute("create table t(a)")
        connection.close()
        os.chown(path, 65534, 65533)
        os.chmod(path, 0o664)
        before = os.umask(0o077)
        connection = ours(path)
        connection.execute("begin")
        connection.execute("insert into t values(1)")
        found = os.stat(path + ending)
        assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (65534, 65533, 0o664), found
        connection.execute("commit")
        connection.close()
        os.umask(before)

        # In a folder of another's, a link is where the journal would be.
        others = f"{folder}/others"
        os.symlink(others, path + ending)
        connection = ours(path)
        fails("unable to open", lambda: connection.execute("insert into t values(2)"))
        connection.close()
        assert not os.path.exists(others)
        os.unlink(path + ending)
        connection = ours(path)
        assert ask(connection, "select count(*) from t") == 1
        connection.close()
    # A database may be reached by one.
    os.symlink(f"{folder}/wal.db", f"{folder}/link.db")
    connection = ours(f"{folder}/link.db")
    assert ask(connection, "select count(*) from t") == 1
    connection.close()


def settings_of_a_uri_count_when_the_database_is_opened_and_no_more(folder):
    load()
    connection = ours(f"{folder}/data.db", "&memory=12M")
    connection.execute("create table t(a)")
    connection.execute("pragma millpond='memory=16M'")
    for _ in range(3):
        connection.execute("insert into t values(1)")  # opens a journal
    assert ask(connection, "pragma millpond=memory") == "16M"
    connection.close()


def it_can_be_the_vfs_of_every_database(folder):
    load()  # with MILLPOND_SQLITE=default=1
    connection = sqlite3.connect(f"{folder}/data.db")
    assert "nr_dirty " in ask(connection, "pragma millpond")
    connection.execute("create table t(a)")
    connection.commit()
    connection.close()
    memory = sqlite3.connect(":memory:")
    memory.execute("create table t(a)")


if __name__ == '__main__':
    globals()[sys.argv[2]](sys.argv[3])
