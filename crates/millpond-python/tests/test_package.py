"""The package as it is installed: its names, its help, its page, its metadata."""

import doctest
import importlib.metadata
import pathlib
import re
import textwrap

import millpond

PAGE = pathlib.Path(__file__).parents[3] / "docs" / "PYTHON.md"


def test_names_are_those_for_users():
    public = {name for name in dir(millpond) if not name.startswith("_")}
    assert public == set(millpond.__all__) == {"Pond", "empty", "full", "ones", "stats", "zeros"}
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
