"""SQLite on a store, from Python: each test is a function. `run.py LIBRARY NAME FOLDER` runs one, in a new folder.

The Rust test `sqlite` runs them all, each in a process of its own.
"""

import sys

import programs
import stores

_, _, name, folder, *arguments = sys.argv
[test] = [getattr(module, name) for module in (programs, stores) if hasattr(module, name)]
test(folder, *arguments)
