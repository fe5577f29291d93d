"""What the tests share."""

import os
import subprocess
import sys
import tempfile
import textwrap

import pytest


@pytest.fixture
def folder():
    """A folder on a disk, with direct I/O: what the caller says, else where swap is by default."""
    return os.environ.get("MILLPOND_TEST_FOLDER", "/var/tmp")


@pytest.fixture
def path(folder):
    """Of a file that is not there, in a folder of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        yield os.path.join(own, "a")


@pytest.fixture
def run():
    """Runs a program of Python in a process of its own; what the machine does not allow is no part of what it prints."""

    def program(code, *arguments):
        command = [sys.executable, "-W", "ignore::RuntimeWarning", "-c", textwrap.dedent(code), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    return program
