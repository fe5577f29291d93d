"""The ponds of this process, as Rust has them: which there are, whose they are, what is said of them."""

import os
import sys
import uuid
import warnings
import weakref

from ._millpond import Pond

# Beside the pages of its arrays a budget has tables (26 bytes a frame, 16 a page of a region), buffers for input and
# output, and the free frames between the water marks: less than an eighth and 32 MiB together.
BESIDE = 32 << 20

ponds: weakref.WeakSet[Pond] = weakref.WeakSet()
# Of these, the ones that `open_array` and its like have made: their budgets are theirs to change.
_own: weakref.WeakSet[Pond] = weakref.WeakSet()
# Those that pickles name.
_named: weakref.WeakValueDictionary[str, Pond] = weakref.WeakValueDictionary()


def _before_fork():
    """What a forked child would die of."""
    if len(ponds) > 0:
        warnings.warn(
            "this process has arrays of millpond and forks: the child does not have their memory, and touching it there ends "
            'it with SIGSEGV (a Pool of multiprocessing then never answers). Start workers with get_context("spawn") or '
            '"forkserver", or use threads',
            RuntimeWarning,
            stacklevel=2,
        )


def _in_child():
    """What the parent has is not the child's."""
    ponds.clear()
    _own.clear()
    _named.clear()


os.register_at_fork(before=_before_fork, after_in_child=_in_child)


def make(memory, swap=None):
    """A pond of `memory` bytes. `swap`: a path, the size in bytes, and whether the file is to have no name."""
    pond = Pond(memory, swap)
    ponds.add(pond)
    return pond


def own(memory):
    """A pond for what has a budget of its own."""
    pond = make(memory)
    _own.add(pond)
    return pond


def raise_own(pond, memory):
    """At least `memory`, if the budget was made for an array."""
    if pond in _own and pond.counters()["memory_bytes"] < memory:
        pond.set_memory(memory)


def lower_own(pond):
    """The least, if the budget was made for an array and there are no others."""
    if pond in _own and pond.counters()["arrays"] <= 1:
        pond.set_memory_least()


def tell(pond):
    """Warns of what the machine does not allow and is done without, once."""
    level, frame = 1, sys._getframe()
    while frame.f_globals.get("__package__") == __package__ and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    for notice in pond.new_notices():
        warnings.warn(f"millpond: {notice}", RuntimeWarning, stacklevel=level)


def name_of(pond):
    """A name that no other pond has, in no process."""
    for name, known in list(_named.items()):
        if known is pond:
            return name
    name = uuid.uuid4().hex
    call(pond, name)
    return name


def call(pond, name):
    """From now on it is what `name` means here."""
    _named[name] = pond


def named(name):
    """The pond of this name; None if this process has it not, or not any more."""
    return _named.get(name)
