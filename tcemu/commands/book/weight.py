"""What a page of the book can do without: second copies of pictures, icons that no page has, sources of scripts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

#: The second copy of a picture, for pages that remove SVG, and what hides one of the two.
_SECOND = re.compile(r'<style>\.tc\w+-live\[hidden\].*?</style>|<img class="tc\w+-image"[^>]*>')
_HIDDEN = re.compile(r'(<div class="tc\w+-live") hidden="hidden">')
#: An icon in Font Awesome's script: its name, its size, other names, its code, and its outline.
_ICON = re.compile(r'"?([a-z0-9-]+)"?:\[\d+,\d+,\[[^\]]*\],"[0-9a-f]+",(?:"[^"]*"|\["[^"]*","[^"]*"\])\],?')
_NAMED = re.compile(r"\bfa-([a-z0-9-]+)")
#: Files of the theme that a browser does not ask for: maps for its authors, and texts in other languages.
_UNASKED = ("_static/**/*.map", "_static/locales/**/*.*", "_static/vendor/**/fa-brands-*.woff2")


def without_copies(html: str) -> str:
    """HTML whose pictures are there once."""
    return _HIDDEN.sub(r"\1>", _SECOND.sub("", html))


def lightened(site: Path, notebooks: dict[str, Path]) -> None:
    """Take from a site that Sphinx has built what no page needs; notebooks are downloaded without outputs."""
    for pattern in _UNASKED:
        for file in site.glob(pattern):
            file.unlink()
    for file in site.glob("_sources/**/*.*"):
        name = file.relative_to(site / "_sources").as_posix()
        if name in notebooks:
            file.write_text(json.dumps(_without_outputs(notebooks[name]), indent=1), encoding="utf-8")
        else:
            file.unlink()
    _keep_icons(site)


def _without_outputs(notebook: Path) -> dict[str, Any]:
    held: dict[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in held["cells"]:
        if "outputs" in cell:
            cell.update(outputs=[], execution_count=None)
    return held


def _keep_icons(site: Path) -> None:
    """Leave only the icons that pages and scripts name."""
    script = site / "_static" / "scripts" / "fontawesome.js"
    asking = [*site.rglob("*.html"), *script.parent.glob("*theme.js")]
    used = {name for file in asking for name in _NAMED.findall(file.read_text(encoding="utf-8"))}
    text = script.read_text(encoding="utf-8")
    script.write_text(_ICON.sub(lambda icon: icon[0] if icon[1] in used else "", text), encoding="utf-8")
