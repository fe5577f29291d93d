"""The ponds of this process, as Rust has them: which exist, whose they are, and their notices.

What `open_array` and its like open is in one pond, whose budget is the sum of what they ask for: a pond of its own would cost
each array two threads and seven descriptors. What has a budget that the host decides about is in a pond of its own.
"""

import os
import sys
import threading
import uuid
import warnings
import weakref

from . import _millpond
from ._millpond import Pond

# Beside the pages of its arrays a budget has tables (26 bytes a frame, 16 a page of a region), buffers for input and
# output, and the free frames between the water marks: less than an eighth and 32 MiB together.
BESIDE = 32 << 20

_EXEC = {name for name in os.__all__ if name.startswith("exec")}

ponds: weakref.WeakSet[Pond] = weakref.WeakSet()
# Of these, the ones that `open_array` and its like have made: their budgets are theirs to change.
_own: weakref.WeakSet[Pond] = weakref.WeakSet()
# Those that are shared, of which new arrays are in the last, and what the arrays in each ask for; of which files these are.
_shared: weakref.ref[Pond] | None = None
_asks: weakref.WeakKeyDictionary[Pond, weakref.WeakSet["Ask"]] = weakref.WeakKeyDictionary()
_ask_of: weakref.WeakKeyDictionary[_millpond.File, "Ask"] = weakref.WeakKeyDictionary()
_fitting = threading.RLock()
# In the place of a name: this process's shared pond, which is none of another's.
_here = "shared " + uuid.uuid4().hex
# Those that pickles name.
_named: weakref.WeakValueDictionary[str, Pond] = weakref.WeakValueDictionary()


def _before_fork():
    """Warns of memory whose use would kill a forked child, unless the child only runs another program."""
    if len(ponds) > 0 and not _runs_a_program(sys._getframe(1)):
        warnings.warn(
            "this process has arrays of millpond and forks: the child does not have their memory, and touching it there ends "
            'it with SIGSEGV (a Pool of multiprocessing then never answers). Start workers with get_context("spawn") or '
            '"forkserver", or use threads',
            RuntimeWarning,
            stacklevel=2,
        )


def _runs_a_program(frame):
    """Whether what forks in this frame does so for another program: it names one of the calls for that, as code does that has
    both halves of a fork at hand, or it is of the standard library, with the call in other hands."""
    # os.fork, pty.fork, and what calls these.
    for _ in range(3):
        if frame is None or frame.f_globals.get("__name__") == "multiprocessing.popen_fork":
            return False
        code = frame.f_code
        if frame.f_globals.get("__name__") == "subprocess" or code.co_name == "_spawnvef" or _EXEC.intersection(code.co_names):
            return True
        frame = frame.f_back
    return False


def _in_child():
    """Forgets the parent's ponds in a child."""
    global _shared, _fitting, _here
    ponds.clear()
    _own.clear()
    _named.clear()
    _shared, _fitting, _here = None, threading.RLock(), "shared " + uuid.uuid4().hex
    _asks.clear()
    _ask_of.clear()


os.register_at_fork(before=_before_fork, after_in_child=_in_child)


def make(memory, swap=None, beside=0):
    """A pond with a budget, a `Memory`. `swap`: a path, the size in bytes, and whether the file is to have no name. `beside`:
    bytes of the budget that an array will take which it is made for, beside its pages."""
    pond = Pond(memory, swap, beside)
    ponds.add(pond)
    return pond


class Ask:
    """The budget requested by the arrays of one file. It goes with the last of them, and the shared budget shrinks."""

    __slots__ = ("__weakref__", "most")

    def __init__(self, most):
        self.most = most


def own(memory, beside):
    """A pond for an array with a budget, and what it asks for of it: to be given to `holds`, or forgotten. None of a pond
    that it has alone."""
    global _shared
    if memory.least != memory.most:
        pond = make(memory, beside=beside)
        _own.add(pond)
        return pond, None
    with _fitting:
        pond = _shared and _shared()
        # A pond without requests goes with its last views.
        if not pond or len(_asks[pond]) == 0:
            pond = make(memory, beside=beside)
            _shared = weakref.ref(pond)
            _asks[pond] = weakref.WeakSet()
        else:
            _millpond.check_memory(memory.most, beside)
            _raise(pond, memory.most)
        return pond, _ask(pond, memory.most)


def _ask(pond, most):
    ask = Ask(most)
    _asks[pond].add(ask)
    weakref.finalize(ask, _lower, weakref.ref(pond)).atexit = False
    return ask


def holds(file, ask):
    """The arrays on this file have the requested budget."""
    if ask is not None:
        _ask_of[file] = ask


def _raise(pond, more):
    others, count = sum(ask.most for ask in _asks[pond]), len(_asks[pond])
    try:
        pond.set_memory((others + more, others + more))
    except ValueError as why:
        if count == 0:
            raise
        raise ValueError(f"{why} (with the budgets of {count} other files that have arrays, {others} bytes)") from None


def _lower(pond):
    """Sets the budget to the sum of the remaining requests."""
    with _fitting:
        pond = pond()
        if pond is None or pond not in _asks or not pond.is_ours():
            return
        most = sum(ask.most for ask in _asks[pond])
        try:
            if most > 0:
                pond.set_memory((most, most))
            elif pond.counters()["arrays"] <= 1:
                pond.set_memory_least()
        except ValueError:
            # What views of closed arrays have takes more than that: it stays.
            pass


def raise_own(files, memory):
    """At least `memory` for the arrays of these files, which are one, if it has a budget that was made for them. What they ask
    for."""
    pond = files[0].pond
    with _fitting:
        if pond in _asks:
            ask = next((_ask_of[file] for file in files if file in _ask_of), None)
            if ask is None:
                _raise(pond, memory.most)
                return _ask(pond, memory.most)
            if ask.most < memory.most:
                _raise(pond, memory.most - ask.most)
                ask.most = memory.most
            return ask
    if pond in _own and pond.counters()["memory_bytes"] < memory.most:
        pond.set_memory(memory)
    return None


def lower_own(file):
    """The array is closed: what it asked for goes, unless others of its file have it; of a budget of its own all but the
    least."""
    _ask_of.pop(file, None)
    if file.pond in _own and file.pond.counters()["arrays"] <= 1:
        file.pond.set_memory_least()


def tell(pond):
    """Warns of each limitation of the machine, once."""
    level, frame = 1, sys._getframe()
    while frame.f_globals.get("__package__") == __package__ and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    for notice in pond.new_notices():
        warnings.warn(f"millpond: {notice}", RuntimeWarning, stacklevel=level)


def name_of(file):
    """A name that the file's pond has alone, in all processes, and its budget."""
    pond, ask = file.pond, _ask_of.get(file)
    if ask is not None:
        return _here, ask.most
    name = next((name for name, known in list(_named.items()) if known is pond), None)
    if name is None:
        name = uuid.uuid4().hex
        call(pond, name)
    return name, pond.counters()["memory_bytes"]


def is_here(name):
    """Whether this process's shared pond is meant."""
    return name == _here


def is_shared(name):
    """Whether any process's shared pond is meant."""
    return name.startswith("shared ")


def call(pond, name):
    """Makes `name` refer to it here from now on."""
    _named[name] = pond


def named(name):
    """The pond of this name; None if this process does not have it, or no longer."""
    return _named.get(name)
