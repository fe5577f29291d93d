#!/usr/bin/env python3
"""What lending pages to the kernel brings (`millpond mount --lend`), beside a mount that lends nothing, one without a cache, and
the directory below: 100,000 reads of 4 KiB of what is in memory by one job, and `cat` of 256 MiB that were read before.

    scripts/mount-lend.py                       in a folder below /var/tmp, with the program that is built for release
    DIR=/on/a/disk ROUNDS=5 MILLPOND=target/debug/millpond scripts/mount-lend.py

All four are measured in turn, ROUNDS times (3); the table has the median, the least and the most. As root, or with fusermount3.
"""
import os, random, shutil, statistics, subprocess, tempfile, time

PROGRAM = os.environ.get("MILLPOND", "target/release/millpond")
ROUNDS = int(os.environ.get("ROUNDS", "3"))
FILE, READS, SMALL = 256 << 20, int(os.environ.get("READS", "100000")), 64 << 20
WAYS = [
    ("mount, `--lend 512M`", ["--memory", "1G", "--lend", "512M"]),
    ("mount, `--lend none`", ["--memory", "1G"]),
    ("mount, `--no-cache`", ["--no-cache"]),
    ("the directory below", None),
]


def reads(folder):
    draw, fd = random.Random(1), os.open(folder + "/small", os.O_RDONLY)
    places = [draw.randrange(SMALL >> 12) << 12 for _ in range(READS)]
    for at in range(0, SMALL, 1 << 20):
        os.pread(fd, 1 << 20, at)
    began = time.monotonic()
    for at in places:
        os.pread(fd, 4096, at)
    took = time.monotonic() - began
    os.close(fd)
    return READS / took


def cat(folder):
    for _ in range(2):
        began = time.monotonic()
        subprocess.run(["cat", folder + "/large"], stdout=subprocess.DEVNULL, check=True)
        took = time.monotonic() - began
    return FILE / 1e6 / took


room = tempfile.mkdtemp(dir=os.environ.get("DIR", "/var/tmp"))
source, point, log = room + "/src", room + "/mnt", open(room + "/log", "w")
try:
    os.mkdir(source)
    os.mkdir(point)
    for name, size in ("small", SMALL), ("large", FILE):
        with open(f"{source}/{name}", "wb") as file:
            file.write(os.urandom(1 << 20) * (size >> 20))
            os.fsync(file.fileno())
    results = {way: ([], []) for way, _ in WAYS}
    for _ in range(ROUNDS):
        for way, options in WAYS:
            if options is not None:
                subprocess.run([PROGRAM, "mount", source, point, "--daemon", "--quiet", "--log", room + "/mount.log", *options], check=True)
            folder = source if options is None else point
            results[way][0].append(reads(folder))
            results[way][1].append(cat(folder))
            if options is not None:
                subprocess.run([PROGRAM, "umount", point], check=True, stderr=log)
    print("| | reads of 4 KiB a second | `cat` of 256 MiB, MB/s |\n|---|---|---|")
    for way, _ in WAYS:
        cells = [f"{statistics.median(values):,.0f} ({min(values):,.0f}..{max(values):,.0f})" for values in results[way]]
        print(f"| {way} | {' | '.join(cells)} |")
finally:
    subprocess.run([PROGRAM, "umount", "--force", point], stdout=log, stderr=log)
    shutil.rmtree(room)
