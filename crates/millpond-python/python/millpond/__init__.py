"""NumPy arrays larger than memory, with a working set that stays.

An array of `empty` is a real `numpy.ndarray` on anonymous memory of Millpond: what is in use stays in memory, the rest
is in a swap file, and both are given back when the last array or view is gone.

    >>> import millpond
    >>> a = millpond.empty(400_000_000, "f8", memory="512M")     # 3.2 GB of zeros in 512 MiB
    >>> a[:] = range(400_000_000)
    >>> millpond.stats()["swap_outs"]
"""

import math
import os
import re
import warnings
import weakref

import numpy as np

from ._millpond import Block as _Block
from ._millpond import Pond as _Native

__all__ = ["Pond", "empty", "stats"]

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SWAP_FOLDER = "/var/tmp"
_PAGE = 4096
# Beside the pages of its arrays a budget has tables (26 bytes a frame, 16 a page of a region), buffers for input and
# output, and the free frames between the water marks: less than an eighth and 32 MiB together.
_BESIDE = 32 << 20

_ponds = weakref.WeakSet()


def _bytes(what, value):
    """A number of bytes: an int, or text as "512M"."""
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", value.strip(), re.IGNORECASE)
        if match is None:
            raise ValueError(f"{what} can't be {value!r}: allowed is a number of bytes, or one with K, M, G or T as '512M'")
        value = int(match[1]) * _UNITS[match[2].upper()]
    elif isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} must be a number of bytes or text as '512M', not {type(value).__name__}")
    value = value.__index__()
    if not 0 < value < 1 << 63:
        raise ValueError(f"{what} can't be {value} bytes: allowed is 1 to 2^63 - 1")
    return value


def _shape(shape, dtype):
    """The shape as a tuple, the element type, and the bytes of such an array."""
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(f"elements can't be {dtype}: allowed are types without references to Python objects")
    if hasattr(shape, "__index__"):
        shape = (shape,)
    try:
        shape = tuple(n.__index__() for n in shape)
    except (TypeError, AttributeError):
        raise TypeError(f"a shape must be an integer or a sequence of integers, not {shape!r}") from None
    if any(n < 0 for n in shape):
        raise ValueError(f"a shape can't be {shape}: no dimension may be negative")
    size = math.prod(shape) * dtype.itemsize
    if size >= 1 << 47:
        raise ValueError(f"an array of shape {shape} and {dtype} has {size} bytes: allowed is less than 2^47")
    return shape, dtype, size


def _swap(swap):
    """The path of a swap file, and whether it is to have no name: in a folder it has none, a name given is kept."""
    path = os.fspath(_SWAP_FOLDER if swap is None else swap)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    return path, os.path.isdir(path)


def _before_fork():
    """What a forked child would die of without a word."""
    if len(_ponds) > 0:
        warnings.warn(
            "this process has arrays of millpond and forks: the child does not have their memory, and touching it there ends "
            'it with SIGSEGV (a Pool of multiprocessing then never answers). Start workers with get_context("spawn") or '
            '"forkserver"',
            RuntimeWarning,
            stacklevel=2,
        )


os.register_at_fork(before=_before_fork)


class Pond:
    """One budget of memory for several arrays, and the swap file behind it.

    `memory`: the budget; `size`: of the swap file, and so the most that all arrays have together; both in bytes or as
    "512M". `swap`: a folder (a file without a name is made there; /var/tmp by default), or a file, which is kept
    and may be used again.
    """

    __slots__ = ("__weakref__", "_native")

    def __init__(self, memory, size, swap=None):
        memory, size = _bytes("memory", memory), _bytes("size", size)
        path, is_temporary = _swap(swap)
        self._native = _Native(memory, path, size, is_temporary)
        _ponds.add(self._native)

    def empty(self, shape, dtype=float):
        """An array in this pond. Its elements are zeros."""
        shape, dtype, size = _shape(shape, dtype)
        if size == 0:
            return np.zeros(shape, dtype)
        block = np.asarray(_Block(self._native, size))
        return block.view(dtype).reshape(shape) if dtype.itemsize else np.zeros(shape, dtype)

    def set_memory(self, memory):
        """Another budget, at once, for what is in memory too."""
        self._native.set_memory(_bytes("memory", memory))

    def stats(self):
        """What this pond has done and how full it is: as `millpond.stats`."""
        return self._native.counters()


def empty(shape, dtype=float, *, memory, swap=None):
    """An array of any size, of which at most `memory` bytes are in memory; the rest is in a file.

    `memory` (bytes, or "512M") is this array's own budget; no more of it is taken than the array can use. Several arrays
    in one budget: `Pond`. `swap`: a folder for the file (/var/tmp by default), which has no name there, or a file. Its
    elements are zeros.

    Raises ValueError or TypeError for what can't be, with what is allowed; OSError if the system refuses the file, its
    room, or userfaultfd.
    """
    shape, dtype, size = _shape(shape, dtype)
    memory = _bytes("memory", memory)
    if size == 0:
        return np.zeros(shape, dtype)
    most = size + size // 8 + _BESIDE
    return Pond(min(memory, most), -(-size // _PAGE) * _PAGE, swap).empty(shape, dtype)


def stats():
    """What the ponds of this process have done, those that are gone left out, as a dictionary of sums.

    ponds; resident_bytes (pages in memory); faults (pages that were needed and not there); swap_ins, swap_outs (pages
    read and written); swap_outs_failed; swap_used_bytes, swap_total_bytes; warnings.
    """
    total = {"ponds": 0}
    for pond in list(_ponds):
        total["ponds"] += 1
        for name, value in pond.counters().items():
            total[name] = total.get(name, 0) + value
    return total
