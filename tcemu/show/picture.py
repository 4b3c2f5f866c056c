"""A picture is a value: SVG text, a title, and a description that says in words what the drawing shows."""

from __future__ import annotations

import base64
import hashlib
import re
import textwrap
from dataclasses import dataclass, field, replace
from html import escape, unescape
from os import PathLike
from pathlib import Path
from typing import Any

from tcemu.arguments import explained
from tcemu.show.folded import KEEPS_KEYS, folded
from tcemu.show.layers import KEYS
from tcemu.show.palette import variables
from tcemu.show.svg import LETTERS, PLAIN, STYLES, Drawing, flat, number

#: How small a picture may become in a narrow page before it scrolls, as a part of its size.
_SHRUNK = 0.85
#: Texts that begin at their x: x, classes, content.
_LINES = re.compile(r'<text x="(-?[\d.]+)" y="-?[\d.]+" class="([^"]*)">(.*?)</text>')
#: Text for screen readers only.
_SAID = "position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);margin:0"


@dataclass(frozen=True)
class Picture:
    """What the functions of tcemu.show return. Jupyter shows the drawing, a terminal the title and description.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> picture = tcemu.show.number_bits("f16", 0x3C00)
    >>> picture.title
    'f16 pattern 0x3c00 is 1'
    >>> with TemporaryDirectory() as folder:
    ...     picture.save(Path(folder) / "one.svg")
    """

    #: A complete SVG document that works on its own and inside a page, in a light and in a dark theme.
    svg: str
    title: str
    #: The text alternative: what a reader who does not see the drawing needs to know.
    description: str
    #: Prefix of the names of the picture's elements in a page, derived from the content.
    key: str
    #: SVG on top of the drawing that answers a pointer or the arrow keys; a picture without it is complete.
    layer: str = field(default="", repr=False)

    @property
    def html(self) -> str:
        """An HTML figure with the drawing inline, so that it follows the page's theme."""
        return self._figure(self._live())

    @property
    def portable_html(self) -> str:
        """The figure as it is saved in a notebook.

        A page that does not trust the notebook (JupyterLab before the first run) removes SVG and styles. It keeps the
        second copy, an image, which is hidden wherever styles are allowed.
        """
        # Web pages often have a rule [hidden] { display: none !important }.
        show = f"<style>.{self.key}-live[hidden]{{display:block!important}}.{self.key}-image{{display:none}}</style>"
        encoded = base64.b64encode(self.svg.encode()).decode()
        source = f"data:image/svg+xml;base64,{encoded}"
        image = f'<img class="{self.key}-image" alt="{escape(self.description)}" src="{source}">'
        live = f'<div class="{self.key}-live" hidden="hidden">{self._live()}</div>'
        return self._figure(f"{show}{live}{image}")

    def _live(self) -> str:
        """The drawing with its layer, under the picture's name."""
        return self.svg.removesuffix("</svg>") + re.sub("&(?=[ :])", f"#{self.key}", self.layer) + "</svg>"

    def _figure(self, drawing: str) -> str:
        """A figure. A drawing that is wider than the page scrolls, by keyboard too: it does not become unreadable."""
        name, keys, said = f'role="group" aria-label="{escape(self.title)}"', "", ""
        if self.layer:
            name = f'role="application" aria-label="{escape(self.title)}; arrow keys go from cell to cell"'
            keys = f' onkeydown="{escape(KEYS)}"'
            said = f'<p role="status" style="{_SAID}"></p>'
        return (
            '<figure class="tcemu-picture" style="margin:8px 0 16px">'
            f'<figcaption style="font-weight:600;margin:0 0 6px">{escape(self.title)}</figcaption>'
            f'<div class="tcemu-scroll" style="overflow-x:auto" tabindex="0" {name}{KEEPS_KEYS}{keys}>'
            f"{drawing}{said}</div>"
            f"{folded('In words', f'<p>{escape(self.description)}</p>', 'margin-top:4px')}"
            "</figure>"
        )

    def quiet(self) -> Picture:
        """The same picture without its layer, which is half of a map's size.

        >>> drawn = tcemu.show.number_bits("f16", 0x3C00)
        >>> drawn.quiet().title == drawn.title
        True
        """
        return replace(self, layer="")

    @explained
    def save(self, path: str | PathLike[str]) -> None:
        """Write the drawing as an SVG file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/html": self.portable_html, "image/svg+xml": self.svg, "text/plain": str(self)}

    def __str__(self) -> str:
        return f"{self.title}\n{textwrap.fill(self.description, 100)}"

    def __repr__(self) -> str:
        return f"<Picture {self.title!r} {self.key}>"


def picture(title: str, description: str, width: float, height: float, body: Drawing, layer: str = "") -> Picture:
    """Assemble a picture of `width` by `height` pixels from SVG elements; it is wider if a line of text needs it.

    In the rules of the `layer`, & is the picture.
    """
    drawing = flat(body)
    width = max(width, _reach(drawing))
    size = f'width="{number(width)}" height="{number(height)}" viewBox="0 0 {number(width)} {number(height)}"'
    content = f"{title}\n{description}\n{size}\n{drawing}"
    key = "tc" + hashlib.sha256(content.encode()).hexdigest()[:10]
    names = f'role="img" aria-labelledby="{key}t" aria-describedby="{key}d"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" id="{key}" {size} {names}>'
    words = f'<title id="{key}t">{escape(title)}</title><desc id="{key}d">{escape(description)}</desc>'
    whole = f"{head}{words}<style>{_style(key, drawing, width)}</style>{drawing}</svg>"
    return Picture(whole, title, description, key, layer)


def _reach(drawing: str) -> float:
    """How far lines of text go to the right, by the widths of their letters: none is cut off."""
    ends = [0.0]
    for x, names, text in _LINES.findall(drawing):
        looks = names.split()
        letter = next((LETTERS[look] for look in looks if look in LETTERS), 0)
        if letter and "c" not in looks:
            ends.append(float(x) + letter * len(unescape(re.sub("<[^>]*>", "", text))) + 6)
    return max(ends)


def _style(key: str, drawing: str, width: float) -> str:
    """The style sheet of one picture; every rule is limited to its id, so that pictures on a page do not interfere."""
    used = {f".{name}" for names in re.findall(r'class="([^"]*)"', drawing) for name in names.split()}
    sheet = f"#{key}{{background:var(--tc-paper);max-width:100%;height:auto;display:block;{PLAIN}}}"
    sheet += f"#{key}:not(:root){{min-width:{number(_SHRUNK * width)}px}}"
    return variables(key) + sheet + "".join(f"#{key} {name}{{{STYLES[name]}}}" for name in STYLES if name in used)
