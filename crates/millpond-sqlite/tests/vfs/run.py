"""SQLite on the VFS, from Python: each test is a function. `run.py LIBRARY NAME FOLDER` runs one in a new folder.

The Rust test `sqlite` runs them all, each in a process of its own, since a process has one cache.
"""

import sys

import durability
import forks
import sharing
import use

_, _, name, folder = sys.argv
[test] = [getattr(module, name) for module in (durability, forks, sharing, use) if hasattr(module, name)]
test(folder)
