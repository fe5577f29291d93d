""".npy files that are none, or nearly one. `MILLPOND_MUTANTS=100000` tries more of them, `MILLPOND_SEED=42` one."""

import io
import math
import os
import random

import millpond
import numpy as np
import pytest
from millpond import _arguments


def npy_mutant(seed):
    """A .npy file that is nearly right."""
    draw = random.Random(seed)
    record = [("a", "<i4"), ("b", "S3", (2,))]
    kind, order = draw.choice([("<f8", "C"), (">i2", "F"), (record, "C"), ("<U3", "F"), ("M8[s]", "C")])
    file = io.BytesIO()
    np.lib.format.write_array(file, np.zeros((3, 4), kind, order), version=(draw.choice([1, 2]), 0))
    content = bytearray(file.getvalue())
    words = [b"True", b"None", b"-1", b"99999999999999999999", b"4611686018427387904", b"'shape'", b"'O'", b"{", b"("]
    for _ in range(draw.choice([0, 1, 1, 2, 4])):
        at = draw.randrange(8, 140)
        match draw.randrange(5):
            case 0:
                content[at:at] = draw.choice(words)
            case 1:
                del content[at : at + draw.randrange(10)]
            case 2:
                content[at : at + 1] = draw.randbytes(1)
            case 3:
                content[8:10] = draw.choice([0, 1, 70, 118, 119, 65535]).to_bytes(2, "little")
            case 4:
                del content[at:]
    return bytes(content)


def test_npy_files_that_are_damaged_are_refused_by_their_name(path):
    only = os.environ.get("MILLPOND_SEED")
    first = int(only or os.environ.get("MILLPOND_FIRST_SEED", 0))
    count = 1 if only else int(os.environ.get("MILLPOND_MUTANTS", 500))
    accepted = 0
    for seed in range(first, first + count):
        with open(path, "wb") as file:
            file.write(npy_mutant(seed))
        try:
            asked = _arguments.npy_array(path, "r")
        except ValueError as error:
            assert path in str(error), f"MILLPOND_SEED={seed}: {error}"
        except Exception as error:
            raise AssertionError(f"MILLPOND_SEED={seed}: {error!r}") from error
        else:
            accepted += 1
            size = math.prod(asked.shape) * asked.dtype.itemsize
            assert asked.offset + size <= os.path.getsize(path), f"MILLPOND_SEED={seed}: {asked}"
    assert accepted > 0 or count < 500


def test_files_that_are_no_arrays_are_not_loaded(path):
    np.savez(path, a=np.ones(3))
    np.save(path + "o", np.array([None]), allow_pickle=True)
    np.ones(100).tofile(path)
    for name, says in [("a.npz", "is not a .npy file"), ("ao.npy", "[Oo]bject"), ("a", "is not a .npy file")]:
        with pytest.raises(ValueError, match=says):
            millpond.load(os.path.join(os.path.dirname(path), name), memory="16M")
    with pytest.raises(ValueError, match="mode can't be 'w\\+' for a file that is loaded"):
        millpond.load(path, "w+", memory="16M")
    with pytest.raises(TypeError, match="dtype can't be object"):
        millpond.save(path, np.array([None]), memory="16M")
    for shape in [(0,), (3, 0)]:
        millpond.save(path + "e", np.ones(shape), memory="16M")
        assert millpond.load(path + "e.npy", "r+", memory="16M").shape == shape
