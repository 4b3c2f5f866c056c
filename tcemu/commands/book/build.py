"""Builds the book with Sphinx: lays its sources out in a folder of their own, and has them turned into pages.

Sphinx with myst-nb reads the notebooks as they are stored and needs no network. (jupyter-book 2 fetches its theme from
a server for each build.)
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tcemu.commands.book.docstrings import processed
from tcemu.commands.book.pages import generated
from tcemu.commands.book.weight import lightened, without_copies
from tcemu.course.manifests import Manifest, manifest
from tcemu.errors import CourseError
from tcemu.version import __version__

_STATIC = Path(__file__).parent / "static"


def build(out: Path, course: Path | None = None, *, strict: bool = False, live: str = "") -> int:
    """Build the site in `out` and return its number of pages. Raises CourseError if Sphinx finds a mistake.

    `live` is the folder of the site in which the same notebooks run (`tcemu lite`): each page has a button for it.
    """
    wanted = manifest(course)
    with TemporaryDirectory(prefix="tcemu-book-") as work:
        sources = Path(work) / "sources"
        lay_out_sources(sources, wanted, live)
        _sphinx(sources, Path(work) / "doctrees", out, wanted, strict)
    lightened(out, {name: path for name, path in wanted.contents().items() if path.suffix == ".ipynb"})
    return len(list(out.rglob("*.html")))


def lay_out_sources(sources: Path, wanted: Manifest, live: str = "") -> None:
    """Put the notebooks and the generated pages into `sources`."""
    for name, path in wanted.contents().items():
        if path.suffix == ".ipynb":
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            button = _button(name, live) if live else ""
            (sources / name).write_text(_folded(path.read_text(encoding="utf-8"), button), encoding="utf-8")
    for name, text in generated(wanted, {name for name in wanted.contents() if name.endswith(".ipynb")}):
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        (sources / name).write_text(text, encoding="utf-8")


def _button(name: str, live: str) -> str:
    """What opens the page's notebook in the laboratory of the site."""
    up = "../" * name.count("/")
    return f'<a class="tcemu-run" href="{up}{live}/lab/index.html?path={name}">▶ Run this page in your browser</a>'


def _folded(notebook: str, button: str = "") -> str:
    """A notebook as myst-nb reads it: hidden code has its tag, and links name headings as it does.

    `button` follows the title.
    """
    held = json.loads(notebook)
    first = held["cells"][0]
    if button and first["cell_type"] == "markdown":
        title, _, rest = "".join(first["source"]).partition("\n")
        first["source"] = f"{title}\n\n{button}\n{rest}"
    for cell in held["cells"]:
        metadata = cell["metadata"]
        if metadata.get("jupyter", {}).get("source_hidden"):
            metadata["tags"] = [*metadata.get("tags", []), "hide-input"]
        if cell["cell_type"] == "markdown":
            cell["source"] = _LINK.sub(_to_heading, "".join(cell["source"]))
        for output in cell.get("outputs", []):
            if html := output.get("data", {}).get("text/html"):
                output["data"] = {"text/html": without_copies("".join(html))}
    return json.dumps(held)


#: A link to a heading of a notebook.
_LINK = re.compile(r"(\]\([^()#\s]*\.ipynb#)([^()\s]+)\)")


def _to_heading(link: re.Match[str]) -> str:
    """The link with the heading's name as MyST makes it; JupyterLab keeps capitals and punctuation."""
    name = re.sub(r"[^\w-]", "", link[2].lower())
    return f"{link[1]}{name})"


def _sphinx(sources: Path, doctrees: Path, out: Path, wanted: Manifest, strict: bool) -> None:
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError

    out.mkdir(parents=True, exist_ok=True)
    try:
        app = Sphinx(
            sources, None, out, doctrees, "html", confoverrides=_settings(wanted), status=None,
            warningiserror=strict, exception_on_warning=False,
        )  # fmt: skip
        app.connect("autodoc-process-docstring", processed)
        app.connect("html-page-context", _downloads, priority=400)  # before the theme makes its buttons
        app.build(force_all=True)
    except SphinxError as error:
        raise CourseError(f"the book cannot be built: {error}") from error
    if app.statuscode:
        raise CourseError("the book has errors, which are listed above")


def _downloads(_app: Any, name: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Only notebooks can be downloaded: the text of the other pages is made from the tables."""
    if not name.startswith(("notebooks/", "exercises/")):
        context["page_source_suffix"] = ""


def _settings(wanted: Manifest) -> dict[str, Any]:
    """What conf.py of a Sphinx project says."""
    return {
        "project": wanted.title,
        "author": "The tcemu authors",
        "version": __version__,
        "release": __version__,
        "extensions": ["myst_nb", "sphinx.ext.autodoc"],
        "html_theme": "sphinx_book_theme",
        "html_title": wanted.title,
        "html_static_path": [str(_STATIC)],
        "html_js_files": ["theme.js"],
        "html_css_files": ["book.css"],
        "html_show_sourcelink": False,
        "html_theme_options": {
            "show_navbar_depth": 1,
            "collapse_navbar": True,
            "use_download_button": True,
            "home_page_in_toc": True,
            "navbar_persistent": [],  # the sidebar has the search field
        },
        "nb_execution_mode": "off",  # the outputs are stored, and the tests compare them
        "nb_merge_streams": True,
        "myst_enable_extensions": ["colon_fence", "attrs_inline"],
        "myst_heading_anchors": 4,
        "autodoc_typehints": "signature",
        "autodoc_member_order": "bysource",
        "suppress_warnings": ["mystnb.unknown_mime_type", "misc.highlighting_failure"],
        "show_warning_types": True,
    }
