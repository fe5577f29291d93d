"""Packages that work on NumPy's arrays, with arrays on files; those that are not installed are skipped."""

import os
import tempfile

import millpond
import numpy as np
import pytest

ROWS = 1 << 18
NUMBERS = np.arange(8 * ROWS, dtype="f8").reshape(ROWS, 8)


@pytest.fixture
def array(folder):
    """16 MiB on a file, under a budget of 8."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        array = millpond.open_array(os.path.join(own, "a"), "f8", "w+", shape=(ROWS, 8), memory="8M")
        array[:] = NUMBERS
        array.flush()
        yield array
        # Arrays of other tests may not be collected yet.
        did = millpond.stats()
        assert np.array_equal(array, NUMBERS) and did["resident_bytes"] <= did["memory_bytes"]


def test_system_calls_take_arrays_on_files(array):
    path = array.filename + "-copy"
    np.save(path + ".npy", array)
    assert np.array_equal(np.load(path + ".npy"), NUMBERS)
    array.tofile(path)
    assert np.array_equal(np.fromfile(path).reshape(ROWS, 8), NUMBERS)
    array[:] = 0
    with open(path, "rb", buffering=0) as file:
        assert file.readinto(memoryview(array).cast("B")) == array.nbytes


def test_pandas_has_frames_on_them(array):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(array, copy=False)
    assert np.shares_memory(frame.to_numpy(), array)
    assert np.array_equal(frame.sum().to_numpy(), NUMBERS.sum(axis=0))
    column = pandas.DataFrame({"x": array[:, 0]}, copy=False)
    assert np.shares_memory(column.x.to_numpy(), array) and len(column.groupby(column.x % 7).x.mean()) == 7


def test_polars_has_series_on_them(array):
    polars = pytest.importorskip("polars")
    series = polars.Series("x", array.reshape(-1))
    assert series.sum() == NUMBERS.sum() and polars.from_numpy(array).shape == (ROWS, 8)


def test_scikit_learn_fits_on_them(array):
    preprocessing = pytest.importorskip("sklearn.preprocessing")
    scaler = preprocessing.StandardScaler().fit(array)
    assert np.allclose(scaler.mean_, NUMBERS.mean(axis=0))
    assert type(scaler.transform(array[:5])) is np.ndarray


def test_torch_has_tensors_on_them(array):
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(array)
    assert tensor.data_ptr() == array.ctypes.data and float(tensor.sum()) == NUMBERS.sum()
    tensor[0, 0] = 5
    assert array[0, 0] == 5
    tensor[0, 0] = 0
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(tensor[:4000]), batch_size=100)
    assert sum(float(batch.sum()) for batch, in loader) == NUMBERS[:4000].sum()


def test_pyarrow_has_buffers_on_them(array):
    pyarrow = pytest.importorskip("pyarrow")
    compute = pytest.importorskip("pyarrow.compute")
    buffer = pyarrow.py_buffer(array)
    assert (buffer.address, buffer.size) == (array.ctypes.data, array.nbytes)
    column = pyarrow.Array.from_buffers(pyarrow.float64(), array.size, [None, buffer])
    assert compute.sum(column).as_py() == NUMBERS.sum()


def test_joblib_sends_them_by_path(array):
    joblib = pytest.importorskip("joblib")
    parts = [array[n::4] for n in range(4)]
    sums = joblib.Parallel(2)(joblib.delayed(np.sum)(part) for part in parts)
    assert sums == [NUMBERS[n::4].sum() for n in range(4)]
