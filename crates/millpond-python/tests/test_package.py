"""The package as it is installed: its names, its help, its page, its metadata."""

import doctest
import importlib.metadata
import importlib.util
import pathlib
import re
import tempfile
import textwrap

import millpond
import numpy as np

HERE = pathlib.Path(__file__).parent
DOCS = HERE.parents[2] / "docs"
PAGE = DOCS / "PYTHON.md"


def test_names_are_those_for_users():
    public = {name for name in dir(millpond) if not name.startswith("_")}
    arrays, files = {"Pond", "empty", "full", "ones", "stats", "zeros"}, {"MappedArray", "load", "open_array", "save"}
    assert public == set(millpond.__all__) == arrays | files
    for name in public:
        thing = getattr(millpond, name)
        assert thing.__module__ == "millpond" and thing.__doc__, name


def test_examples_of_the_help_do_what_they_say():
    ran = doctest.testmod(millpond, extraglobs={"millpond": millpond})
    assert ran.attempted > 10 and ran.failed == 0


def test_examples_of_the_page_run(tmp_path, monkeypatch, capsys):
    if not PAGE.exists():
        return
    first, files = re.findall(r"^ *```python\n(.*?)^ *```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    small = first.replace("50_000_000", "4_000_000").replace('"100M"', '"16M"')
    assert small.count("4_000_000") == small.count('"16M"') == 1, first
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(small, names)
    assert re.fullmatch(r"median 0\.(49|50)\d\d, [\d,]{4,} pages came back from swap\n", capsys.readouterr().out)
    before = names["a"].sum()
    exec(textwrap.dedent(files), names)
    assert names["a"].sum() == before > 0


def test_the_example_of_the_page_for_users_of_memmap_runs(folder, monkeypatch, capsys):
    example, = re.findall(r"^```python\n(.*?)^```$", (DOCS / "MEMMAP.md").read_text(), re.MULTILINE | re.DOTALL)
    with tempfile.TemporaryDirectory(dir=folder) as own, monkeypatch.context() as patch:
        patch.chdir(own)
        names = {}
        exec(example, names)
        assert capsys.readouterr().out == "[0. 1. 2.]\n"
        there = np.load("b.npy")
        assert there.shape == (10_000, 128) and there[0].sum() == 7 * 128 and there[1].sum() == np.arange(128).sum()


def test_the_program_that_was_written_for_memmap_finds_the_same(folder):
    spec = importlib.util.spec_from_file_location("nearest", HERE.parent / "examples" / "nearest.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    with tempfile.TemporaryDirectory(dir=folder) as own:
        found = program.main(own, 50_000, "8M")
        again = program.main(own, 50_000, "8M")
        vectors = np.fromfile(pathlib.Path(own, "vectors-50000.f4"), "f4").reshape(-1, program.WIDTH)
    asked = vectors[25_000] + np.float32(0.01)
    assert list(found) == list(again) == list(np.argsort(((vectors - asked) ** 2).sum(axis=1))[:5])


def test_the_metadata_say_what_it_is_and_whose():
    about = importlib.metadata.metadata("millpond")
    assert millpond.__version__ == about["Version"]
    assert about["License-Expression"] == "MIT OR Apache-2.0"
    assert about["Requires-Python"] == ">=3.10"
    assert "Typing :: Typed" in about.get_all("Classifier")
    assert "A forked child does not have the memory" in about.get_payload()
    files = {str(path) for path in importlib.metadata.files("millpond")}
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        path, = (path for path in files if path.endswith(f".dist-info/licenses/{licence}"))
        text = importlib.metadata.distribution("millpond").locate_file(path).read_text()
        assert "Permission is hereby granted" in text or "Apache License" in text
    assert {"millpond/py.typed", "millpond/__init__.pyi"} <= files
