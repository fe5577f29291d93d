"""Transactions a second of SQLite on a store, and what each puts there.

    cargo build --release --manifest-path crates/millpond-volumes/Cargo.toml -p millpond-volumes-sqlite
    python3 crates/millpond-volumes/sqlite/examples/rates.py LIBRARY [STORE] [SECONDS]

LIBRARY is the path of libmillpond_volumes_sqlite.so, STORE an address such as memory://rates or s3://bucket/prefix, which
must be empty. One row of 100 bytes a transaction, `synchronous=FULL`, and `NORMAL` with a commit each second; then point
reads of a table of 20,000 rows, cold. Each request takes 0, then 30 ms longer. A Python whose sqlite3 loads extensions is
needed.
"""

import json
import os
import random
import socket
import sqlite3
import sys
import time

library, *rest = sys.argv[1:]
store = rest[0] if rest else "memory://rates"
seconds = float(rest[1]) if len(rest) > 1 else 3.0

loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(os.path.splitext(os.path.abspath(library))[0])


def connect(name, **parameters):
    parameters = "".join(f"&{key}={value}" for key, value in parameters.items())
    uri = f"file:{store}-{name}//data.db?vfs=millpond-store&control=1{parameters}"
    return sqlite3.connect(uri, uri=True, isolation_level=None)


def figures():
    """What the store says of itself, by the control socket of its cache."""
    folder = os.environ.get("XDG_RUNTIME_DIR")
    folder = f"{folder}/millpond" if folder else f"/tmp/millpond-{os.getuid()}"
    [path] = [name for name in os.listdir(folder) if name.startswith(f"{os.getpid()}-")]
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(f"{folder}/{path}")
        client.sendall(b"stat\n")
        [said] = json.loads(client.makefile().readline())["stores"]
    return {figure["name"]: figure["value"] for figure in said["figures"]}


def rates(delay, page_bytes, mode, synchronous="full", **parameters):
    name = f"{mode}-{synchronous}-{page_bytes}-{delay}"
    db = connect(name, delay_ms=delay, page_bytes=page_bytes, **parameters)
    db.execute(f"pragma journal_mode={mode}")
    db.execute(f"pragma synchronous={synchronous}")
    db.execute("create table t(n integer primary key, x blob)")
    before, began, count = figures(), time.monotonic(), 0
    while time.monotonic() - began < seconds:
        db.execute("insert into t(x) values(?)", (os.urandom(100),))
        count += 1
    took, now = time.monotonic() - began, figures()
    grown = {name: (now[name] - before[name]) / count for name in ["put", "written", "commits"]}
    print(
        f"| {delay} ms | {mode}, {synchronous} | {page_bytes >> 10} KiB | {count / took:.0f} | {1000 * took / count:.2f} | "
        f"{grown['commits']:.4f} | {grown['put']:.4f} | {grown['written'] / 1024:.1f} |",
        flush=True,
    )
    db.close()


def reads(delay, page_bytes):
    name = f"reads-{page_bytes}-{delay}"
    db = connect(name, page_bytes=page_bytes)
    db.execute("create table t(n integer primary key, x blob)")
    db.execute("begin")
    db.executemany("insert into t(x) values(?)", ((os.urandom(1000),) for _ in range(20000)))
    db.execute("commit")
    db.close()
    db = connect(name, delay_ms=delay)
    began = time.monotonic()
    for _ in range(50):
        db.execute("select x from t where n = ?", (random.randrange(1, 20001),)).fetchall()
    print(f"reads, pages of {page_bytes >> 10} KiB, {delay} ms: {20 * (time.monotonic() - began):.1f} ms each, cold")
    db.close()


print("| a request takes longer by | journal | pages | transactions/s | ms each | commits | puts | KiB put |")
print("|---|---|---|---|---|---|---|---|")
for delay in [0, 30]:
    for mode in ["wal", "delete", "truncate"]:
        for page_bytes in [4096, 16384, 65536]:
            rates(delay, page_bytes, mode)
    for page_bytes in [4096, 16384, 65536]:
        rates(delay, page_bytes, "wal", "normal", commit_ms=1000)
for delay in [0, 30]:
    for page_bytes in [4096, 16384, 65536]:
        reads(delay, page_bytes)
