"""The maps of rooms, their README.md, say where things are: every file and name in them exists."""

import ast
import re
from functools import cache

import pytest
from places import ROOT
from rows import rows

PACKAGE = ROOT / "tcemu"
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/README.md"))
#: Rooms of which a map names every file.
WHOLE = {"kernels": ("kernels", "native"), "simt": ("simt",)}


def named(room):
    """The files that a map names, and the names that follow each, up to the next file on its line."""
    for line in (room / "README.md").read_text(encoding="utf-8").splitlines():
        for path, names in re.findall(r"`([\w/.]+\.py|[\w/.]+/)`((?:(?!`[\w/.]+(?:\.py|/)`).)*)", line):
            yield path, re.findall(r"`(\w+)`", names)


def meant(room, path):
    """The file or folder that a map means: of its room, or of the repository."""
    return next((each for each in (room / path, ROOT / path) if each.exists()), None)


@cache
def defined(path):
    """The functions, classes, fields and constants that a file defines, methods too."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    made = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return made | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def test_a_missing_file_and_a_missing_name_are_found():
    assert meant(PACKAGE / "simt", "nowhere.py") is None
    assert {"Run", "nothing"} - defined(PACKAGE / "simt" / "run.py") == {"nothing"}


TABLE = [(number, room, *each) for room in ROOMS for number, each in enumerate(named(room))]


@rows("number room path names", TABLE, ids=lambda *row: f"{row[1].name} {row[2]}, {row[0]}")
def test_what_a_map_names_exists(number, room, path, names):
    place = meant(room, path)
    assert place is not None, path
    if place.suffix == ".py":
        assert set(names) <= defined(place), names


@pytest.mark.parametrize("room", WHOLE)
def test_every_file_is_on_the_map(room):
    on_it = {meant(PACKAGE / room, path).resolve() for path, _ in named(PACKAGE / room)}
    files = {path for each in WHOLE[room] for path in (PACKAGE / each).rglob("*.py") if path.name != "__init__.py"}
    assert files <= on_it, files - on_it


@pytest.mark.parametrize("room", ["cuda", "ptx"])
def test_every_file_is_listed_at_the_top_of_its_room(room):
    listed = ast.get_docstring(ast.parse((PACKAGE / room / "__init__.py").read_text(encoding="utf-8")))
    files = {path.name for path in (PACKAGE / room).glob("*.py")} - {"__init__.py"}
    assert not [name for name in files if name not in listed]
    named = re.findall(r"\b\w+\.py\b", listed)
    assert all((PACKAGE / room / name).exists() or (PACKAGE / room / "program" / name).exists() for name in named)


def test_modules_that_prose_names_exist():
    sources = [path for room in ("tcemu", "benchmarks", "tools") for path in (ROOT / room).rglob("*.py")]
    for path in sources:
        for name in re.findall(r"`tcemu\.kernels\.([a-z0-9_.]+)`", path.read_text(encoding="utf-8")):
            module = PACKAGE / "kernels" / name.replace(".", "/")
            assert module.is_dir() or module.with_suffix(".py").exists(), f"{path}: {name}"


def test_the_way_from_run_is_short():
    """Eight hops in six files, as counted in the map of the kernels."""
    way = (PACKAGE / "kernels" / "README.md").read_text(encoding="utf-8").split("## From tcemu.run")[1].split("## ")[0]
    hops = re.findall(r"^(\d)\. `([\w/.]+)`: `(\w+)`", way, re.MULTILINE)
    assert [int(number) for number, _, _ in hops] == list(range(1, 9))
    assert len({path for _, path, _ in hops}) <= 6
    for _, path, name in hops:
        assert name in defined(ROOT / path), (path, name)
