"""The nearest of many vectors in files that are larger than memory: a program for numpy.memmap, on Millpond.

    python nearest.py FOLDER [VECTORS [MEMORY]]

makes VECTORS vectors and their lengths in FOLDER where there are none, and asks for neighbours. Where it was other with
numpy.memmap the line before says how.
"""

import sys
import time
from pathlib import Path

import millpond
import numpy as np

WIDTH = 128
PART = 10_000


def make(pond, path, count):
    """Random vectors in a file, a part after the other."""
    rng = np.random.default_rng(1)
    # vectors = np.memmap(path, "f4", "w+", shape=(count, WIDTH))
    with pond.open_array(path, "f4", "w+", shape=(count, WIDTH)) as vectors:
        for part in np.array_split(vectors, -(-count // PART)):
            rng.standard_normal(out=part, dtype="f4")
    # vectors.flush()


def make_lengths(pond, vectors, path):
    """The squared lengths in a file beside it."""
    # lengths = np.memmap(path, "f4", "w+", shape=len(vectors))
    with pond.open_array(path, "f4", "w+", shape=len(vectors)) as lengths:
        for at in range(0, len(vectors), PART):
            part = vectors[at : at + PART]
            np.einsum("ij,ij->i", part, part, out=lengths[at : at + PART])
    # lengths.flush()


def nearest(vectors, lengths, asked, count):
    """Which `count` vectors are nearest to `asked`, nearest first."""
    found, distances = np.empty(0, int), np.empty(0, "f4")
    for at in range(0, len(vectors), PART):
        distance = lengths[at : at + PART] - 2 * (vectors[at : at + PART] @ asked)
        distances = np.concatenate([distances, distance])
        found = np.concatenate([found, np.arange(at, at + len(distance))])
        best = np.argsort(distances)[:count]
        found, distances = found[best], distances[best]
    return found


def main(folder, count=200_000, memory="64M"):
    count, folder = int(count), Path(folder)
    paths = folder / f"vectors-{count}.f4", folder / f"lengths-{count}.f4"
    # One budget for both files: numpy.memmap takes what the machine has.
    pond = millpond.Pond(memory)
    if not paths[0].exists():
        make(pond, paths[0], count)
    # vectors = np.memmap(paths[0], "f4", "r").reshape(-1, WIDTH)
    vectors = pond.open_array(paths[0], "f4").reshape(-1, WIDTH)
    if not paths[1].exists():
        make_lengths(pond, vectors, paths[1])
    # lengths = np.memmap(paths[1], "f4", "r")
    lengths = pond.open_array(paths[1], "f4")
    began = time.perf_counter()
    asked = vectors[count // 2] + np.float32(0.01)
    found = nearest(vectors, lengths, asked, 5)
    spent, did = time.perf_counter() - began, pond.stats()
    print(f"nearest to {count // 2}: {found}, of {vectors.nbytes >> 20} MiB in {spent:.2f} s")
    print(f"{did['resident_bytes'] >> 20} MiB of {did['memory_bytes'] >> 20} are in use, {did['faults']:,} times a page was read")
    return found


if __name__ == "__main__":
    main(*sys.argv[1:])
