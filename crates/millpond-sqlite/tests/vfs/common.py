"""What the tests have in common."""

import ctypes
import os
import shutil
import sqlite3
import subprocess
import sys

LIBRARY = sys.argv[1]
MODES = ["delete", "truncate", "persist", "wal"]
# What a piece of Python in another process has at hand.
PRELUDE = """
import os, random, sqlite3, sys
from common import *
"""


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
    """Runs a piece of Python in another process, which has the VFS if it calls load(). The values are sys.argv[2:]."""
    command = [sys.executable, "-B", "-c", PRELUDE + code, LIBRARY, *map(str, values)]
    environment = os.environ | {"PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=environment)


def answer(code, *values):
    process = other(code, *values)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0, process.returncode
    return said.strip()


def attempt(call):
    """What it answers, or its error."""
    try:
        return str(call())
    except sqlite3.OperationalError as error:
        return str(error)


def is_root(what):
    """Whether files can be of other users; if not, says that a test of `what` is skipped."""
    if os.getuid() != 0:
        print(f"skipped: {what}: needs root, to be another user")
    return os.getuid() == 0


def read_only(path, mode="delete"):
    """Makes a database with an empty table, whose mode lets nobody write it: a connection to it."""
    connection = plain(path)
    connection.execute(f"pragma journal_mode={mode}")
    connection.execute("create table t(a)")
    os.chmod(path, 0o444)
    return connection


def load_and_give_up_writing(capabilities=1 << 2):
    """Loads the library and leaves root what it needs to read and search everything (CAP_DAC_READ_SEARCH), but not the right
    to write what its mode forbids; with 0 not to read it either. Another user's process might not reach the folder."""
    load()
    version_3, this_thread = 0x20080522, 0
    header = (ctypes.c_uint32 * 2)(version_3, this_thread)
    effective_permitted_inheritable = (ctypes.c_uint32 * 6)(capabilities, capabilities)
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.capset(header, effective_permitted_inheritable) == 0, os.strerror(ctypes.get_errno())


def reader_of(path, code):
    """Makes a database that the process may only read which runs this piece of Python, with a `connection` to it."""
    read_only(path).close()
    return other("load_and_give_up_writing()\nconnection = ours(sys.argv[2])\n" + code, path)


class Sqlite:
    """Another SQLite of this process: a library of its own, by its functions in C."""

    @staticmethod
    def copied_to(folder):
        """One that is a copy of the library of `sqlite3`; None if that has none."""
        import _sqlite3  # noqa: F401, loads it

        with open("/proc/self/maps") as maps:
            lines = [line.split(maxsplit=5)[-1].strip() for line in maps]
        libraries = [path for path in lines if "libsqlite3.so" in path and os.path.exists(path)]
        if not libraries:
            return None
        return Sqlite(shutil.copy(libraries[0], f"{folder}/libanother_sqlite3.so"))

    def __init__(self, library):
        self._own = ctypes.CDLL(library)
        self._own.sqlite3_errmsg.restype = ctypes.c_char_p
        for function in (self._own.sqlite3_errmsg, self._own.sqlite3_enable_load_extension):
            function.argtypes = [ctypes.c_void_p] + [ctypes.c_int] * (function is not self._own.sqlite3_errmsg)

    def open(self, uri):
        """A connection; None if there can be none."""
        connection, read_write_create_uri = ctypes.c_void_p(), 0x2 | 0x4 | 0x40
        number = self._own.sqlite3_open_v2(uri.encode(), ctypes.byref(connection), read_write_create_uri, None)
        return connection if number == 0 else None

    def load_extension(self, connection, library):
        self._own.sqlite3_enable_load_extension(connection, 1)
        why = ctypes.c_char_p()
        number = self._own.sqlite3_load_extension(connection, library.encode(), None, ctypes.byref(why))
        assert number == 0, why.value

    def ask(self, connection, sql):
        """The first value of the last row, or the error."""
        found = []
        callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, *[ctypes.POINTER(ctypes.c_char_p)] * 2)
        row = callback(lambda _, count, values, names: found.append(values[0]) or 0)
        number = self._own.sqlite3_exec(connection, sql.encode(), row, None, None)
        if number != 0:
            return self._own.sqlite3_errmsg(connection).decode()
        return found[-1].decode() if found else ""
