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
    assert_type(millpond.full(np.int64(3), 7, "i4", memory="16M"), NDArray[Any])
    assert_type(millpond.stats()["swap_ins"], int)
    assert_type(millpond.__version__, str)


def ponds() -> None:
    with millpond.Pond("16M", "64M", swap="/var/tmp") as pond:
        assert_type(pond, millpond.Pond)
        assert_type(pond.empty((2, 3), np.uint16), NDArray[np.uint16])
        assert_type(pond.full(3, 1.5), NDArray[Any])
        pond.set_memory("32M")
    assert_type(pond.closed, bool)


def mistakes() -> None:
    millpond.empty(3)  # type: ignore[call-overload]
    millpond.empty(2.5, memory="16M")  # type: ignore[call-overload]
    millpond.Pond("16M")  # type: ignore[call-arg]
    millpond.Pond("16M", 1.5)  # type: ignore[arg-type]
