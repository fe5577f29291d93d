"""NumPy arrays larger than memory, with a working set that stays.

`empty`, `zeros`, `ones` and `full` give a real `numpy.ndarray`. What of it is in use stays in memory, within a budget; the
rest is in a swap file. Both are given back when the last array or view is gone. A `Pond` is one budget for several arrays.

    >>> import millpond
    >>> a = millpond.zeros((1000, 10_000), "f4", memory="16M")      # 40 MB, of which at most 16 MiB are in memory
    >>> for n, row in enumerate(a):
    ...     row[:] = n
    >>> float(a[:, 0].sum())
    499500.0

`open_array` gives a file as an array, as `numpy.memmap` does, within a budget too; `load` and `save` are for `.npy` files.

A forked child does not have the memory: give `multiprocessing` the start method "spawn" or "forkserver", or use threads.
"""

import numpy as _np

from . import _arguments, _budgets, _mapped, _millpond
from ._mapped import MappedArray
from ._millpond import Block as _Block
from ._millpond import __version__

__all__ = ["MappedArray", "Pond", "empty", "full", "load", "ones", "open_array", "save", "stats", "zeros"]

_PAGE = 4096


class Pond:
    """One budget of memory for several arrays, on files and in a swap file.

    `memory` is the budget, and `size` that of the swap file: the most that all arrays have together which are on no file of
    their own; without it there are none. Both are bytes, or text as "512M" or "1.5G"; `memory` may be "10%", "auto:1G..4G" or
    "auto" as well. `swap` is a folder
    (/var/tmp by default), where a file without a name is made, or a file that is there, empty at first, and is kept.

        >>> with millpond.Pond("16M", "64M") as pond:
        ...     a, b = pond.ones(1_000_000), pond.empty(1_000_000)
        ...     b[:] = a
        ...     pond
        <millpond.Pond: 2 arrays, memory 16M, swap 64M in /var/tmp>

    Raises ValueError or TypeError for what can't be, with what is allowed; OSError if the system refuses the file, its room
    or userfaultfd. Warns (RuntimeWarning) if the machine has less memory free than the budget. All of the file is taken at once;
    memory when arrays use it.
    """

    __slots__ = ("__weakref__", "_native", "_swap")

    def __init__(self, memory, size=None, swap=None):
        self._native = self._swap = None
        self._make(_arguments.memory_of(memory), size, swap)

    @classmethod
    def _of(cls, memory, size, swap, beside):
        """A pond for an array that takes this many bytes of the budget besides its pages."""
        pond = cls.__new__(cls)
        pond._native = pond._swap = None
        pond._make(memory, size, swap, beside)
        return pond

    def _make(self, memory, size, swap, beside=0):
        behind = None
        if size is not None:
            size = _arguments.size_of("size", size)
            self._swap, is_temporary = _arguments.swap_path(swap)
            behind = (self._swap, size, is_temporary)
        elif swap is not None:
            raise ValueError("size must be given with swap: the bytes of the swap file")
        self._native = _budgets.make(memory, behind, beside)
        _budgets.tell(self._native)

    def _open(self):
        if self._native is None:
            raise ValueError("this pond is closed: make another")
        return self._native

    def empty(self, shape, dtype=float, order="C"):
        """An array in this pond, of zeros: as `numpy.empty`, and the same as `zeros`.

        Takes no memory before it is touched. Raises ValueError if the pond has not so much room left.
        """
        native, (shape, dtype, size) = self._open(), _arguments.layout_of(shape, dtype)
        _arguments.check_order(order)
        if size == 0:
            return _np.zeros(shape, dtype, order)
        block = _np.asarray(_Block(native, size))
        return block.view(dtype).reshape(shape, order=order)

    def zeros(self, shape, dtype=float, order="C"):
        """An array of zeros in this pond, as `numpy.zeros`. Takes no memory before it is touched."""
        return self.empty(shape, dtype, order)

    def ones(self, shape, dtype=float, order="C"):
        """An array of ones in this pond, as `numpy.ones`. Writes all of it."""
        return self.full(shape, 1, dtype, order)

    def full(self, shape, fill_value, dtype=None, order="C"):
        """An array of `fill_value` in this pond, as `numpy.full`: the type is that of the value if none is given.

        Writes all of it.
        """
        return _filled(self.empty(shape, _type_of(fill_value, dtype), order), fill_value)

    def open_array(self, path, dtype, mode="r", offset=0, shape=None, order="C"):
        """A file as an array in this pond: as `millpond.open_array`, with the pond's budget.

        Raises ValueError also if the file has arrays in another pond of this process, unless all of them only read.
        """
        native, asked = self._open(), _arguments.file_array(path, dtype, mode, offset, shape, order)
        return _in(native, None, asked)

    def load(self, path, mode="r"):
        """The array in a `.npy` file, in this pond: as `millpond.load`."""
        native = self._open()
        return _in(native, None, _arguments.npy_array(path, mode))

    def save(self, path, array):
        """Writes an array into a `.npy` file, within the budget of this pond: as `millpond.save`."""
        native, array = self._open(), _np.asarray(array)
        _mapped.save_in(native, _arguments.new_npy(path, array), array)
        _budgets.tell(native)

    def set_memory(self, memory):
        """Sets another budget, at once: pages that no longer fit go to swap.

        Raises ValueError, and changes nothing, if it is too small or more than the machine or its memory group allows.
        """
        native = self._open()
        native.set_memory(_arguments.memory_of(memory))
        _budgets.tell(native)

    def stats(self):
        """This pond's activity and how full it is: as `millpond.stats`, for this one."""
        return self._open().counters()

    def close(self):
        """Closes the pond to new arrays. Memory and swap are given back now or, if there are arrays or views, with the last of them.

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
        swap = f"swap {text(did['swap_total_bytes'])} in {self._swap}" if self._swap else "no swap"
        return f"<millpond.Pond: {arrays}, memory {text(did['memory_bytes'])}, {swap}>"


def empty(shape, dtype=float, order="C", *, memory, swap=None):
    """An array of zeros of any size, with at most `memory` bytes in memory and the rest in a file.

    `memory` (bytes, or text as "512M", "10%", "auto") is this array's own budget, with tables and buffers: at least about 1 MiB; no more
    of it is taken than the array can use. Several arrays in one budget: `Pond`. `swap` is a folder for the file (/var/tmp
    by default), which has no name there and as much room as the array, or a file that is there, empty at first, and is kept.

        >>> a = millpond.empty((500, 1000), memory="16M")
        >>> a.shape, a.dtype, bool(a.any())
        ((500, 1000), dtype('float64'), False)

    Raises ValueError or TypeError for what can't be, with what is allowed; OSError if the system refuses the file, its room
    or userfaultfd.
    """
    shape, dtype, size = _arguments.layout_of(shape, dtype)
    memory = _arguments.memory_of(memory)
    _arguments.check_order(order)
    if size == 0:
        return _np.zeros(shape, dtype, order)
    most = size + size // 8 + _budgets.BESIDE
    pond = Pond._of(memory.up_to(most), -(-size // _PAGE) * _PAGE, swap, _millpond.beside(size))
    return pond.empty(shape, dtype, order)


def zeros(shape, dtype=float, order="C", *, memory, swap=None):
    """An array of zeros, as `numpy.zeros`: the same as `empty`.

        >>> float(millpond.zeros(3, memory="16M").sum())
        0.0
    """
    return empty(shape, dtype, order, memory=memory, swap=swap)


def ones(shape, dtype=float, order="C", *, memory, swap=None):
    """An array of ones, as `numpy.ones`. Writes all of it; arguments and errors as of `empty`.

        >>> float(millpond.ones((2, 3), "f4", memory="16M").sum())
        6.0
    """
    return full(shape, 1, dtype, order, memory=memory, swap=swap)


def full(shape, fill_value, dtype=None, order="C", *, memory, swap=None):
    """An array of `fill_value`, as `numpy.full`: the type is that of the value if none is given.

    Writes all of it; other arguments and errors as of `empty`.

        >>> millpond.full((2, 2), 7, memory="16M")
        array([[7, 7],
               [7, 7]])
    """
    return _filled(empty(shape, _type_of(fill_value, dtype), order, memory=memory, swap=swap), fill_value)


def open_array(path, dtype, mode="r", offset=0, shape=None, order="C", *, memory):
    """A file as an array, as `numpy.memmap` gives it, with at most `memory` bytes in memory.

    `mode`: "r" to read a file, "r+" to write it too, "w+" to make it, or to make it anew. `offset` is in bytes. Without a
    `shape` it has all that the file has from there on; "r+" makes a file longer that is too short for it. `order`: "C" or "F".

    What is stored is the file's: it is written by and by, and durable after `flush`, `close` or the end of `with`; what can't
    be written is an OSError there. A read that fails is SIGBUS for the program, as with `numpy.memmap`, and a line on stderr
    says why.

    `memory` (bytes, or text as "512M", "10%", "auto") is what this array adds to the budget of all that are opened so, at least about
    1 MiB, until it is closed or gone; no more of it is taken than the array can use. Arrays of one file add one, the larger of
    theirs. Where the host decides ("auto") it is the array's own. Files in a budget apart: `Pond.open_array`.

        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        >>> with millpond.open_array(folder.name + "/a", "f4", "w+", shape=(500, 1000), memory="16M") as a:
        ...     a[:] = 1.5
        >>> b = millpond.open_array(folder.name + "/a", "f4", memory="16M")
        >>> b.shape, float(b.sum()), b.flags.writeable
        ((500000,), 750000.0, False)
        >>> del a, b

    Raises ValueError or TypeError for what can't be, with what is allowed; OSError if the system refuses the file or
    userfaultfd.
    """
    asked = _arguments.file_array(path, dtype, mode, offset, shape, order)
    memory = _arguments.memory_of(memory)
    return _in(*_mapped.pond_for(asked, _mapped.size_of(asked), memory), asked)


def load(path, mode="r", *, memory):
    """The array in a `.npy` file, as `numpy.load` with `mmap_mode` gives it, with at most `memory` bytes in memory.

    `mode`: "r" to read, "r+" to write it too. Arrays, budget and errors as of `open_array`; ValueError also for a file that is
    of no such kind, and for one with Python objects.
    """
    asked = _arguments.npy_array(path, mode)
    memory = _arguments.memory_of(memory)
    return _in(*_mapped.pond_for(asked, _mapped.size_of(asked), memory), asked)


def save(path, array, *, memory):
    """Writes an array of any kind into a `.npy` file, as `numpy.save`, with at most `memory` bytes in memory.

    It is durable when that returns. Raises OSError if it can't be written, and then the file has a part of it.

        >>> import tempfile
        >>> folder = tempfile.TemporaryDirectory(dir="/var/tmp")
        >>> millpond.save(folder.name + "/a.npy", millpond.full((2, 3), 7, memory="16M"), memory="16M")
        >>> millpond.load(folder.name + "/a.npy", memory="16M")
        MappedArray([[7, 7, 7],
                     [7, 7, 7]])
    """
    array = _np.asarray(array)
    asked, memory = _arguments.new_npy(path, array), _arguments.memory_of(memory)
    native, ask = _mapped.pond_for(asked, array.nbytes, memory)
    _mapped.save_in(native, asked, array, ask)
    _budgets.tell(native)


def _in(pond, ask, asked):
    array = _mapped.array_in(pond, asked, ask)
    _budgets.tell(pond)
    return array


def stats():
    """The activity of this process's open ponds, and of those that still have arrays: a dictionary of sums.

    ponds, arrays; memory_bytes (their budgets), resident_bytes (pages in memory); faults (pages that were needed and not
    there), swap_ins, swap_outs, swap_outs_failed (pages of 4 KiB); refaults (pages that came back soon after they had to leave) and
    refaults_kept_by_double (of those, pages that twice the budget would have kept); swap_used_bytes, swap_total_bytes; warnings.

        >>> a = millpond.ones(1_000_000, memory="16M")
        >>> did = millpond.stats()
        >>> did["arrays"] >= 1, did["resident_bytes"] <= did["memory_bytes"]
        (True, True)
    """
    each = [pond.counters() for pond in list(_budgets.ponds)]
    return {"ponds": len(each)} | {name: sum(did[name] for did in each) for name in _millpond.counted()}


def _type_of(fill_value, dtype):
    return _np.asarray(fill_value).dtype if dtype is None else dtype


def _filled(array, fill_value):
    _np.copyto(array, fill_value, casting="unsafe")
    return array
