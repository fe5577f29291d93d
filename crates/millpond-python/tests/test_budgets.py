"""What arrays on files cost."""

import gc
import os
import pickle
import tempfile

import millpond
import numpy as np
import pytest

MIB = 1 << 20


def test_many_arrays_are_in_one_cache_whose_budget_is_what_they_ask_for(folder):
    """Each had a cache of its own, of 9 threads and 23 descriptors."""

    def costs():
        gc.collect()
        did = millpond.stats()
        return len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")), did["ponds"], did["memory_bytes"]

    count = 100
    with tempfile.TemporaryDirectory(dir=folder) as own:
        threads, descriptors, ponds, memory = costs()
        arrays = [millpond.open_array(f"{own}/{n}", "f4", "w+", shape=5000, memory="1M") for n in range(count)]
        now = costs()
        assert now[0] <= threads + 3 and now[1] <= descriptors + 2 * count + 12, (threads, descriptors, now)
        assert now[2] <= ponds + 1 and now[3] == memory + count * MIB, (ponds, memory, now)
        for n, array in enumerate(arrays):
            array[:] = n
        assert all((array == n).all() for n, array in enumerate(arrays))
        arrays[0].close()
        del array, arrays[1:50]
        assert costs()[3] == memory + 50 * MIB
        with pytest.raises(ValueError, match="with the budgets of 50 other files"):
            millpond.open_array(f"{own}/large", "u1", "w+", shape=1 << 46, memory=1 << 46)
        with pytest.raises(ValueError, match="at least"):
            millpond.open_array(f"{own}/small", "u1", "w+", shape=1, memory=4096)
        assert costs()[3] == memory + 50 * MIB
        assert (arrays[-1] == count - 1).all() and (np.fromfile(f"{own}/20", "f4") == 20).all()
        again = pickle.loads(pickle.dumps(arrays[-1]))
        again[7] = 5
        assert arrays[-1][7] == 5 and costs()[3] == memory + 50 * MIB
        del again, arrays


def test_a_budget_takes_memory_when_arrays_use_it_and_one_above_what_is_free_is_warned_of(folder, run):
    """All of it was taken at once: a pond of what the machine has ended the process, or another, before the warning."""
    ended = run(
        """
        import millpond, sys, warnings

        def resident():
            with open("/proc/self/statm") as statm:
                return int(statm.read().split()[1]) * 4096

        MIB, before = 1 << 20, resident()
        pond = millpond.Pond("512M", "64M", swap=sys.argv[1])
        assert resident() - before < 100 * MIB, resident() - before
        pond.set_memory("600M")
        assert resident() - before < 100 * MIB, resident() - before
        array = pond.ones(64 * MIB, "u1")
        assert array.sum() == 64 * MIB and resident() - before >= 64 * MIB, resident() - before
        array = pond = None
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            pond = millpond.Pond("100%", "64M", swap=sys.argv[1])
        assert any("free: the kernel must swap" in str(w.message) for w in caught), caught
        assert pond.ones(1000).sum() == 1000
        assert resident() - before < 1024 * MIB, resident() - before
        """,
        folder,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
