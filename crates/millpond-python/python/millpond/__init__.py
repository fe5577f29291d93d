"""NumPy arrays larger than memory, with a working set that stays.

`empty`, `zeros`, `ones` and `full` give a real `numpy.ndarray`. What of it is in use stays in memory, within a budget; the
rest is in a swap file. Both are given back when the last array or view is gone. A `Pond` is one budget for several arrays.

    >>> import millpond
    >>> a = millpond.zeros((1000, 10_000), "f4", memory="16M")      # 40 MB, of which at most 16 MiB are in memory
    >>> for n, row in enumerate(a):
    ...     row[:] = n
    >>> float(a[:, 0].sum())
    499500.0

A forked child does not have the memory: give `multiprocessing` the start method "spawn" or "forkserver", or use threads.
"""

import os as _os
import sys as _sys
import warnings as _warnings
import weakref as _weakref

import numpy as _np

from . import _arguments
from ._millpond import Block as _Block
from ._millpond import Pond as _Native
from ._millpond import __version__

__all__ = ["Pond", "empty", "full", "ones", "stats", "zeros"]

_PAGE = 4096
# Beside the pages of its arrays a budget has tables (26 bytes a frame, 16 a page of a region), buffers for input and
# output, and the free frames between the water marks: less than an eighth and 32 MiB together.
_BESIDE = 32 << 20
_COUNTED = (
    "arrays",
    "memory_bytes",
    "resident_bytes",
    "faults",
    "swap_ins",
    "refaults",
    "refaults_kept_by_double",
    "swap_outs",
    "swap_outs_failed",
    "swap_used_bytes",
    "swap_total_bytes",
    "warnings",
)

_ponds = _weakref.WeakSet()


def _before_fork():
    """What a forked child would die of."""
    if len(_ponds) > 0:
        _warnings.warn(
            "this process has arrays of millpond and forks: the child does not have their memory, and touching it there ends "
            'it with SIGSEGV (a Pool of multiprocessing then never answers). Start workers with get_context("spawn") or '
            '"forkserver", or use threads',
            RuntimeWarning,
            stacklevel=2,
        )


# What the parent has is not the child's.
_os.register_at_fork(before=_before_fork, after_in_child=_ponds.clear)


class Pond:
    """One budget of memory for several arrays, and the swap file behind it.

    `memory` is the budget, and `size` that of the swap file: the most that all arrays have together. Both are bytes, or
    text as "512M" (K, M, G, T: powers of 1024). `swap` is a folder (/var/tmp by default), where a file without a name is
    made, or a path for a file that is kept and may be used again.

        >>> with millpond.Pond("16M", "64M") as pond:
        ...     a, b = pond.ones(1_000_000), pond.empty(1_000_000)
        ...     b[:] = a
        ...     pond
        <millpond.Pond: 2 arrays, memory 16M, swap 64M in /var/tmp>

    Raises ValueError or TypeError for what can't be, with what is allowed; OSError if the system refuses the file, its room
    or userfaultfd. All of the budget and of the file is taken at once.
    """

    __slots__ = ("__weakref__", "_native", "_swap")

    def __init__(self, memory, size, swap=None):
        memory, size = _arguments.size_of("memory", memory), _arguments.size_of("size", size)
        self._native = None
        self._swap, is_temporary = _arguments.swap_path(swap)
        self._native = _Native(memory, self._swap, size, is_temporary)
        _ponds.add(self._native)
        self._tell()

    def _tell(self):
        """Warns of what the machine does not allow and is done without, once."""
        level, frame = 1, _sys._getframe()
        while frame.f_globals is globals() and frame.f_back is not None:
            level, frame = level + 1, frame.f_back
        for notice in self._native.new_notices():
            _warnings.warn(f"millpond: {notice}", RuntimeWarning, stacklevel=level)

    def _open(self):
        if self._native is None:
            raise ValueError("this pond is closed: make another")
        return self._native

    def empty(self, shape, dtype=float):
        """An array in this pond, of zeros: as `numpy.empty`, and the same as `zeros`.

        Takes no memory before it is touched. Raises ValueError if the pond has not so much room left.
        """
        native, (shape, dtype, size) = self._open(), _arguments.layout_of(shape, dtype)
        if size == 0:
            return _np.zeros(shape, dtype)
        block = _np.asarray(_Block(native, size))
        return block.view(dtype).reshape(shape)

    def zeros(self, shape, dtype=float):
        """An array of zeros in this pond, as `numpy.zeros`. Takes no memory before it is touched."""
        return self.empty(shape, dtype)

    def ones(self, shape, dtype=float):
        """An array of ones in this pond, as `numpy.ones`. Writes all of it."""
        return self.full(shape, 1, dtype)

    def full(self, shape, fill_value, dtype=None):
        """An array of `fill_value` in this pond, as `numpy.full`: the type is that of the value if none is given.

        Writes all of it.
        """
        return _filled(self.empty(shape, _type_of(fill_value, dtype)), fill_value)

    def set_memory(self, memory):
        """Another budget, at once: what has no room any more goes to swap.

        Raises ValueError, and changes nothing, if it is too small or more than the machine or its memory group allows.
        """
        self._open().set_memory(_arguments.size_of("memory", memory))
        self._tell()

    def stats(self):
        """What this pond has done and how full it is: as `millpond.stats`, for this one."""
        return self._open().counters()

    def close(self):
        """No more arrays. Memory and swap are given back now or, if there are arrays or views, with the last of them.

        Closing twice is no error. `with` closes at its end.
        """
        self._native = None

    @property
    def closed(self):
        """Whether it was closed."""
        return self._native is None

    def __enter__(self):
        self._open()
        return self

    def __exit__(self, *_):
        self.close()

    def __repr__(self):
        if self._native is None:
            return "<millpond.Pond: closed>"
        if not self._native.is_ours():
            return "<millpond.Pond: of the parent process>"
        did, text = self._native.counters(), _arguments.text_of
        arrays = f"{did['arrays']} array{'s' * (did['arrays'] != 1)}"
        return (
            f"<millpond.Pond: {arrays}, memory {text(did['memory_bytes'])}, swap {text(did['swap_total_bytes'])} in {self._swap}>"
        )


def empty(shape, dtype=float, *, memory, swap=None):
    """An array of any size, of which at most `memory` bytes are in memory; the rest is in a file. Its elements are zeros.

    `memory` (bytes, or text as "512M") is this array's own budget, with tables and buffers: at least about 1 MiB; no more
    of it is taken than the array can use. Several arrays in one budget: `Pond`. `swap` is a folder for the file (/var/tmp
    by default), which has no name there and as much room as the array, or a path for a file that is kept.

        >>> a = millpond.empty((500, 1000), memory="16M")
        >>> a.shape, a.dtype, bool(a.any())
        ((500, 1000), dtype('float64'), False)

    Raises ValueError or TypeError for what can't be, with what is allowed; OSError if the system refuses the file, its room
    or userfaultfd.
    """
    shape, dtype, size = _arguments.layout_of(shape, dtype)
    memory = _arguments.size_of("memory", memory)
    if size == 0:
        return _np.zeros(shape, dtype)
    most = size + size // 8 + _BESIDE
    return Pond(min(memory, most), -(-size // _PAGE) * _PAGE, swap).empty(shape, dtype)


def zeros(shape, dtype=float, *, memory, swap=None):
    """An array of zeros, as `numpy.zeros`: the same as `empty`.

        >>> float(millpond.zeros(3, memory="16M").sum())
        0.0
    """
    return empty(shape, dtype, memory=memory, swap=swap)


def ones(shape, dtype=float, *, memory, swap=None):
    """An array of ones, as `numpy.ones`. Writes all of it; arguments and errors as of `empty`.

        >>> float(millpond.ones((2, 3), "f4", memory="16M").sum())
        6.0
    """
    return full(shape, 1, dtype, memory=memory, swap=swap)


def full(shape, fill_value, dtype=None, *, memory, swap=None):
    """An array of `fill_value`, as `numpy.full`: the type is that of the value if none is given.

    Writes all of it; other arguments and errors as of `empty`.

        >>> millpond.full((2, 2), 7, memory="16M")
        array([[7, 7],
               [7, 7]])
    """
    return _filled(empty(shape, _type_of(fill_value, dtype), memory=memory, swap=swap), fill_value)


def stats():
    """What the open ponds of this process, and those that still have arrays, have done: a dictionary of sums.

    ponds, arrays; memory_bytes (their budgets), resident_bytes (pages in memory); faults (pages that were needed and not
    there), swap_ins, swap_outs, swap_outs_failed (pages of 4 KiB); refaults (pages that came back soon after they had to leave) and
    refaults_kept_by_double (of those, pages that twice the budget would have kept); swap_used_bytes, swap_total_bytes; warnings.

        >>> a = millpond.ones(1_000_000, memory="16M")
        >>> did = millpond.stats()
        >>> did["arrays"] >= 1, did["resident_bytes"] <= did["memory_bytes"]
        (True, True)
    """
    each = [pond.counters() for pond in list(_ponds)]
    return {"ponds": len(each)} | {name: sum(did[name] for did in each) for name in _COUNTED}


def _type_of(fill_value, dtype):
    return _np.asarray(fill_value).dtype if dtype is None else dtype


def _filled(array, fill_value):
    _np.copyto(array, fill_value, casting="unsafe")
    return array
