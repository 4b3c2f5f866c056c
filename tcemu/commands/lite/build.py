"""Builds the site: the packages for Pyodide, the course as JupyterLite's contents, and the book around them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tcemu.commands.book.weight import once
from tcemu.commands.lite.packages import AT_ONCE, fetch, pack
from tcemu.course import lay_out
from tcemu.course.lay_out import RECORD
from tcemu.errors import CourseError
from tcemu.progress import Progress

#: JupyterLab's extensions that the site has.
_KERNEL = "@jupyterlite/pyodide-kernel-extension"
_EXTENSIONS = ("anywidget", "@jupyter-widgets/jupyterlab-manager", _KERNEL)
#: Outputs of these kinds are text, whole or as a list of lines.
_TEXTS = ("text/", "image/")
#: The laboratory's folder in the site.
LAB = "live"


def build(site: Path, wheels: Path | None = None, *, book: bool = True) -> int:
    """Build the site, and return its bytes. Raises CourseError if something cannot be fetched."""
    with TemporaryDirectory(prefix="tcemu-lite-") as temporary:
        work = Path(temporary)
        with Progress("fetching Python for the browser, 80 MB") as shown:
            shown.show()
            fetched = fetch(wheels or work / "wheels")
        shutil.rmtree(site, ignore_errors=True)
        if book:
            from tcemu.commands.book.build import build as build_book

            build_book(site, live=LAB)
        with Progress("building JupyterLab and the packages, about a minute") as shown:
            shown.show()
            _jupyterlite(work, site / LAB)
            pack(fetched, site / LAB / "static" / "pyodide", _extension(_KERNEL) / "static" / "pypi")
    (site / ".nojekyll").touch()
    return sum(file.stat().st_size for file in site.rglob("*") if file.is_file())


# --------------------------------------------------------------------------------------------- JupyterLite


def _jupyterlite(work: Path, out: Path) -> None:
    """JupyterLab in `out`, with the course as its files."""
    contents, project = work / "contents", work / "project"
    lay_out(contents)
    (contents / RECORD).rename(contents / RECORD.removeprefix("."))  # the site has no hidden files
    for notebook in contents.rglob("*.ipynb"):
        notebook.write_text(_trusted(json.loads(notebook.read_text(encoding="utf-8"))), encoding="utf-8")
    project.mkdir()
    kernel = {"pyodideUrl": "./static/pyodide/pyodide.js", "loadPyodideOptions": {"packages": AT_ONCE}}
    data = {
        "appName": "tcemu", "exposeAppInBrowser": True,
        "litePluginSettings": {f"{_KERNEL}:kernel": kernel},
    }  # fmt: skip
    _write(project / "jupyter-lite.json", {"jupyter-lite-schema-version": 0, "jupyter-config-data": data})
    settings = {
        "federated_extensions": [str(_extension(name)) for name in _EXTENSIONS],
        "ignore_sys_prefix": ["federated_extensions"],
    }
    _write(project / "jupyter_lite_config.json", {"LiteBuildConfig": settings})
    asked = [sys.executable, "-m", "jupyterlite_core.app", "build", "--no-sourcemaps", "--apps", "lab"]
    asked += ["--lite-dir", str(project), "--contents", str(contents), "--output-dir", str(out.absolute())]
    done = subprocess.run(asked, cwd=project, capture_output=True, text=True, check=False)  # noqa: S603 - jupyterlite
    if done.returncode:
        raise CourseError(f"JupyterLite cannot be built: {(done.stderr or done.stdout).strip()[-600:]}")
    for font in (*out.rglob("*.eot"), *out.rglob("*.ttf"), *out.rglob("fa-*.svg")):  # every browser reads woff2
        font.unlink()
    shutil.copy(out / "static" / "favicons" / "favicon.ico", out / "lab")  # JupyterLite's own has ten sizes, 320 KB
    for part in (out / "build").glob("*.js"):  # a layout of mermaid's, of 1.5 MB, for diagrams that the course has not
        if b"org.eclipse.elk" in part.read_bytes():
            part.unlink()


def _trusted(notebook: dict[str, Any]) -> str:
    """A notebook of the site as its own pages show it: outputs are trusted, and each of their pictures is there once.

    A server joins the lines of an output's text; a page shows them with commas between them.
    """
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["metadata"]["trusted"] = True
            for data in (output["data"] for output in cell["outputs"] if "data" in output):
                data.update({kind: "".join(text) for kind, text in data.items() if kind.startswith(_TEXTS)})
                if "text/html" in data:
                    data["text/html"] = once(data["text/html"])
    return json.dumps(notebook, ensure_ascii=False, separators=(",", ":"))


def _extension(name: str) -> Path:
    """The folder of an extension of JupyterLab: where pip puts it."""
    folder = Path(sys.prefix) / "share" / "jupyter" / "labextensions" / name
    if not folder.is_dir():
        raise CourseError(f"JupyterLab's extension {name} is not in {folder}")
    return folder


def _write(path: Path, held: object) -> None:
    path.write_text(json.dumps(held, indent=1), encoding="utf-8")
