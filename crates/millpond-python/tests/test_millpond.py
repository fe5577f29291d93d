"""What the package promises; run by tests/python.rs, or by pytest where the package is installed."""

import copy
import errno
import gc
import os
import pickle
import resource
import tempfile
import threading
import time

import millpond
import numpy as np
import pytest

MIB = 1 << 20


def test_an_array_four_times_its_budget_is_sorted_and_summed_as_numpy_does(folder):
    # 64 MiB under a budget of 16.
    n = 8 * MIB
    numbers = np.random.default_rng(7).integers(-(1 << 40), 1 << 40, n)
    array = millpond.empty(n, "i8", memory=16 * MIB, swap=folder)
    assert isinstance(array, np.ndarray) and array.dtype == np.int64 and array.flags.writeable
    assert not array[:: 1 << 12].any(), "zeros at first"
    array[:] = numbers
    assert array.sum() == numbers.sum()
    array.sort()
    numbers.sort()
    assert np.array_equal(array, numbers)
    did = millpond.stats()
    assert did["swap_outs"] * 4096 > 48 * MIB, did
    assert did["swap_ins"] * 4096 > 48 * MIB, did
    assert did["resident_bytes"] <= 16 * MIB, did
    assert did["swap_outs_failed"] == did["warnings"] == 0, did


def test_views_keep_the_memory_and_the_last_one_gives_it_back(folder):
    gc.collect()
    before = millpond.stats()["ponds"]
    array = millpond.empty((1000, 1000), np.float32, memory="16M", swap=folder)
    row = array[500, ::2].T
    row[:] = 3
    del array
    gc.collect()
    assert millpond.stats()["ponds"] == before + 1
    assert row.sum() == 1500
    del row
    gc.collect()
    assert millpond.stats()["ponds"] == before
    # The kernel forgets a thread a moment after it has ended.
    until = time.monotonic() + 60
    while any(thread_name(name).startswith("millpond-fault") for name in os.listdir("/proc/self/task")):
        assert time.monotonic() < until
        time.sleep(0.01)


def thread_name(task):
    try:
        with open(f"/proc/self/task/{task}/comm") as comm:
            return comm.read()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def test_arrays_of_a_pond_share_its_budget_and_its_swap(folder):
    pond = millpond.Pond("16M", "64M", swap=folder)
    arrays = [pond.empty(2 * MIB, "f8") for _ in range(3)]
    for n, array in enumerate(arrays):
        array[:] = n
    assert [a.mean() for a in arrays] == [0, 1, 2]
    assert pond.stats()["resident_bytes"] <= 16 * MIB
    with pytest.raises(ValueError, match="an array of 24M .* 16M of 64M of swap are left for arrays.* larger size$"):
        pond.empty(3 * MIB, "f8")
    del array, arrays[2]
    pond.empty(3 * MIB, "f8")
    pond.set_memory("32M")
    assert [a.mean() for a in arrays] == [0, 1]


def test_arrays_are_filled_as_numpy_does(folder):
    with millpond.Pond("16M", "64M", swap=folder) as pond:
        there = dict(memory="16M", swap=folder)
        for ours, numpys in [
            (millpond.zeros((2, 3), "i2", **there), np.zeros((2, 3), "i2")),
            (pond.zeros(4), np.zeros(4)),
            (millpond.ones(5, **there), np.ones(5)),
            (pond.ones((2, 2), bool), np.ones((2, 2), bool)),
            (millpond.full((2, 2), 7, **there), np.full((2, 2), 7)),
            (millpond.full(3, -0.5, "f4", **there), np.full(3, -0.5, "f4")),
            (pond.full((2, 3), [1, 2, 3]), np.full((2, 3), [1, 2, 3])),
            (pond.full(2, "abc"), np.full(2, "abc")),
            (millpond.zeros((2, 3), "i2", "F", **there), np.zeros((2, 3), "i2", "F")),
            (millpond.ones((2, 3), order="F", **there), np.ones((2, 3), order="F")),
            (pond.full((2, 3), [1, 2, 3], order="F"), np.full((2, 3), [1, 2, 3], order="F")),
        ]:
            assert ours.dtype == numpys.dtype and np.array_equal(ours, numpys) and ours.strides == numpys.strides
        with pytest.raises(TypeError, match="dtype can't be object"):
            pond.full(3, None)
        with pytest.raises(ValueError, match="broadcast"):
            pond.full(3, [1, 2])
    # Larger than its budget.
    assert millpond.full(4 * MIB, 3.0, memory="16M", swap=folder).sum() == 12 * MIB


def test_a_closed_pond_makes_no_more_arrays_and_keeps_those_it_has(folder):
    gc.collect()
    before = millpond.stats()
    with millpond.Pond("16M", "64M", swap=folder) as pond:
        assert repr(pond) == f"<millpond.Pond: 0 arrays, memory 16M, swap 64M in {folder}>"
        array = pond.ones(4 * MIB)
        part = array[-5:]
        did = pond.stats()
        assert (did["arrays"], did["memory_bytes"], did["swap_total_bytes"]) == (1, 16 * MIB, 64 * MIB)
        assert repr(pond).startswith("<millpond.Pond: 1 array, memory 16M, ") and not pond.closed
        pond.set_memory("17M")
        assert pond.stats()["memory_bytes"] == 17 * MIB
    assert pond.closed and repr(pond) == "<millpond.Pond: closed>"
    pond.close()
    for call in (lambda: pond.empty(3), pond.stats, lambda: pond.set_memory("16M"), pond.__enter__):
        with pytest.raises(ValueError, match="this pond is closed"):
            call()
    del array
    assert part.sum() == 5 and millpond.stats()["ponds"] == before["ponds"] + 1
    del part
    assert millpond.stats() == before
    empty = millpond.Pond("16M", "64M", swap=folder)
    empty.close()
    assert millpond.stats() == before, "nothing stands on it: at once"


def test_usual_calls_of_numpy_users_work(folder):
    array = millpond.empty(3 * MIB, "f8", memory="16M", swap=folder)
    np.copyto(array, np.arange(3 * MIB)[::-1])
    array.sort()
    assert array[0] == 0 and array[-1] == 3 * MIB - 1
    np.multiply(array, 2, out=array)
    array[::2] += 1
    array[array < 100] = 0
    assert array[:100].sum() == sum(n for n in (2 * n + (n + 1) % 2 for n in range(100)) if n >= 100)
    assert np.add.reduce(array.reshape(1024, -1), axis=0).shape == (3072,)
    again = pickle.loads(pickle.dumps(array[1000:2000], protocol=5))
    assert np.array_equal(again, array[1000:2000]) and again.base is not array.base
    part = copy.deepcopy(array[:5])
    part[:] = 1
    assert array[0] == 0 and memoryview(array).nbytes == array.nbytes
    assert np.frombuffer(array, "u1").shape == (24 * MIB,)
    with pytest.raises(ZeroDivisionError):
        array[1 // 0] = 1
    assert repr(array).startswith("array([") and len(repr(array)) < 200


def test_several_threads_work_on_one_array(folder):
    array = millpond.empty((8, MIB), "u4", memory="16M", swap=folder)

    def fill(n):
        for _ in range(3):
            array[n] += np.arange(MIB, dtype="u4") + n

    threads = [threading.Thread(target=fill, args=(n,)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    for n in range(8):
        assert np.array_equal(array[n], 3 * (np.arange(MIB, dtype="u4") + n))


def test_shapes_and_types_are_numpys(folder):
    for shape, dtype in [(5, None), ((), "i4"), ((2, 3), "c16"), ([4], "S3"), ((3,), [("a", "i4"), ("b", "f8")])]:
        array = millpond.empty(shape, dtype, memory="16M", swap=folder)
        like = np.zeros(shape, dtype)
        assert (array.shape, array.dtype, array.strides) == (like.shape, like.dtype, like.strides)
        assert np.array_equal(array, like)
    assert millpond.empty((0, 7), memory="16M", swap=folder).shape == (0, 7)


@pytest.mark.parametrize(
    ("error", "says", "call"),
    [
        (TypeError, "dtype can't be object: .* references to Python objects", dict(shape=3, dtype=object, memory="16M")),
        (TypeError, "shape must be an integer", dict(shape="3x4", memory="16M")),
        (TypeError, "shape must be an integer", dict(shape=2.5, memory="16M")),
        (ValueError, "no dimension may be negative", dict(shape=(3, -1), memory="16M")),
        (ValueError, r"less than 2\^47", dict(shape=(1 << 40, 1 << 40), memory="16M")),
        (TypeError, "memory must be a number of bytes", dict(shape=3, memory=1.5)),
        (ValueError, "memory can't be 'much'", dict(shape=3, memory="much")),
        (ValueError, "memory can't be 0 bytes", dict(shape=3, memory=0)),
        (ValueError, "too small: at least", dict(shape=3, memory="64K")),
        (TypeError, "memory", dict(shape=3)),
        (TypeError, "swap must be the path of a folder or a file, not int", dict(shape=3, memory="16M", swap=7)),
        (ValueError, "swap can't be 'a.x00b'", dict(shape=3, memory="16M", swap="a\0b")),
        (ValueError, "swap can't be ''", dict(shape=3, memory="16M", swap="")),
        (ValueError, "neither a file nor a block device", dict(shape=3, memory="16M", swap="/dev/null")),
        (TypeError, "not understood", dict(shape=3, dtype="f9", memory="16M")),
        (FileNotFoundError, "No such folder for swap", dict(shape=3, memory="16M", swap="/nowhere/at/all")),
        (OSError, "ext4 or xfs", dict(shape=3, memory="16M", swap="/proc")),
        (ValueError, "order can't be 'A'", dict(shape=3, memory="16M", order="A")),
        (ValueError, "something else", dict(shape=3, memory="16M", swap=__file__)),
    ],
)
def test_impossible_arguments_are_refused_with_the_possible_ones(error, says, call):
    before = set(os.listdir("/var/tmp"))
    with pytest.raises(error, match=says):
        millpond.empty(**call)
    left = {name for name in set(os.listdir("/var/tmp")) - before if name.startswith("millpond-")}
    assert not left, "a swap file is left behind"


def test_a_budget_that_the_machine_has_not_is_refused_before_memory_is_taken(folder):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for memory in ("900G", 1 << 62):
        # It took 7 GB, and told to call something of Rust.
        with pytest.raises(ValueError, match=r"is more than this machine's [^:]*: ask for less$"):
            millpond.Pond(memory, "64M", swap=folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 256 << 10


def test_a_swap_file_with_a_name_is_kept_locked_and_private(folder):
    path = os.path.join(folder, f"millpond-test-{os.getpid()}.swap")
    with pytest.raises(FileNotFoundError, match="No such folder for swap .*must be there"):
        millpond.empty(MIB, "f8", memory="16M", swap=path)
    assert not os.path.exists(path), "a name with a slip in it has become a file"
    open(path, "x").close()
    try:
        array = millpond.empty(MIB, "f8", memory="16M", swap=path)
        assert os.stat(path).st_mode & 0o777 == 0o600
        with pytest.raises(OSError, match="locked") as refused:
            millpond.empty(MIB, "f8", memory="16M", swap=path)
        assert refused.value.errno == errno.EBUSY
        del array
        gc.collect()
        millpond.empty(MIB, "f8", memory="16M", swap=path)
    finally:
        os.unlink(path)


def test_a_program_that_ends_with_arrays_ends(folder, run):
    ended = run(
        """
        import millpond, sys
        array = millpond.empty(1 << 20, "f8", memory="16M", swap=sys.argv[1])
        array[:] = 1
        cycle = [array]
        cycle.append(cycle)
        print(array.sum())
        """,
        folder,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "1048576.0\n", "")


def test_a_forked_child_gives_nothing_back_and_its_parent_goes_on(folder, run):
    ended = run(
        """
        import gc, millpond, os, sys, warnings
        warnings.simplefilter("ignore")
        pond = millpond.Pond("16M", "32M", swap=sys.argv[1])
        array = pond.empty(1 << 20, "f8")
        array[:] = 1
        child = os.fork()
        if child == 0:
            del array
            gc.collect()
            try:
                pond.empty(3)
            except RuntimeError as error:
                sys.exit(7 if "spawn" in str(error) else 8)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), array.sum())
        """,
        folder,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "7 1048576.0\n", "")


def test_a_forked_child_that_touches_an_array_says_why_it_ends(folder, run):
    ended = run(
        """
        import millpond, os, sys
        array = millpond.ones(1000, memory="16M", swap=sys.argv[1])
        child = os.fork()
        if child == 0:
            own = millpond.ones(500, memory="16M", swap=sys.argv[1])
            did = millpond.stats()
            print(did["ponds"], own.sum(), flush=True)
            print(array.sum())
            os._exit(1)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), array.sum())
        """,
        folder,
    )
    assert (ended.returncode, ended.stdout) == (0, "1 500.0\n-11 1000.0\n")
    assert ended.stderr.startswith("millpond: a forked child has touched memory that only its parent has")
    assert ended.stderr.count("\n") == 1 and 'get_context("spawn")' in ended.stderr


def test_an_executor_of_forked_workers_breaks_and_does_not_hang(folder, run):
    ended = run(
        """
        import concurrent.futures, millpond, multiprocessing, sys
        array = millpond.ones(1000, memory="16M", swap=sys.argv[1])
        def total(n):
            return array[n:].sum()
        fork = multiprocessing.get_context("fork")
        try:
            with concurrent.futures.ProcessPoolExecutor(1, mp_context=fork) as workers:
                print(list(workers.map(total, range(2))))
        except concurrent.futures.process.BrokenProcessPool:
            print("broken")
        with concurrent.futures.ThreadPoolExecutor(2) as workers:
            print(sum(workers.map(total, range(2))))
        """,
        folder,
    )
    assert (ended.returncode, ended.stdout) == (0, "broken\n1999.0\n")
    assert "a forked child has touched memory" in ended.stderr


def test_a_child_that_only_runs_a_program_is_no_cause_for_a_warning(folder, run):
    ended = run(
        """
        import millpond, multiprocessing, os, pty, subprocess, sys, warnings
        array = millpond.empty(3, memory="16M", swap=sys.argv[1])
        def shell():
            child = os.fork()
            if child == 0:
                os.execv("/bin/true", ["true"])
            os.waitpid(child, 0)
        def works():
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        def worker():
            process = multiprocessing.get_context("fork").Process(target=abs, args=(1,))
            process.start()
            process.join()
        for run in (
            shell,
            lambda: subprocess.run(["true"], preexec_fn=lambda: None),
            lambda: subprocess.run(["true"]),
            lambda: os.spawnl(os.P_WAIT, "/bin/true", "true"),
            lambda: pty.spawn(["true"]),
            lambda: os.system("true"),
            works,
            worker,
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                run()
            print(len([w for w in caught if "arrays of millpond and forks" in str(w.message)]))
        """,
        folder,
    )
    assert (ended.returncode, ended.stdout.split(), ended.stderr) == (0, list("00000011"), "")


def test_a_process_that_has_arrays_is_warned_when_it_forks(folder, run):
    ended = run(
        """
        import gc, millpond, os, sys, warnings
        def fork():
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                child = os.fork()
                if child == 0:
                    os._exit(0)
            os.waitpid(child, 0)
            return [str(w.message) for w in caught if "millpond" in str(w.message)]
        before = fork()
        array = millpond.empty(3, memory="16M", swap=sys.argv[1])
        says, = fork()
        del array
        gc.collect()
        print(before, "SIGSEGV" in says and "spawn" in says, fork())
        """,
        folder,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "[] True []\n", "")


def test_a_swap_file_in_a_folder_has_no_name(folder):
    with tempfile.TemporaryDirectory(dir=folder) as own:
        array = millpond.empty(MIB, "f8", memory="16M", swap=own)
        assert os.listdir(own) == []
        array[:] = 5
        assert array.sum() == 5 * MIB
        del array
        gc.collect()


def test_a_swap_file_is_free_when_its_pond_is_though_a_child_lives(folder, run):
    ended = run(
        """
        import gc, millpond, os, signal, sys, warnings
        warnings.simplefilter("ignore")
        path = os.path.join(sys.argv[1], f"millpond-fork-{os.getpid()}.swap")
        open(path, "x").close()
        pond = millpond.Pond("16M", "8M", swap=path)
        array = pond.empty(1000)
        child = os.fork()
        if child == 0:
            signal.pause()
        del array, pond
        gc.collect()
        try:
            millpond.Pond("16M", "8M", swap=path)
            print("free")
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.unlink(path)
        """,
        folder,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "free\n", "")
