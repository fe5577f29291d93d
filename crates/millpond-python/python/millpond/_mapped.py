"""Arrays on files."""

import atexit
import math
import os
import sys
import weakref

import numpy as np

from . import _arguments, _budgets, _millpond
from ._millpond import File

# Those that are there, whichever pond they are in.
_files: weakref.WeakSet[File] = weakref.WeakSet()
os.register_at_fork(after_in_child=_files.clear)


@atexit.register
def _flush_all():
    """Writes stored data at the end of the program, even for arrays that Python does not delete then."""
    for file in list(_files):
        if file.is_writable and not file.closed:
            try:
                file.sync()
            except OSError:
                sys.excepthook(*sys.exc_info())


def files_of(identity):
    """The files of this process that are the one of this device and inode."""
    return [file for file in list(_files) if file.identity == identity]


def pond_for(asked, size, memory):
    """The pond of an array of `size` bytes that is in none of the user's, where its file is already, if it is; and what it asks
    for, for `array_in`."""
    # No more than it can use: beside its own pages 4 bytes for each page of the file up to its end, and what an array has.
    memory = memory.up_to(size + size // 8 + (asked.offset + size) // 512 + _budgets.BESIDE)
    here = files_of(asked.identity)
    if here:
        return here[0].pond, _budgets.raise_own(here, memory)
    return _budgets.own(memory, _millpond.beside(size, asked.offset) if size > 0 else 0)


def size_of(asked):
    """The bytes of the array, as far as they are known before its file is open."""
    if asked.shape is None:
        return max(asked.file_len - asked.offset, 0)
    return math.prod(asked.shape) * asked.dtype.itemsize


def array_in(pond, asked, ask=None):
    """An array on a file in `pond`, a native one, as `_arguments.file_array` has checked it."""
    file = _open_in(pond, asked, ask)
    here = file.len()
    shape = (_count(asked, here),) if asked.shape is None else asked.shape
    size = math.prod(shape) * asked.dtype.itemsize
    end = asked.offset + size
    if end > here and not file.is_writable:
        raise ValueError(
            f"an array of shape {shape} and {asked.dtype} ends at byte {end} of {asked.path}, which has {here}: "
            "it must fit into the file, or mode 'r+' must be given, which extends it"
        )
    _map(file, asked.offset, size)
    # What can't be mapped is not made longer.
    if end > here:
        file.grow(end)
    array = _view(file, shape, asked.dtype, order=asked.order)
    array._first = asked.offset
    return array


def save_in(pond, asked, array, ask=None):
    """Writes `array` as NumPy does, part by part."""
    if any(file.part[1] > 0 and np.may_share_memory(array, np.asarray(file)) for file in files_of(asked.identity)):
        raise ValueError(f"{asked.path} can't be saved to: it is the file that this array is on; flush() saves it")
    file = _open_in(pond, asked, ask)
    _files.add(file)
    np.lib.format.write_array(_Output(file), array, allow_pickle=False)
    file.close()
    _budgets.lower_own(file)


class _Output:
    """A file for NumPy to write to, that it does not take for one of the system's: these can't have all memory."""

    def __init__(self, file):
        self._file = file
        self._end = 0

    def write(self, data):
        self._file.write(bytes(data), self._end)
        self._end += len(data)


def _open_in(pond, asked, ask=None):
    here = files_of(asked.identity)
    elsewhere = [file for file in here if file.pond is not pond]
    if elsewhere and (asked.mode != "r" or any(file.is_writable for file in elsewhere)):
        raise ValueError(
            f"{asked.path} has arrays in another pond of this process, and neither would see what is written in the other: "
            "open it there, or close and delete those before"
        )
    if asked.mode == "w+":
        end, longest = asked.offset + size_of(asked), max((file.part[1] for file in here if not file.closed), default=0)
        if longest > end:
            raise ValueError(
                f"mode 'w+' would cut {asked.path} to {end} bytes below an array of its first {longest}: close or delete that "
                "before, or open with 'r+'"
            )
    file = File(pond, asked.path, asked.mode)
    _budgets.holds(file, ask)
    return file


def _count(asked, here):
    """The number of elements up to the end of the file."""
    if here < asked.offset:
        raise ValueError(f"offset can't be {asked.offset}: {asked.path} has {here} bytes")
    count, rest = divmod(here - asked.offset, asked.dtype.itemsize)
    if rest:
        raise ValueError(
            f"{asked.path} has {here - asked.offset} bytes from offset {asked.offset} on, no multiple of the "
            f"{asked.dtype.itemsize} of {asked.dtype}: give a shape, or another dtype or offset"
        )
    return count


def _map(file, start, size):
    if size > 0:
        file.map(start, size)
    _files.add(file)


def _view(file, shape, dtype, first=0, strides=None, order="C"):
    memory = np.asarray(file) if file.part[1] > 0 else np.empty(0, "u1")
    array = np.ndarray.__new__(MappedArray, shape, dtype, memory, first, strides, order)
    array._file = file
    return array


def _reopen(name, memory, place, dtype, shape, strides, first):
    """What was pickled: where its pond is, as it was; else for reading."""
    path, mode, start, size = place
    memory = _arguments.Memory(memory, memory)
    pond, ask, mode = _budgets.named(name), None, "r" if mode == "r" else "r+"
    asked = _arguments.FileArray(path, np.dtype("u1"), mode, start, (size,), "C")
    if pond is None:
        if not (_budgets.is_here(name) and files_of(asked.identity)):
            asked = asked._replace(mode="r")
        pond, ask = pond_for(asked, size, memory)
        _budgets.tell(pond)
        if not _budgets.is_shared(name):
            _budgets.call(pond, name)
    file = _open_in(pond, asked, ask)
    if file.len() < start + size:
        raise ValueError(f"{path} has {file.len()} bytes, and had {start + size} when this array was pickled")
    _map(file, start, size)
    return _view(file, shape, dtype, first, strides)


class MappedArray(np.ndarray):
    """An array on a file, made by `open_array`, `load` and `save`: a `numpy.ndarray` that also has what `numpy.memmap` has.

    Views of it are on the file too, and their calls are about their part. Results of operations, and copies, are in memory;
    calls about a file raise ValueError there.
    """

    __module__ = "millpond"
    # Beside other arrays the result is of their type.
    __array_priority__ = -100.0
    _file = None
    # Where the array in the file begins of which it is a view.
    _first = 0

    def __array_finalize__(self, base):
        file = getattr(base, "_file", None)
        if file is not None and (self.size == 0 or np.may_share_memory(self, base)):
            self._file = file
            self._first = base._first

    def __array_wrap__(self, array, context=None, return_scalar=False):
        if array is self:
            return array
        plain = array.view(np.ndarray)
        return plain[()] if return_scalar or plain.ndim == 0 else plain

    def _of_file(self):
        if self._file is None:
            raise ValueError("this array is not on a file: it is a copy, or the result of an operation")
        return self._file

    def _open_file(self):
        file = self._of_file()
        if file.closed:
            raise ValueError(f"this array of {file.path} is closed: open it again")
        return file

    def _place(self):
        """Its bytes in the memory of its file, first and behind the last, and where its first element is."""
        if self.size == 0:
            return 0, 0, 0
        first = self.__array_interface__["data"][0] - self._file.__array_interface__["data"][0]
        low, high = first, first + self.itemsize
        for n, stride in zip(self.shape, self.strides):
            if stride < 0:
                low += (n - 1) * stride
            else:
                high += (n - 1) * stride
        return low, high, first

    @property
    def filename(self):
        """The absolute path of the file; None of a copy."""
        return self._file and self._file.path

    @property
    def mode(self):
        """As `open_array` was told: r, r+ or w+; None of a copy."""
        return self._file and self._file.mode

    @property
    def offset(self):
        """Where in the file its first element is, in bytes; None of a copy."""
        if self._file is None or self.size > 0:
            return self._file and self._file.part[0] + self._place()[2]
        return self._first

    def flush(self):
        """Makes durable what was stored in the file, by any array of it.

        Raises OSError, with `errno`, if that can't be: what was stored stays in memory and in all arrays of the file, and the
        next flush tries again. Of an array for reading it does nothing.
        """
        file = self._open_file()
        if file.is_writable:
            file.sync()

    def advise(self, how, record=None):
        """Says how it will be used: "random", "sequential" or "normal", for all of the file; "records", with the bytes of a
        record, 4 MiB at most: a touch reads the whole record that is at a multiple of that in the file; "willneed" starts to
        read this array, or view, and does not wait; "dontneed" gives its memory to others.
        """
        low, high, _ = self._place() if self._file is not None else (0, 0, 0)
        file = self._open_file()
        if file.part[1] > 0:
            file.advise(how, record, (low, high))

    def prefetch(self):
        """Starts to read what of this array, or view, is not in memory, as far as there is room, and does not wait."""
        self.advise("willneed")

    def close(self):
        """Makes durable what was stored, and gives back memory. `with` closes at its end. Closing twice is no error.

        Raises OSError if that can't be, and is not closed then. It can be written no more; what other views it has stay as
        they are, within the least budget if it has one of its own. The last of them that is gone closes the file.
        """
        file = self._of_file()
        if not file.closed:
            file.close()
            _budgets.lower_own(file)
        self.flags.writeable = False

    @property
    def closed(self):
        """Whether it was closed, by any of its views."""
        return self._of_file().closed

    def __enter__(self):
        self._open_file()
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        """By path: what is stored is made durable, and another process has the file for reading, in a budget of its own."""
        if self._file is None or self.size == 0:
            return np.asarray(self).__reduce__()
        if self._file.is_writable:
            self._file.sync()
        low, high, first = self._place()
        place = (self._file.path, self._file.mode, self._file.part[0] + low, high - low)
        name, memory = _budgets.name_of(self._file)
        return _reopen, (name, memory, place, self.dtype, self.shape, self.strides, first - low)
