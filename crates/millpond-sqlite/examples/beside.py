"""SQLite on Millpond beside SQLite's own VFS, at equal memory: each run in a memory group of its own, in turn.

    cargo build --release -p millpond-sqlite
    python3 crates/millpond-sqlite/examples/beside.py [--memory 96] [--rows 300000] [--seconds 20] [--runs 5] [--dir /var/tmp]

Needs root for the memory group, and a Python whose sqlite3 loads extensions. `reads`, `updates` and `scan` are measured alone
(calm) and beside a thread that writes another database as fast as it can (busy): through the same cache, or, with SQLite's own
VFS, through the kernel's in the same group. `speed` is the kind of statements that SQLite's speedtest1 has.

It prints the median over the runs of each figure, in milliseconds, and of the smallest and largest run.
"""

import argparse
import json
import os
import random
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROW = 1000
# What the process has beside its cache: Python, SQLite, stacks, buffers.
OWN_MIB = 28


def connect(vfs, path):
    return sqlite3.connect(f"file:{path}?vfs={vfs}", uri=True, isolation_level=None, check_same_thread=False, timeout=60)


def prepare(path, rows):
    connection = connect("unix", path)
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=off")
    connection.execute("create table t(n integer primary key, b blob)")
    connection.execute("begin")
    for n in range(rows):
        connection.execute("insert into t values(?, randomblob(?))", (n, ROW))
    connection.execute("commit")
    connection.close()


class Bulk:
    """Writes 1 MiB after the other into another database, 512 of them round and round."""

    def __init__(self, vfs, path):
        self.connection = connect(vfs, path)
        self.connection.execute("pragma journal_mode=off")
        self.connection.execute("pragma synchronous=off")
        self.connection.execute("create table t(n integer primary key, b blob)")
        self.ends, self.written = False, 0
        self.thread = threading.Thread(target=self.write)
        self.thread.start()

    def write(self):
        blob, n = os.urandom(1 << 20), 0
        while not self.ends:
            self.connection.execute("insert or replace into t values(?, ?)", (n % 512, blob))
            n, self.written = n + 1, self.written + 1

    def stop(self):
        self.ends = True
        self.thread.join()
        self.connection.close()
        return self.written


def timed(call, seconds):
    took, end = [], time.perf_counter() + seconds
    begin = time.perf_counter()
    while begin < end:
        call()
        now = time.perf_counter()
        took.append(now - begin)
        begin = now
    return took


def figures(took):
    """One update in a thousand checkpoints the WAL, which takes as long as hundreds of others: p99.9 would be the shortest of
    the checkpoints in one run and the longest of the rest in the next. p99.95 is a middling checkpoint."""
    took.sort()
    at = lambda share: took[min(len(took) - 1, int(len(took) * share))] * 1e3
    answer = {f"p{100 * share:g}": at(share) for share in (0.5, 0.99, 0.998, 0.9995)}
    return answer | {"max": took[-1] * 1e3, "a second": len(took) / sum(took)}


def loads(vfs, folder, rows, seconds):
    path, answer = f"{folder}/data.db", {}
    connection = connect(vfs, path)
    connection.execute("pragma synchronous=normal")
    draw = random.Random(1)
    read = lambda: connection.execute("select b from t where n=?", (draw.randrange(rows),)).fetchone()
    update = lambda: connection.execute("update t set b=randomblob(?) where n=?", (ROW, draw.randrange(rows)))
    scan = lambda: connection.execute("select sum(length(b)) from t").fetchone()
    timed(read, seconds / 2)
    for name, call in [("reads", read), ("updates", update), ("scan", scan)]:
        answer[f"{name}, calm"] = figures(timed(call, seconds))
        bulk = Bulk(vfs, f"{folder}/bulk.db")
        time.sleep(seconds / 4)
        answer[f"{name}, busy"] = figures(timed(call, seconds))
        begin_written = bulk.stop()
        answer[f"{name}, busy"]["bulk MiB/s"] = begin_written / (seconds * 1.25)
        os.remove(f"{folder}/bulk.db")
    connection.close()
    return answer


def speed(vfs, folder, rows, _):
    connection, answer = connect(vfs, f"{folder}/speed.db"), {}
    count = rows // 10
    connection.execute("pragma journal_mode=wal")
    connection.execute("pragma synchronous=normal")

    def step(name, *statements, many=None):
        begin = time.perf_counter()
        connection.execute("begin")
        for statement in statements:
            for values in many or [()]:
                connection.execute(statement, values).fetchall()
        connection.execute("commit")
        answer[f"speed: {name}"] = {"ms": (time.perf_counter() - begin) * 1e3}

    draw = random.Random(2)
    some = [(draw.randrange(count), f"number {draw.randrange(count)}") for _ in range(count)]
    step("tables", "create table a(n integer, x text)", "create table b(n integer primary key, x text)")
    step("inserts", "insert into a values(?, ?)", many=some)
    step("inserts in order", "insert or replace into b values(?, ?)", many=sorted(some))
    step("an index", "create index i on a(n)", "create index j on a(x)")
    step("selects by index", "select count(*), max(x) from a where n=?", many=[(n,) for n, _ in some[: count // 10]])
    step("a join", "select count(*) from a join b on a.n=b.n where a.x<b.x")
    step("updates by index", "update a set x='x'||n where n=?", many=[(n,) for n, _ in some[: count // 10]])
    step("an update of all", "update b set x=x||x")
    step("a sort", "select x from a order by x desc limit 1 offset 1000")
    step("deletes", "delete from a where n%3=0", "delete from b where n%2=0")
    step("drops", "drop table a", "drop table b")
    connection.execute("vacuum")
    connection.close()
    return answer


def group(name, mib):
    """A memory group of this size: what a child has to write its process number to."""
    base = "/sys/fs/cgroup/memory" if os.path.isdir("/sys/fs/cgroup/memory") else "/sys/fs/cgroup"
    path, limit = f"{base}/{name}", "memory.limit_in_bytes" if base.endswith("memory") else "memory.max"
    os.mkdir(path)
    with open(f"{path}/{limit}", "w") as file:
        file.write(str(mib << 20))
    return path


def child(options):
    with open(f"{options.group}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))
    if options.vfs == "millpond":
        loader = sqlite3.connect(":memory:")
        loader.enable_load_extension(True)
        loader.load_extension(options.library)
    answer = (speed if options.load == "speed" else loads)(options.vfs, options.dir, options.rows, options.seconds)
    answer["memory"] = {"resident MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}
    print(json.dumps(answer))


def forget(folder):
    """What the kernel has of these files would be charged to no group."""
    for name in os.listdir(folder):
        file = os.open(f"{folder}/{name}", os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--library", default=f"{here}/../../../target/release/libmillpond_sqlite.so")
    options.add_argument("--memory", type=int, default=96, help="MiB of a group")
    options.add_argument("--rows", type=int, default=300_000, help="of 1000 bytes")
    options.add_argument("--seconds", type=float, default=20, help="of each load")
    options.add_argument("--runs", type=int, default=5)
    options.add_argument("--dir", default="/var/tmp")
    options.add_argument("--load", choices=["all", "speed"], default="all")
    options.add_argument("--vfs", help=argparse.SUPPRESS)
    options.add_argument("--group", help=argparse.SUPPRESS)
    options = options.parse_args()
    if options.vfs:
        return child(options)
    all_runs = {"unix": [], "millpond": []}
    with tempfile.TemporaryDirectory(dir=options.dir, prefix="millpond-sqlite-") as folder:
        if options.load != "speed":
            prepare(f"{folder}/data.db", options.rows)
        for run in range(options.runs):
            for vfs in list(all_runs)[:: 1 if run % 2 else -1]:
                forget(folder)
                name = group(f"millpond-sqlite-{os.getpid()}", options.memory)
                try:
                    settings = f"memory={options.memory - OWN_MIB}M"
                    own = [f"--{key}={value}" for key, value in vars(options).items() if value and key not in ("dir", "group")]
                    command = [sys.executable, __file__, *own, f"--vfs={vfs}", f"--group={name}", f"--dir={folder}"]
                    done = subprocess.run(
                        command, stdout=subprocess.PIPE, check=True, env={**os.environ, "MILLPOND_SQLITE": settings}
                    )
                    all_runs[vfs].append(json.loads(done.stdout))
                finally:
                    os.rmdir(name)
                for left in os.listdir(folder):
                    if not left.startswith("data.db"):
                        os.remove(f"{folder}/{left}")
    spread = lambda of: f"{statistics.median(of):.3g} ({min(of):.3g} to {max(of):.3g})"
    print(f"| | | SQLite's own VFS | Millpond |\n|---|---|---|---|")
    for load, measured in all_runs["unix"][0].items():
        for figure in measured:
            columns = [spread([run[load][figure] for run in runs]) for runs in all_runs.values()]
            print(f"| {load} | {figure} | {columns[0]} | {columns[1]} |")


if __name__ == "__main__":
    main()
