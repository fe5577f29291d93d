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

_EXEC = {name for name in os.__all__ if name.startswith("exec")}

ponds: weakref.WeakSet[Pond] = weakref.WeakSet()
# Of these, the ones that `open_array` and its like have made: their budgets are theirs to change.
_own: weakref.WeakSet[Pond] = weakref.WeakSet()
# Those that pickles name.
_named: weakref.WeakValueDictionary[str, Pond] = weakref.WeakValueDictionary()


def _before_fork():
    """What a forked child would die of, unless all it does is to run another program."""
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
    """What the parent has is not the child's."""
    ponds.clear()
    _own.clear()
    _named.clear()


os.register_at_fork(before=_before_fork, after_in_child=_in_child)


def make(memory, swap=None, beside=0):
    """A pond with a budget, a `Memory`. `swap`: a path, the size in bytes, and whether the file is to have no name. `beside`:
    bytes of the budget that an array will take which it is made for, beside its pages."""
    pond = Pond(memory, swap, beside)
    ponds.add(pond)
    return pond


def own(memory, beside):
    """A pond for what has a budget of its own."""
    pond = make(memory, beside=beside)
    _own.add(pond)
    return pond


def raise_own(pond, memory):
    """At least `memory`, if the budget was made for an array."""
    if pond in _own and pond.counters()["memory_bytes"] < memory.most:
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
