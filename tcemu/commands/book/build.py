"""Builds the book with Sphinx: lays its sources out in a folder of their own, and has them turned into pages.

Sphinx with myst-nb reads the notebooks as they are stored and needs no network. (jupyter-book 2 fetches its theme from
a server for each build.)
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from tcemu.commands.book.docstrings import processed
from tcemu.commands.book.pages import generated
from tcemu.commands.book.running import answers
from tcemu.commands.book.weight import lightened, plain, style_of_pictures
from tcemu.course.manifests import Manifest, manifest
from tcemu.errors import CourseError
from tcemu.progress import Progress
from tcemu.version import __version__

_STATIC = Path(__file__).parent / "static"
#: The view of explorers and questions, which the book has in common with a page that has a kernel.
_SHOW = Path(__file__).parents[2] / "show"
#: In this order: each uses what the ones before it define.
_SCRIPTS = ("view.js", "formulas.js", "judge.js", "answers.js")
#: What the notebooks of a course answer: by notebook, and by the cell's place.
_Answers = Mapping[str, Mapping[int, Mapping[str, Any]]]


def build(out: Path, course: Path | None = None, *, strict: bool = False, live: str = "", still: bool = False) -> int:
    """Build the site in `out` and return its number of pages. Raises CourseError if Sphinx finds a mistake.

    `live` is the folder of the site in which the same notebooks run (`tcemu lite`): each page has a button for it.
    The notebooks are run for what their explorers and questions answer, unless the pages are to be `still`.
    """
    wanted = manifest(course)
    with TemporaryDirectory(prefix="tcemu-book-") as work:
        sources = Path(work) / "sources"
        lay_out_sources(sources, wanted, live, {} if still else _answered(wanted))
        _write_scripts(sources / "_answers")
        _sphinx(sources, Path(work) / "doctrees", out, _settings(wanted, downloads=not live), strict)
    # the laboratory has the notebooks to download
    lightened(out, {} if live else {name: path for name, path in wanted.contents().items() if path.suffix == ".ipynb"})
    return len(list(out.rglob("*.html")))


def _answered(wanted: Manifest) -> _Answers:
    """What each notebook of the course answers. A cell that fails is named; its page shows what is stored."""
    notebooks = {name: path for name, path in wanted.contents().items() if name.startswith("notebooks/")}
    notebooks = {name: path for name, path in notebooks.items() if path.suffix == ".ipynb" and _asks(path)}
    by_notebook = {}
    with Progress("running the notebooks", len(notebooks), "notebooks") as shown:
        shown.show()
        for name, (kept, errors) in zip(notebooks, answers(notebooks.values()), strict=True):
            by_notebook[name] = kept
            shown.show(len(by_notebook))
            for error in errors:
                click.echo(f"does not answer in the book: {error}", err=True)
    return by_notebook


def _asks(notebook: Path) -> bool:
    """Whether a notebook may have explorers or questions."""
    return "tcemu-" in notebook.read_text(encoding="utf-8")


def _write_scripts(folder: Path) -> None:
    """The scripts of the view, which is a module: a page that is opened as a file cannot load one."""
    folder.mkdir()
    module = (_SHOW / "view.js").read_text(encoding="utf-8")
    script = module.replace("export default { render };", "window.tcemu = { render };")
    (folder / "view.js").write_text(f"{{\n{script}}}\n", encoding="utf-8")
    (folder / "pictures.css").write_text(style_of_pictures(), encoding="utf-8")
    (folder / "view.css").write_text((_SHOW / "view.css").read_text(encoding="utf-8"), encoding="utf-8")


def lay_out_sources(sources: Path, wanted: Manifest, live: str = "", answered: _Answers | None = None) -> None:
    """Put the notebooks and the generated pages into `sources`."""
    for name, path in wanted.contents().items():
        if path.suffix == ".ipynb":
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            button, kept = _button(name, live) if live else "", (answered or {}).get(name, {})
            (sources / name).write_text(_folded(path.read_text(encoding="utf-8"), button, kept), encoding="utf-8")
    for name, text in generated(wanted, {name for name in wanted.contents() if name.endswith(".ipynb")}):
        (sources / name).parent.mkdir(parents=True, exist_ok=True)
        (sources / name).write_text(text, encoding="utf-8")


def _button(name: str, live: str) -> str:
    """What opens the page's notebook in the laboratory of the site, and what downloads it."""
    up = "../" * name.count("/")
    run = f'<a class="tcemu-run" href="{up}{live}/lab/index.html?path={name}">▶ Run this page in your browser</a>'
    return f'{run} <a href="{up}{live}/files/{name}" download>Download the notebook</a>'


def _folded(notebook: str, button: str, answered: Mapping[int, Mapping[str, Any]]) -> str:
    """A notebook as myst-nb reads it: hidden code has its tag, and links name headings as it does.

    `button` follows the title; `answered` are the answers of its cells.
    """
    held = json.loads(notebook)
    first = held["cells"][0]
    if button and first["cell_type"] == "markdown":
        title, _, rest = "".join(first["source"]).partition("\n")
        first["source"] = f"{title}\n\n{button}\n{rest}"
    shared: set[str] = set()
    for number, cell in enumerate(held["cells"]):
        metadata = cell["metadata"]
        if metadata.get("jupyter", {}).get("source_hidden"):
            metadata["tags"] = [*metadata.get("tags", []), "hide-input"]
        if cell["cell_type"] == "markdown":
            cell["source"] = _LINK.sub(_to_heading, "".join(cell["source"]))
        for output in cell.get("outputs", []):
            if html := output.get("data", {}).get("text/html"):
                output["data"] = {"text/html": plain("".join(html))}
                if number in answered and output["output_type"] == "execute_result":
                    output["data"]["text/html"] = _answering(output["data"]["text/html"], answered[number], shared)
    return json.dumps(held)


def _answering(html: str, facts: Mapping[str, Any], shared: set[str]) -> str:
    """An output with what its controls answer; states that another one of the page has are not repeated.

    `shared` are the names of those that the page has already.
    """
    if facts["kind"] == "prediction":
        html = re.sub("<figure.*?</figure>", "", html, flags=re.DOTALL)
        facts = {**facts, "reveal": plain(facts["reveal"])}
    # the answers have the picture; without scripts there are its title and its words
    html = re.sub('<div class="tcemu-scroll".*</div>(?=<details)', "", html, flags=re.DOTALL)
    if facts["kind"] == "explorer":
        kept = {name: facts[name] for name in ("pieces", "states")}
        name = hashlib.sha256(json.dumps(kept).encode()).hexdigest()[:10]
        facts = {**{each: facts[each] for each in facts if each not in kept or name not in shared}, "kept": name}
        shared.add(name)
    text = json.dumps(facts, ensure_ascii=False, separators=(",", ":"))
    packed = base64.b64encode(zlib.compress(text.encode(), 9)).decode()
    return f'<div>{html}</div><script type="text/plain" class="tcemu-answers">{packed}</script>'


#: A link to a heading of a notebook.
_LINK = re.compile(r"(\]\([^()#\s]*\.ipynb#)([^()\s]+)\)")


def _to_heading(link: re.Match[str]) -> str:
    """The link with the heading's name as MyST makes it; JupyterLab keeps capitals and punctuation."""
    name = re.sub(r"[^\w-]", "", link[2].lower())
    return f"{link[1]}{name})"


def _sphinx(sources: Path, doctrees: Path, out: Path, settings: Mapping[str, Any], strict: bool) -> None:
    from sphinx.application import Sphinx
    from sphinx.errors import SphinxError

    out.mkdir(parents=True, exist_ok=True)
    try:
        app = Sphinx(
            sources, None, out, doctrees, "html", confoverrides=dict(settings), status=None,
            warningiserror=strict, exception_on_warning=False,
        )  # fmt: skip
        app.connect("autodoc-process-docstring", processed)
        app.connect("html-page-context", _downloads, priority=400)  # before the theme makes its buttons
        with Progress("writing the book") as shown:
            _show_pages(app, shown)
            app.build(force_all=True)
    except SphinxError as error:
        raise CourseError(f"the book cannot be built: {error}") from error
    if app.statuscode:
        raise CourseError("the book has errors, which are listed above")


def _show_pages(app: Any, shown: Progress) -> None:
    """Count the pages of the book as Sphinx reads them, and again as it writes them."""
    done = count(1)

    def count_one(app: Any, *_: Any) -> None:
        shown.show(next(done), 2 * len(app.env.found_docs))

    shown.show()
    for event in ("source-read", "html-page-context"):
        app.connect(event, count_one)


def _downloads(_app: Any, name: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Only notebooks can be downloaded: the text of the other pages is made from the tables."""
    if not name.startswith(("notebooks/", "exercises/")):
        context["page_source_suffix"] = ""


def _settings(wanted: Manifest, *, downloads: bool) -> dict[str, Any]:
    """What conf.py of a Sphinx project says; with `downloads`, each notebook's page has a button for it."""
    return {
        "project": wanted.title,
        "author": "The tcemu authors",
        "version": __version__,
        "release": __version__,
        "extensions": ["myst_nb", "sphinx.ext.autodoc"],
        "html_theme": "sphinx_book_theme",
        "html_title": wanted.title,
        "html_static_path": [str(_STATIC), "_answers"],
        "html_js_files": ["theme.js", *((script, {"defer": "defer"}) for script in _SCRIPTS)],
        "html_css_files": ["pictures.css", "view.css", "book.css"],
        "html_show_sourcelink": False,
        "html_theme_options": {
            "show_navbar_depth": 1,
            "collapse_navbar": True,
            "use_download_button": downloads,
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
