"""Misses by libCacheSim: trace, policy and frames, a triple a line on standard input, a count a line on standard output.

A trace has page numbers of 32 bits, little endian. libCacheSim gets it in its own format: a page is an object of one byte, and
each use says when the page is used next, which Belady's policy needs.
"""

import array
import os
import struct
import sys
import tempfile

import libcachesim

POLICIES = {
    "opt": libcachesim.Belady,
    "lru": libcachesim.LRU,
    "clock": libcachesim.Clock,
    "arc": libcachesim.ARC,
    "lirs": libcachesim.LIRS,
    "s3-fifo": libcachesim.S3FIFO,
    "sieve": libcachesim.Sieve,
    "clock2q+": libcachesim.Clock2QPlus,
    "w-tinylfu": libcachesim.WTinyLFU,
}


def oracle(trace, path):
    pages = array.array("I")
    with open(trace, "rb") as file:
        pages.frombytes(file.read())
    following, seen = [-1] * len(pages), {}
    for at in range(len(pages) - 1, -1, -1):
        following[at] = seen.get(pages[at], -1)
        seen[pages[at]] = at
    with open(path, "wb") as file:
        for at, page in enumerate(pages):
            # Objects count from 1: some of its tables take 0 for none.
            file.write(struct.pack("<IQIq", 0, page + 1, 1, following[at]))
    return len(pages)


def main():
    with tempfile.TemporaryDirectory() as folder:
        known = {}
        for line in sys.stdin:
            trace, policy, frames = line.rstrip("\n").split("\t")
            if trace not in known:
                path = os.path.join(folder, str(len(known)) + ".oracleGeneral")
                known[trace] = path, oracle(trace, path)
            path, uses = known[trace]
            reader = libcachesim.TraceReader(path, trace_type=libcachesim.TraceType.ORACLE_GENERAL_TRACE)
            ratio, _ = POLICIES[policy](int(frames), hashpower=18).process_trace(reader)
            print(round(ratio * uses), flush=True)


main()
