"""What a type checker must find of the package: checked by mypy, never run (tests/python.rs)."""

from pathlib import Path
from typing import Any

import millpond
import numpy as np
from numpy.typing import NDArray
from typing_extensions import assert_type


def arrays(folder: Path) -> None:
    assert_type(millpond.empty(3, memory="16M"), NDArray[np.float64])
    assert_type(millpond.zeros((3, 4), np.float32, memory=16 << 20, swap=folder), NDArray[np.float32])
    assert_type(millpond.ones([3], np.dtype(np.int8), memory="16M"), NDArray[np.int8])
    assert_type(millpond.zeros(np.array([3, 4]), np.int8, memory="10%"), NDArray[np.int8])
    assert_type(millpond.full(np.int64(3), 7, "i4", memory="16M"), NDArray[Any])
    assert_type(millpond.zeros((3, 4), order="F", memory="16M"), NDArray[np.float64])
    assert_type(millpond.empty((3, 4), np.int8, "F", memory="16M"), NDArray[np.int8])
    assert_type(millpond.stats()["swap_ins"], int)
    assert_type(millpond.__version__, str)


def ponds() -> None:
    with millpond.Pond("16M", "64M", swap="/var/tmp") as pond:
        assert_type(pond, millpond.Pond)
        assert_type(pond.empty((2, 3), np.uint16), NDArray[np.uint16])
        assert_type(pond.full(3, 1.5), NDArray[Any])
        pond.set_memory("32M")
    assert_type(pond.closed, bool)


def files(folder: Path) -> None:
    assert_type(millpond.open_array("a", np.float32, memory="16M"), millpond.MappedArray[Any, np.dtype[np.float32]])
    with millpond.open_array(folder / "a", "f4", "w+", shape=(3, 4), memory="16M") as array:
        assert_type(array, millpond.MappedArray)
        array.flush()
        array.advise("random")
    assert_type(millpond.load(folder / "a.npy", "r+", memory="16M").offset, int | None)
    pond = millpond.Pond("16M")
    assert_type(pond.open_array("a", np.int8, offset=8), millpond.MappedArray[Any, np.dtype[np.int8]])
    pond.save(folder / "a.npy", pond.load(folder / "b.npy"))
    plain: NDArray[Any] = array
    millpond.save("a", plain, memory="16M")


def mistakes() -> None:
    millpond.empty(3)  # type: ignore[call-overload]
    millpond.empty(2.5, memory="16M")  # type: ignore[call-overload]
    millpond.Pond()  # type: ignore[call-arg]
    millpond.open_array("a", "f4")  # type: ignore[call-overload]
    millpond.open_array("a", "f4", "c", memory="16M")  # type: ignore[call-overload]
    millpond.Pond("16M", 1.5)  # type: ignore[arg-type]
