"""What users give, checked: sizes, shapes, element types and paths for swap."""

import math
import os
import re

import numpy as np

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
SWAP_FOLDER = "/var/tmp"


def size_of(what, value):
    """A number of bytes: an int, or text as "512M". `what`: the argument's name."""
    if isinstance(value, str):
        match = re.fullmatch(r"(\d+)\s*([KMGT]?)(?:i?B)?", value.strip(), re.IGNORECASE)
        if match is None:
            raise ValueError(f"{what} can't be {value!r}: allowed is a number of bytes, or one with K, M, G or T as '512M'")
        value = int(match[1]) * UNITS[match[2].upper()]
    elif isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"{what} must be a number of bytes or text as '512M', not {type(value).__name__}")
    value = value.__index__()
    if not 0 < value < 1 << 63:
        raise ValueError(f"{what} can't be {value} bytes: allowed is 1 to 2^63 - 1")
    return value


def text_of(size):
    """A size as people write it: "512M", "2.98G"."""
    unit = next((unit for unit in "TGMK" if size >= UNITS[unit]), "")
    return f"{size / UNITS[unit]:.4g}{unit}" if unit else f"{size} bytes"


def layout_of(shape, dtype):
    """The shape as a tuple, the element type, and the bytes of such an array."""
    dtype = np.dtype(dtype)
    if dtype.hasobject:
        raise TypeError(f"dtype can't be {dtype}: allowed are types without references to Python objects")
    if hasattr(shape, "__index__"):
        shape = (shape,)
    try:
        shape = tuple(n.__index__() for n in shape)
    except (TypeError, AttributeError):
        raise TypeError(f"shape must be an integer or a sequence of integers, not {shape!r}") from None
    if any(n < 0 for n in shape):
        raise ValueError(f"shape can't be {shape}: no dimension may be negative")
    size = math.prod(shape) * dtype.itemsize
    if size >= 1 << 47:
        raise ValueError(f"an array of shape {shape} and {dtype} has {size} bytes: allowed is less than 2^47")
    return shape, dtype, size


def swap_path(swap):
    """The path of a swap file, and whether it is to have no name: in a folder it has none, a name given is kept."""
    try:
        path = os.fsdecode(SWAP_FOLDER if swap is None else swap)
    except TypeError:
        raise TypeError(f"swap must be the path of a folder or a file, not {type(swap).__name__}") from None
    if not path or "\0" in path:
        raise ValueError(f"swap can't be {path!r}: allowed is the path of a folder or a file")
    return path, os.path.isdir(path)
