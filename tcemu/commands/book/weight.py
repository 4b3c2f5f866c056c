"""What a page of the book can do without: second copies of pictures, icons that no page has, sources of scripts."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from tcemu.show.palette import variables
from tcemu.show.svg import PLAIN, STYLES

#: The second copy of a picture, for pages that remove SVG, and what hides one of the two.
_SECOND = re.compile(r'<style>\.tc\w+-live\[hidden\].*?</style>|<img class="tc\w+-image"[^>]*>')
#: The style sheet of a picture; all but its smallest width is that of every picture.
_STYLE = re.compile(
    r'(<svg [^>]*\bid="tc\w{10}"[^>]*)(><title.*?</title><desc.*?</desc>)<style>(.*?)</style>', re.DOTALL
)
_HIDDEN = re.compile(r'(<div class="tc\w+-live") hidden="hidden">')
#: The signature of a function or class in the reference, and marks in it.
_SIGNATURE = re.compile(r'<dt class="sig.*?</dt>', re.DOTALL)
_MARK = re.compile(r'<span class="(?:pre|p|w|n|o|default_value)">([^<]*)</span>')
#: Code, and the marks of its words and signs that have the colour of all text.
_CODE = re.compile(r'<div class="highlight.*?</div>', re.DOTALL)
_UNCOLOURED = re.compile(r'<span class="(?:n|nn|p|w)">([^<]*)</span>')
#: What keeps its spaces.
_EXACT = re.compile("(<pre.*?</pre>|<script.*?</script>|<textarea.*?</textarea>)", re.DOTALL)
#: An icon in Font Awesome's script: its name, its size, other names, its code, and its outline.
_ICON = re.compile(r'"?([a-z0-9-]+)"?:\[\d+,\d+,\[[^\]]*\],"[0-9a-f]+",(?:"[^"]*"|\["[^"]*","[^"]*"\])\],?')
_NAMED = re.compile(r"\bfa-([a-z0-9-]+)")
#: Files of the theme that a browser does not ask for: maps for its authors, and texts in other languages.
_UNASKED = ("_static/**/*.map", "_static/locales/**/*.*", "_static/vendor/**/fa-brands-*.woff2")


def plain(html: str) -> str:
    """HTML whose pictures are there once, and take their style from the site."""
    return _STYLE.sub(_without_style, once(html))


def once(html: str) -> str:
    """HTML without the second copies of its pictures, for a page that shows the first ones."""
    return _HIDDEN.sub(r"\1>", _SECOND.sub("", html))


def _without_style(match: re.Match[str]) -> str:
    least = re.search(r"min-width:[\d.]+px", match[3])
    return f'{match[1]} style="{least[0] if least else ""}"{match[2]}'


def style_of_pictures() -> str:
    """What the style sheets of pictures have in common (show/picture.py), for all pictures of the site."""
    name = ".tcemu-picture svg[role=img]"
    sheet = f"{variables('each').replace('#each', name)}{name}{{background:var(--tc-paper);max-width:100%;height:auto;"
    return f"{sheet}display:block;{PLAIN}}}" + "".join(f"{name} {each}{{{STYLES[each]}}}" for each in STYLES)


def lightened(site: Path, notebooks: dict[str, Path]) -> None:
    """Take from a site that Sphinx has built what no page needs; notebooks are downloaded without outputs."""
    for pattern in _UNASKED:
        for file in site.glob(pattern):
            file.unlink()
    for file in site.glob("_sources/**/*.*"):
        name = file.relative_to(site / "_sources").as_posix()
        if name in notebooks:
            file.write_text(json.dumps(_without_outputs(notebooks[name])), encoding="utf-8")
        else:
            file.unlink()
    for page in site.rglob("*.html"):
        page.write_text(shorter(page.read_text(encoding="utf-8")), encoding="utf-8")
    _keep_icons(site)


def shorter(page: str) -> str:
    """A page without indentation, and without marks that change nothing in code and signatures."""
    page = _SIGNATURE.sub(_without_spans, page)
    page = _CODE.sub(lambda code: _UNCOLOURED.sub(r"\1", code[0]), page)
    pieces = _EXACT.split(page)
    pieces[::2] = [re.sub(r"\n\s+", "\n", piece) for piece in pieces[::2]]
    return "".join(pieces)


def _without_spans(signature: re.Match[str]) -> str:
    """A signature without the marks of its words and signs, which no style needs and which are most of its text."""
    text, count = signature[0], 1
    while count:
        text, count = _MARK.subn(r"\1", text)
    return text


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
