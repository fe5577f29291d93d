"""Arrays on files."""

import copy
import errno
import gc
import os
import pathlib
import pickle
import re
import resource
import signal
import threading

import millpond
import numpy as np
import pytest

MIB = 1 << 20


@pytest.fixture
def file_size_limit():
    """Sets how far this process may write into files; what lies behind can't be written, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield lambda limit: resource.setrlimit(resource.RLIMIT_FSIZE, (soft if limit is None else limit, hard))
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_file_four_times_its_budget_is_made_sorted_and_read_as_numpy_does(path):
    n = 2 * MIB
    numbers = np.random.default_rng(7).integers(-(1 << 40), 1 << 40, n)
    with millpond.open_array(path, "i8", "w+", shape=n, memory=4 * MIB) as array:
        assert isinstance(array, np.ndarray) and array.dtype == np.int64 and array.flags.writeable
        assert not array[:: 1 << 12].any(), "zeros at first"
        array[:] = numbers
        array.sort()
        assert millpond.stats()["resident_bytes"] <= 4 * MIB
    numbers.sort()
    assert np.array_equal(np.fromfile(path, "i8"), numbers)
    assert np.array_equal(millpond.open_array(path, "i8", memory=4 * MIB), numbers)
    did = millpond.stats()
    assert did["resident_bytes"] <= 4 * MIB and did["warnings"] == 0, did


@pytest.mark.parametrize(
    "given",
    [
        dict(),
        dict(offset=4096),
        dict(offset=12, shape=(3, 5)),
        dict(mode="r+", shape=7, offset=1),
        dict(mode="r+", shape=(5, 7, 2), order="F"),
        dict(mode="r+", offset=39_996, shape=100),
        dict(mode="r+", offset=100_000, shape=()),
        dict(mode="w+", shape=(3, 4)),
        dict(mode="w+", shape=np.int64(5), offset=8192, order="F"),
        dict(mode="readonly"),
        dict(mode="readwrite"),
        dict(mode="write", shape=(3,)),
    ],
)
def test_modes_shapes_and_offsets_are_those_of_numpys_memmap(path, given):
    given = dict(mode="r") | given
    beside = path + "-numpy"
    for file in (path, beside):
        np.arange(10_000, dtype="f4").tofile(file)
    ours = millpond.open_array(path, "f4", memory="16M", **given)
    numpys = np.memmap(beside, "f4", **given)
    assert (ours.shape, ours.dtype, ours.strides) == (numpys.shape, numpys.dtype, numpys.strides)
    assert (ours.offset, ours.mode) == (numpys.offset, numpys.mode) and ours.filename == path
    assert ours.flags.writeable == numpys.flags.writeable and np.array_equal(ours, numpys)
    if ours.flags.writeable:
        for array in (ours, numpys):
            array[...] = 5
            array.reshape(-1)[-1] += 1
            array.flush()
    else:
        with pytest.raises(ValueError, match="read-only"):
            ours[0] = 1
        with pytest.raises(ValueError, match="WRITEABLE"):
            ours.flags.writeable = True
        ours.flush()
    with open(path, "rb") as one, open(beside, "rb") as other:
        assert one.read() == other.read()


@pytest.mark.parametrize(
    ("error", "says", "given"),
    [
        (ValueError, "mode can't be 'c': .* copy what is to be changed", dict(mode="c")),
        (ValueError, "mode can't be 'a': must be 'r', 'r\\+' or 'w\\+'", dict(mode="a")),
        (ValueError, "order can't be 'K'", dict(order="K")),
        (ValueError, "offset can't be -1", dict(offset=-1)),
        (TypeError, "offset must be a number of bytes, not float", dict(offset=1.5)),
        (ValueError, "offset can't be 5000: .* has 4096 bytes", dict(offset=5000)),
        (ValueError, "has 4095 bytes from offset 1 on, no multiple of the 8", dict(offset=1)),
        (ValueError, "ends at byte 8192 of .* has 4096.* or mode 'r\\+'", dict(shape=1024)),
        (ValueError, "shape must be given with mode 'w\\+'", dict(mode="w+")),
        (ValueError, "no dimension may be negative", dict(shape=-1)),
        (TypeError, "dtype can't be object", dict(dtype=object)),
        (ValueError, "its elements have no bytes", dict(dtype="S0")),
        (TypeError, "path must be the path of a file, not int", dict(path=7)),
        (ValueError, "path can't be ''", dict(path="")),
        (FileNotFoundError, "No such file", dict(path="/nowhere/at/all")),
        (FileNotFoundError, "No such file", dict(path="/nowhere/at/all", mode="w+", shape=3)),
        (IsADirectoryError, "is a directory", dict(path="/var/tmp")),
        (ValueError, "memory can't be 'much'", dict(memory="much")),
        (ValueError, "too small: at least", dict(memory="64K")),
        (TypeError, "memory", dict(memory=None)),
    ],
)
def test_impossible_arguments_are_refused_and_the_file_stays_as_it_is(path, error, says, given):
    np.ones(512).tofile(path)
    with pytest.raises(error, match=says):
        millpond.open_array(**(dict(path=path, dtype="f8", memory="16M") | given))
    assert np.array_equal(np.fromfile(path), np.ones(512))


def test_views_are_on_the_file_and_results_and_copies_are_not(path):
    array = millpond.open_array(path, "f8", "w+", shape=(100, 8), memory="16M")
    array[:] = np.arange(800).reshape(100, 8)
    row, turned, plain = array[7, 2:], array[::-1].T, np.asarray(array[3:])
    assert isinstance(row, millpond.MappedArray) and (row.offset, turned.offset) == (7 * 64 + 16, 99 * 64)
    assert array.view("u1").reshape(-1)[5:9].offset == 5 and type(plain) is np.ndarray
    row[:] = -1
    turned[0, 0] = -2
    plain[0, 0] = -3
    row.flush()
    there = np.fromfile(path).reshape(100, 8)
    assert np.array_equal(there, array) and there.min() == -3 and (there == -1).sum() == 6
    for result in (array + 1, -array, array.sum(axis=0), array > 3, np.sqrt(np.abs(array)), np.concatenate([array, there])):
        assert type(result) is np.ndarray
    assert type(array.sum()) is np.float64 and type(array[1, 1]) is np.float64
    for one in (array.copy(), copy.deepcopy(array), array[[1, 2]], array[array > 5], array.astype("f4")):
        assert (one.filename, one.mode, one.offset) == (None, None, None)
        for call in (one.flush, one.prefetch, one.close, lambda: one.advise("random"), one.__enter__):
            with pytest.raises(ValueError, match="not on a file: it is a copy"):
                call()
    array += 1
    assert type(array) is millpond.MappedArray and array.min() == -2
    assert memoryview(array).nbytes == array.nbytes and np.frombuffer(array).sum() == array.sum()
    empty = array[5:5]
    empty.flush()
    assert empty.shape == (0, 8)


def test_the_last_view_of_a_file_writes_what_is_stored_and_gives_back_the_memory(path):
    gc.collect()
    before = millpond.stats()["ponds"]
    array = millpond.open_array(path, "u4", "w+", shape=MIB, memory="16M")
    part = np.asarray(array)[5:10]
    del array
    part[:] = 7
    assert millpond.stats()["ponds"] == before + 1
    del part
    assert millpond.stats()["ponds"] == before
    assert np.fromfile(path, "u4").sum() == 35


def test_arrays_of_one_file_are_one_memory_in_one_budget(path):
    gc.collect()
    before = millpond.stats()["ponds"]
    writer = millpond.open_array(path, "f8", "w+", shape=MIB, memory="16M")
    reader = millpond.open_array(pathlib.Path(path), "f8", offset=8, shape=1000, memory="20M")
    assert millpond.stats()["ponds"] == before + 1 and millpond.stats()["memory_bytes"] >= 20 * MIB - 1
    writer[3] = 5
    assert reader[2] == 5 and not reader.flags.writeable
    with pytest.raises(ValueError, match="in another pond of this process"):
        millpond.Pond("16M").open_array(path, "f8")
    with pytest.raises(ValueError, match=r"mode 'w\+' would cut .* below an array of its first 8388608"):
        millpond.open_array(path, "f8", "w+", shape=3, memory="16M")
    writer.close()
    reader.close()
    assert millpond.open_array(path, "f8", "w+", shape=3, memory="16M").sum() == 0


@pytest.mark.parametrize("cut", [4096, 5000])
def test_bytes_cut_off_by_others_are_a_signal_and_not_zeros(path, run, cut):
    np.full(5 * MIB, 1, "f4").tofile(path)
    program = run(
        """
        import os, sys, numpy as np, millpond
        array = millpond.open_array(sys.argv[1], "f4", "r", memory="8M")
        assert array.sum() == len(array)
        os.truncate(sys.argv[1], int(sys.argv[2]))
        print("cut", flush=True)
        print(array[len(array) // 2])
        """,
        path,
        str(cut),
    )
    assert program.stdout == "cut\n" and program.returncode == -signal.SIGBUS
    assert "another program has truncated it" in program.stderr


def test_a_file_that_has_arrays_grows_within_the_addresses_of_the_first(path):
    first = millpond.open_array(path, "u1", "w+", shape=10, memory="16M")
    second = millpond.open_array(path, "u1", "r+", shape=MIB, memory="16M")
    second[:10] = 4
    assert first.sum() == 40 and os.path.getsize(path) == MIB
    with pytest.raises(ValueError, match="an array beside smaller ones, which have to be deleted first") as refused:
        millpond.open_array(path, "u1", "r+", shape=(1 << 30) + 1, memory="16M")
    assert "::" not in str(refused.value) and os.path.getsize(path) == MIB


def test_a_pond_has_files_and_swap_in_one_budget(path, folder):
    pond = millpond.Pond("16M", "64M", swap=folder)
    on_file = pond.open_array(path, "f8", "w+", shape=2 * MIB)
    in_swap = pond.empty(2 * MIB)
    on_file[:] = 1
    in_swap[:] = on_file
    in_swap += on_file
    assert in_swap.sum() == 4 * MIB and on_file.sum() == 2 * MIB
    did = pond.stats()
    assert did["arrays"] == 2 and did["resident_bytes"] <= 16 * MIB and did["swap_outs"] > 0, did
    pond.close()
    on_file.flush()
    assert np.fromfile(path).sum() == 2 * MIB
    with millpond.Pond("16M") as files:
        assert repr(files) == "<millpond.Pond: 0 arrays, memory 16M, no swap>"
        with pytest.raises(RuntimeError, match="arrays need a swap file: give the pond a size"):
            files.empty(3)
    with pytest.raises(ValueError, match="size must be given with swap"):
        millpond.Pond("16M", swap=folder)
    with pytest.raises(ValueError, match="this pond is closed"):
        files.open_array(path, "f8")


def test_a_closed_array_is_on_the_disk_and_has_given_back_its_memory(path):
    gc.collect()
    before = millpond.stats()["memory_bytes"]
    with millpond.open_array(path, "f8", "w+", shape=2 * MIB, memory="16M") as array:
        part = array[-3:]
        array[:] = 1
        part[:] = 2
        assert millpond.stats()["memory_bytes"] == before + 16 * MIB
    assert array.closed and part.closed and np.fromfile(path).sum() == 2 * MIB + 3
    assert millpond.stats()["memory_bytes"] < before + 2 * MIB, millpond.stats()
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    assert array.sum() == 2 * MIB + 3, "it can be read all the same"
    array.close()
    for call in (array.flush, part.prefetch, array.__enter__):
        with pytest.raises(ValueError, match="is closed: open it again"):
            call()
    del array, part


def test_unwritable_data_is_an_error_of_flush_until_written_and_stays(path, file_size_limit):
    array = millpond.open_array(path, "u1", "w+", shape=2 * MIB, memory="16M")
    file_size_limit(MIB)
    array[-5000:] = 7
    for call in (array.flush, array.flush, array.close, array[:5].flush):
        with pytest.raises(OSError, match="File too large.* its changes are kept in memory") as failed:
            call()
        assert failed.value.errno == errno.EFBIG
    assert not array.closed and array.flags.writeable and array.sum() == 35_000
    file_size_limit(None)
    array.flush()
    assert np.fromfile(path, "u1").sum() == 35_000


def test_unwritable_data_of_the_last_array_is_reported(path, file_size_limit, monkeypatch):
    array = millpond.open_array(path, "u1", "w+", shape=2 * MIB, memory="16M")
    file_size_limit(MIB)
    array[-5:] = 7
    reported = []
    monkeypatch.setattr("sys.unraisablehook", lambda told: reported.append(told.exc_value))
    del array
    error, = reported
    assert error.errno == errno.EFBIG and str(error).endswith("its unwritten changes are lost")


def test_a_file_that_can_not_become_so_long_is_refused_when_it_is_made(path, file_size_limit):
    np.ones(10).tofile(path)
    file_size_limit(MIB)
    with pytest.raises(OSError, match="can't have 2097152 bytes"):
        millpond.open_array(path, "f8", "r+", shape=MIB // 4, memory="16M")
    assert os.path.getsize(path) == 80
    with pytest.raises(OSError):
        millpond.save(path, np.ones(MIB), memory="16M")


def test_advice_and_prefetch_are_about_the_view(path):
    np.arange(MIB, dtype="f8").tofile(path)
    array = millpond.open_array(path, "f8", memory="16M")
    for how in ("random", "sequential", "normal", "willneed", "dontneed"):
        array.advise(how)
        array[5::7].advise(how)
    array.advise("records", 65536)
    array[MIB // 2 :].prefetch()
    assert array.sum() == MIB * (MIB - 1) // 2
    with pytest.raises(ValueError, match='advise\\("records", 262144\\)'):
        array.advise("records")
    with pytest.raises((ValueError, OSError), match="bytes of a record 4194305 .* 0 to 4194304"):
        array.advise("records", (4 << 20) + 1)
    with pytest.raises(ValueError, match='advice can\'t be "soon": must be normal'):
        array.advise("soon")


@pytest.mark.parametrize("order", ["C", "F"])
def test_npy_files_are_loaded_and_saved_as_numpy_does(path, order):
    numbers = np.asarray(np.random.default_rng(3).random((300, 70)), order=order)
    assert millpond.save(path, numbers, memory="16M") is None
    file = path + ".npy"
    np.save(path + "-numpy", numbers)
    with open(file, "rb") as ours, open(path + "-numpy.npy", "rb") as numpys:
        assert ours.read() == numpys.read()
    array = millpond.load(file, memory="16M")
    assert np.array_equal(array, numbers) and array.flags[f"{order}_CONTIGUOUS"] and not array.flags.writeable
    with pytest.raises(ValueError, match="the file that this array is on"):
        millpond.save(file, array[5:], memory="16M")
    del array
    with millpond.Pond("16M") as pond:
        with pond.load(file, "r+") as array:
            array[7] = 0
        assert np.load(file)[7].sum() == 0
        pond.save(path + "-again", array[::2, ::-1])
        assert np.array_equal(np.load(path + "-again.npy"), array[::2, ::-1])


def test_pickles_are_by_path_and_of_the_same_memory_in_this_process(path):
    array = millpond.open_array(path, "f4", "w+", shape=(100, 30), memory="16M")
    array[:] = np.arange(3000).reshape(100, 30)
    for view in (array, array[3:70:2, ::-3], array.T, array[5], array.view("u1"), array[7:7]):
        pickled = pickle.dumps(view)
        again = pickle.loads(pickled)
        assert len(pickled) < 1000 and np.array_equal(again, view) and again.strides == view.strides
    again = pickle.loads(pickle.dumps(array))
    again[0, 0] = 9
    assert array[0, 0] == 9, "one memory"
    assert type(pickle.loads(pickle.dumps(array.copy()))) is np.ndarray


def test_workers_get_arrays_by_path_with_a_budget_each(path, run):
    program = os.path.join(os.path.dirname(path), "program.py")
    with open(program, "w") as file:
        file.write(
            """
import millpond, multiprocessing, sys
def total(array):
    did = millpond.stats()
    try:
        array[0] = 1
    except ValueError as error:
        return float(array.sum()), array.mode, did["ponds"], did["memory_bytes"] >> 20, "read-only" in str(error)
def main():
    array = millpond.open_array(sys.argv[1], "f8", "w+", shape=1 << 20, memory="4M")
    array[:] = 2
    for method in ("spawn", "forkserver", "fork"):
        with multiprocessing.get_context(method).Pool(1) as workers:
            print(method, workers.map(total, [array[:1000], array[1000:]]))
"""
        )
    ended = run(f"import sys; sys.path.insert(0, {os.path.dirname(path)!r}); import program; program.main()", path)
    told = [(2000.0, "r", 1, 4, True), (2095152.0, "r", 1, 4, True)]
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.splitlines() == [f"{method} {told}" for method in ("spawn", "forkserver", "fork")]


def test_a_program_that_ends_has_written_what_it_stored(path, run):
    ended = run(
        """
        import ctypes, millpond, sys
        array = millpond.open_array(sys.argv[1], "f8", "w+", shape=1 << 20, memory="16M")
        array[:] = 3
        # As an extension that keeps it for good: Python never deletes it.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(array))
        """,
        path,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert np.fromfile(path).sum() == 3 << 20


def test_a_forked_child_uses_no_array_of_its_parent_and_may_open_the_file_itself(path, run):
    ended = run(
        """
        import millpond, os, sys
        array = millpond.open_array(sys.argv[1], "f8", "w+", shape=1000, memory="4M")
        array[:] = 2
        array.flush()
        child = os.fork()
        if child == 0:
            try:
                array.flush()
            except RuntimeError as error:
                print("spawn" in str(error))
            print(millpond.open_array(sys.argv[1], "f8", memory="4M").sum(), flush=True)
            array[0]
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), array.sum())
        """,
        path,
    )
    assert (ended.returncode, ended.stdout) == (0, "True\n2000.0\n-11 2000.0\n")
    assert ended.stderr.startswith("millpond: a forked child has touched memory")


def test_several_threads_store_into_one_file(path):
    array = millpond.open_array(path, "u4", "w+", shape=(8, MIB), memory="16M")

    def fill(n):
        for _ in range(3):
            array[n] += np.arange(MIB, dtype="u4") + n

    threads = [threading.Thread(target=fill, args=(n,)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    array.flush()
    there = np.fromfile(path, "u4").reshape(8, MIB)
    for n in range(8):
        assert np.array_equal(there[n], 3 * (np.arange(MIB, dtype="u4") + n))


def test_a_shape_may_be_an_array_as_numpys_may(path):
    for shape in (np.array([3, 4]), np.asarray((3, 4), "u1"), [np.int8(3), 4]):
        assert millpond.open_array(path, "f4", "w+", shape=shape, memory="8M").shape == (3, 4)
        assert millpond.empty(shape, "f4", memory="8M").shape == (3, 4)
    for shape in (np.array(5), np.array([5]), np.int64(5)):
        assert millpond.open_array(path, "f4", "w+", shape=shape, memory="8M").shape == (5,)
    for shape in (np.array([3.0]), np.array([[3, 4]]), [[3]], "34", object()):
        with pytest.raises(TypeError, match="shape must be an integer or a sequence of integers"):
            millpond.open_array(path, "f4", "w+", shape=shape, memory="8M")
    for wrong in (np.array([8 << 20]), 8.5e6, [8]):
        with pytest.raises(TypeError, match="memory must be a number of bytes"):
            millpond.open_array(path, "f4", memory=wrong)
        with pytest.raises(TypeError, match="offset must be a number of bytes"):
            millpond.open_array(path, "f4", offset=wrong, memory="8M")


def test_an_array_without_elements_has_the_offset_that_it_was_given(path):
    with millpond.open_array(path, "u1", "w+", shape=(0,), offset=4096, memory="8M") as array:
        assert (array.offset, array[:].offset, array.T.offset, array.filename) == (4096, 4096, 4096, path)
    with millpond.open_array(path, "u1", "w+", shape=(8,), offset=4096, memory="8M") as array:
        assert (array.offset, array[2:].offset, array[2:][1:].offset, array[3:3].offset) == (4096, 4098, 4099, 4096)
        assert array.copy().offset is None
    with millpond.open_array(path, "u1", "r+", offset=4104, memory="8M") as array:
        assert (array.shape, array.offset) == ((0,), 4104)


def test_the_least_budget_that_a_refusal_names_is_enough(path, folder):
    def least(make):
        with pytest.raises(ValueError, match="at least") as refused:
            make(1)
        named = re.search(r"at least (\S+) are needed", str(refused.value))[1]
        assert make(named) is not None
        return named

    named = set()
    for size in (1, 4 * MIB, 5 * MIB, 64 << 30):
        with open(path, "wb") as file:
            file.truncate(size)
        named.add(least(lambda memory: millpond.open_array(path, "u1", memory=memory)))
        named.add(least(lambda memory: millpond.open_array(path, "u1", "r", size // 2, (1,), memory=memory)))
    assert len(named) >= 3
    for size in (4096, 3_000_000):
        least(lambda memory: millpond.empty(size, "u1", memory=memory, swap=folder))


def test_a_budget_is_read_as_on_the_command_line(path):
    np.zeros(MIB, "u1").tofile(path)

    def budget_of(memory):
        with millpond.Pond(memory) as pond:
            return pond.stats()["memory_bytes"]

    assert budget_of("1.5M") == 3 * MIB // 2
    assert budget_of("16MB") == 16_000_000
    assert budget_of(" 16 MiB ") == budget_of("16777216") == budget_of(np.int64(16 * MIB)) == 16 * MIB
    assert budget_of("auto:2M..4M") == 2 * MIB, "the least, as long as nothing is in it"
    assert budget_of("0.1%") >= MIB
    for memory in ("auto", "1%", "1/100", "auto:1M..50%"):
        array = millpond.open_array(path, "u1", memory=memory)
        assert array.sum() == 0
        # No more than it can use.
        assert array._file.pond.counters()["memory_bytes"] <= 40 * MIB
        assert millpond.open_array(path, "u1", memory="auto")._file.pond is array._file.pond
    pond = millpond.Pond("8M")
    pond.set_memory("auto:1M..2M")
    assert pond.stats()["memory_bytes"] <= 2 * MIB
    for wrong in ("12Q", "-1M", "", "auto:4M..2M", "ten%"):
        with pytest.raises(ValueError, match=f"memory can't be '{wrong}': it takes a size such as .*10%.*auto"):
            millpond.Pond(wrong)
    with pytest.raises(ValueError, match="size: `10%` is not a size: give a number with K, M, G or T"):
        millpond.Pond("8M", "10%")
