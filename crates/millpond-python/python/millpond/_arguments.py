"""Users' arguments, checked: sizes, shapes, element types and paths for swap."""

import errno
import math
import operator
import os
import tokenize
from typing import NamedTuple

import numpy as np

from . import _millpond

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
SWAP_FOLDER = "/var/tmp"
# What numpy says of a file that begins as a .npy file and is none.
NOT_NPY = (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError, tokenize.TokenError)
MODES = {"r": "r", "readonly": "r", "r+": "r+", "readwrite": "r+", "w+": "w+", "write": "w+"}


class FileArray(NamedTuple):
    """A request for an array on a file."""

    path: str
    dtype: np.dtype
    mode: str
    offset: int
    # None: as many elements as the file has.
    shape: tuple[int, ...] | None
    order: str

    @property
    def identity(self):
        """Device and inode of the file; None if there is none yet."""
        about = self._about()
        return about and (about.st_dev, about.st_ino)

    @property
    def file_len(self):
        """Its length in bytes; 0 for a device or a missing file."""
        about = self._about()
        return about.st_size if about else 0

    def _about(self):
        try:
            return os.stat(self.path)
        except OSError:
            # Opening it says why.
            return None


class Memory(NamedTuple):
    """A budget in bytes. The host decides between the two if they differ."""

    least: int
    most: int

    def up_to(self, most):
        """The same, but no more."""
        return Memory(min(self.least, most), min(self.most, most))


def memory_of(value):
    """A budget: a number of bytes, or text as the command line takes it: "512M", "1.5G", "10%", "auto", "auto:1G..4G"."""
    if isinstance(value, str):
        return Memory(*_millpond.memory_of(value))
    size = size_of("memory", value)
    return Memory(size, size)


def size_of(what, value):
    """A number of bytes: an int, or text as "512M". `what`: the argument's name."""
    if isinstance(value, str):
        try:
            value = _millpond.size_of(value)
        except ValueError as why:
            raise ValueError(f"{what}: {why}") from None
    else:
        value = _integer(what, value, "a number of bytes or text as '512M'")
    if not 0 < value < 1 << 63:
        raise ValueError(f"{what} can't be {value} bytes: must be 1 to 2^63 - 1")
    return value


def _integer(what, value, allowed):
    """An integer, or what Python takes for one: not an array, though that has `__index__`."""
    if not isinstance(value, bool):
        try:
            return operator.index(value)
        except TypeError:
            pass
    raise TypeError(f"{what} must be {allowed}, not {type(value).__name__}")


def text_of(size):
    """A size as people write it: "512M", "2.98G"."""
    unit = next((unit for unit in "TGMK" if size >= UNITS[unit]), "")
    return f"{size / UNITS[unit]:.4g}{unit}" if unit else f"{size} bytes"


def layout_of(shape, dtype):
    """The shape as a tuple, the element type, and the bytes of such an array."""
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(f"dtype can't be {dtype}: must be a type without references to Python objects")
    try:
        shape = (operator.index(shape),)
    except TypeError:
        try:
            shape = tuple(operator.index(n) for n in shape)
        except TypeError:
            raise TypeError(f"shape must be an integer or a sequence of integers, not {shape!r}") from None
    if any(n < 0 for n in shape):
        raise ValueError(f"shape can't be {shape}: no dimension may be negative")
    size = math.prod(shape) * dtype.itemsize
    if size >= 1 << 47:
        raise ValueError(f"an array of shape {shape} and {dtype} has {size} bytes: must be less than 2^47")
    return shape, dtype, size


def swap_path(swap):
    """The path of a swap file, and whether it is to have no name: in a folder it has none, a file that is there is kept."""
    path = _path_of("swap", SWAP_FOLDER if swap is None else swap, "the path of a folder or a file")
    if not os.path.lexists(path):
        # A folder's name with a slip in it would become a file of the array's size.
        raise FileNotFoundError(
            errno.ENOENT, "No such folder for swap (a swap file that is to be kept must be there, empty at first)", path
        )
    return path, os.path.isdir(path)


def check_order(order):
    """The order of the elements."""
    if order not in ("C", "F"):
        raise ValueError(f"order can't be {order!r}: must be 'C' or 'F'")


def file_array(path, dtype, mode, offset, shape, order):
    """An array on a file: what is given, checked as far as it can be without the file."""
    path = os.path.abspath(_path_of("path", path, "the path of a file"))
    if mode in ("c", "copyonwrite"):
        raise ValueError(
            "mode can't be 'c': changes that don't reach the file need memory of their own; open with 'r', and copy what is "
            "to be changed into an array of millpond.empty"
        )
    if mode not in MODES:
        raise ValueError(f"mode can't be {mode!r}: must be 'r', 'r+' or 'w+'")
    mode = MODES[mode]
    check_order(order)
    offset = _integer("offset", offset, "a number of bytes")
    if not 0 <= offset < 1 << 63:
        raise ValueError(f"offset can't be {offset}: must be 0 to 2^63 - 1 bytes")
    if shape is None and mode == "w+":
        raise ValueError("shape must be given with mode 'w+', which makes the file new")
    given, dtype, _ = layout_of(() if shape is None else shape, dtype)
    if dtype.itemsize == 0:
        raise ValueError(f"dtype can't be {dtype}: its elements have no bytes")
    return FileArray(path, dtype, mode, offset, None if shape is None else given, order)


def npy_array(path, mode):
    """The array in a `.npy` file."""
    asked = file_array(path, "u1", mode, 0, 0, "C")
    if asked.mode == "w+":
        raise ValueError("mode can't be 'w+' for a file that is loaded: must be 'r' or 'r+'")
    with open(asked.path, "rb") as file:
        if file.read(len(np.lib.format.MAGIC_PREFIX)) != np.lib.format.MAGIC_PREFIX:
            raise ValueError(f"{asked.path} is not a .npy file: open_array takes others, and an .npz must be unpacked")
    try:
        # It maps the file and touches nothing of it.
        is_there = np.load(asked.path, mmap_mode="r", allow_pickle=False)
    except NOT_NPY as error:
        raise ValueError(f"{asked.path} can't be loaded: {error}") from error
    order = "C" if is_there.flags.c_contiguous else "F"
    return asked._replace(dtype=is_there.dtype, offset=is_there.offset, shape=is_there.shape, order=order)


def new_npy(path, array):
    """A `.npy` file to be written."""
    if array.dtype.hasobject:
        raise TypeError(f"dtype can't be {array.dtype}: must be a type without references to Python objects")
    path = os.fspath(path) if hasattr(path, "__fspath__") else path
    if isinstance(path, (str, bytes)):
        ending = ".npy" if isinstance(path, str) else b".npy"
        path = path if path.endswith(ending) else path + ending
    return file_array(path, "u1", "w+", 0, 0, "C")


def _path_of(what, given, allowed):
    try:
        path = os.fsdecode(given)
    except TypeError:
        raise TypeError(f"{what} must be {allowed}, not {type(given).__name__}") from None
    if not path or "\0" in path:
        raise ValueError(f"{what} can't be {path!r}: must be {allowed}")
    return path
