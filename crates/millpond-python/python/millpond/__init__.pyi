from collections.abc import Sequence
from os import PathLike
from typing import Any, SupportsIndex

import numpy as np
from numpy.typing import DTypeLike

__all__ = ["Pond", "empty", "stats"]

class Pond:
    def __init__(
        self, memory: SupportsIndex | str, size: SupportsIndex | str, swap: str | PathLike[str] | None = None
    ) -> None: ...
    def empty(self, shape: SupportsIndex | Sequence[SupportsIndex], dtype: DTypeLike = ...) -> np.ndarray[Any, Any]: ...
    def set_memory(self, memory: SupportsIndex | str) -> None: ...
    def stats(self) -> dict[str, int]: ...

def empty(
    shape: SupportsIndex | Sequence[SupportsIndex],
    dtype: DTypeLike = ...,
    *,
    memory: SupportsIndex | str,
    swap: str | PathLike[str] | None = None,
) -> np.ndarray[Any, Any]: ...
def stats() -> dict[str, int]: ...
