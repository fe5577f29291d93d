"""What a user meets where the system allows less: no privileges, a filter of system calls, a limit of memory."""

import os
import platform
import tempfile

import pytest

SYS_USERFAULTFD = {"x86_64": 323, "aarch64": 282}.get(platform.machine())

# All is imported before, for the next user may not read the package.
NOBODY = """
import ctypes, errno, mmap, os, sys, warnings
import millpond
import numpy as np
folder = sys.argv[1]
def become_nobody():
    if os.geteuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
def opens():
    try:
        os.close(os.open("/dev/userfaultfd", os.O_RDWR))
        return True
    except OSError:
        return False
def refuse(number):
    class Step(ctypes.Structure):
        _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte), ("k", ctypes.c_uint)]
    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("steps", ctypes.POINTER(Step))]
    load, equal, answer = 0x20, 0x15, 0x06
    steps = (Step * 4)(
        Step(load, 0, 0, 0),
        Step(equal, 0, 1, number),
        Step(answer, 0, 0, 0x00050000 | errno.EPERM),
        Step(answer, 0, 0, 0x7FFF0000),
    )
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    filtered = prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, ctypes.byref(Program(4, steps)), 0, 0) == 0
    if not filtered:
        print("skipped: seccomp:", os.strerror(ctypes.get_errno()))
        sys.exit(0)
"""


@pytest.fixture
def anyones():
    """A folder that any user may write to."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o777)
        yield folder


def test_a_user_without_privileges_is_warned_and_can_save_all_the_same(anyones, run):
    ended = run(
        NOBODY
        + """
become_nobody()
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    a = millpond.empty(4_000_000, "f8", memory="16M", swap=folder)
told = [w for w in caught if "millpond.save" in str(w.message)]
assert all(w.filename == "<string>" for w in caught), caught
a[:] = 3
path = os.path.join(folder, "a.npy")
with open("/proc/sys/vm/unprivileged_userfaultfd") as sysctl:
    is_allowed = sysctl.read().strip() == "1" or opens()
assert is_allowed == (not told), caught
if not is_allowed:
    try:
        np.save(path, a)
        assert False, "it was saved"
    except OSError as error:
        assert "0 written" in str(error) or error.errno == errno.EFAULT, error
np.lib.format.open_memmap(path, "w+", a.dtype, a.shape)[...] = a
a[:] = 0
a[...] = np.load(path, mmap_mode="r")
with millpond.open_array(os.path.join(folder, "b"), "f8", "w+", shape=4_000_000, memory="16M") as b:
    b[:] = a
millpond.save(path, b, memory="16M")
assert np.array_equal(millpond.load(path, memory="16M"), a)
print(a.sum())
""",
        anyones,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "12000000.0\n", "")


@pytest.mark.skipif(SYS_USERFAULTFD is None, reason="the system call's number is not known here")
@pytest.mark.parametrize(
    "call",
    [
        'millpond.empty(1000, memory="16M", swap=folder)',
        'millpond.open_array(folder + "/a", "f8", "w+", shape=1000, memory="16M")',
    ],
)
def test_where_a_filter_refuses_userfaultfd_the_error_says_so_and_what_to_do(anyones, run, call):
    ended = run(
        NOBODY
        + f"""
become_nobody()
refuse({SYS_USERFAULTFD})
try:
    a = {call}
    a[:] = 1
    print("device" if opens() else "it had one from elsewhere")
except PermissionError as error:
    print(error)
print(os.listdir(folder))
""",
        anyones,
    )
    said = ended.stdout
    if said.startswith("skipped: "):
        pytest.skip(said)
    assert (ended.returncode, ended.stderr) == (0, "")
    if not said.startswith("device\n"):
        assert said.endswith("\n[]\n"), "a file is left behind"
        assert "memory beyond RAM needs userfaultfd: a seccomp filter refuses it" in said
        assert "allow userfaultfd in the seccomp profile" in said and "/dev/userfaultfd" in said


@pytest.mark.skipif(SYS_USERFAULTFD is None, reason="the system call's number is not known here")
def test_past_a_filter_there_are_arrays_by_the_device(anyones, run):
    ended = run(
        NOBODY
        + f"""
if not opens():
    print("skipped: /dev/userfaultfd does not open")
    sys.exit(0)
refuse({SYS_USERFAULTFD})
a = millpond.full(4_000_000, 2.0, memory="16M", swap=folder)
np.save(os.path.join(folder, "a.npy"), a)
print(a.sum())
""",
        anyones,
    )
    if ended.stdout.startswith("skipped: "):
        pytest.skip(ended.stdout)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "8000000.0\n", "")


def test_where_a_process_may_have_no_more_addresses_that_is_an_error(anyones, run):
    ended = run(
        """
        import millpond, resource, sys
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
        try:
            millpond.empty(1 << 30, "f8", memory="64M", swap=sys.argv[1])
        except OSError as error:
            print(type(error).__name__)
        """,
        anyones,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "OSError\n", "")
