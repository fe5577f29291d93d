"""What the tests and their programs share."""

import os
import sqlite3
import subprocess
import sys

LIBRARY = os.path.splitext(sys.argv[1])[0]

loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(LIBRARY)

MODES = ["wal", "delete", "truncate", "persist"]


def connect(store, name="data.db", timeout=30, **parameters):
    parameters = "".join(f"&{key}={value}" for key, value in parameters.items())
    uri = f"file:{store}//{name}?vfs=millpond-store{parameters}"
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=timeout)


def start(program, folder, *arguments):
    """Another process, which runs a function of `programs`."""
    command = [sys.executable, "-B", sys.argv[0], sys.argv[1], program, folder, *arguments]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def set_mode(db, mode):
    [(is_now,)] = db.execute(f"pragma journal_mode={mode}").fetchall()
    assert is_now == mode, is_now


def make(db):
    """A ledger whose sum says whether transactions are whole."""
    db.execute("create table entries(n integer primary key, amount integer, filler blob)")
    db.execute("create table total(amount integer)")
    db.execute("insert into total values(0)")


def enter(db, n):
    """One transaction: three entries and the sum of them all."""
    db.execute("begin immediate")
    for amount in range(3):
        filler = os.urandom(1 + n * 331 % 4000)
        db.execute("insert into entries(amount, filler) values(?, ?)", (n + amount, filler))
    db.execute("update entries set filler = ? where n = ?", (os.urandom(700), 1 + n * 7 % (3 * n + 1)))
    db.execute("update total set amount = amount + ?", (3 * n + 3,))
    db.execute("commit")


def entered(db):
    """How many transactions there are, all of them whole."""
    assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    [(count, amount, total)] = db.execute(
        "select count(entries.n), coalesce(sum(entries.amount), 0), total.amount from total left join entries"
    ).fetchall()
    assert count % 3 == 0 and amount == total, (count, amount, total)
    return count // 3


def refused(what, *words):
    """It is an error of SQLite's that has these words."""
    try:
        what()
    except sqlite3.Error as error:
        assert any(word in str(error) for word in words), error
        return
    raise AssertionError("it was not refused")
