"""The map of the kernels says where things are: every file and function that it names exists."""

import ast
import re
from functools import cache

from places import ROOT
from rows import rows

KERNELS = ROOT / "tcemu" / "kernels"
MAP = (KERNELS / "README.md").read_text(encoding="utf-8")
#: Lines that name a file, and the names that follow it up to the next file.
PLACES = [
    (path, re.findall(r"`(\w+)`", names))
    for line in MAP.splitlines()
    for path, names in re.findall(r"`([\w/]+\.py)`((?:(?!`[\w/]+\.py`).)*)", line)
]


@cache
def defined(path):
    """The functions, classes and constants that a file defines, methods too."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    made = {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return made | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def found(path):
    """The file that the map means: of the kernels, or of the package."""
    return next(each for each in (KERNELS / path, ROOT / path) if each.exists())


@rows("path names", PLACES, ids=lambda path, names: f"{path} {names}")
def test_what_the_map_names_exists(path, names):
    assert set(names) <= defined(found(path)), names


def test_every_file_is_on_the_map():
    named = {found(path) for path, _ in PLACES}
    rooms = KERNELS, KERNELS.parent / "native"
    files = {path for room in rooms for path in room.rglob("*.py") if path.name != "__init__.py"}
    assert files <= named, files - named


def test_modules_that_prose_names_exist():
    sources = [path for room in ("tcemu", "benchmarks", "tools") for path in (ROOT / room).rglob("*.py")]
    for path in sources:
        for name in re.findall(r"`tcemu\.kernels\.([a-z0-9_.]+)`", path.read_text(encoding="utf-8")):
            module = KERNELS / name.replace(".", "/")
            assert module.is_dir() or module.with_suffix(".py").exists(), f"{path}: {name}"


def test_the_way_from_run_is_short():
    """Eight hops in six files, as counted in the map."""
    way = MAP.split("## From tcemu.run")[1].split("## ")[0]
    hops = re.findall(r"^(\d)\. `([\w/.]+)`: `(\w+)`", way, re.MULTILINE)
    assert [int(number) for number, _, _ in hops] == list(range(1, 9))
    assert len({path for _, path, _ in hops}) <= 6
    for _, path, name in hops:
        assert name in defined(ROOT / path), (path, name)
