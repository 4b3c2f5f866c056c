"""HTML that is inert: no scripts, no links that lead anywhere, no files from elsewhere, and all text escaped.

A page is one file, which works without a network. Pictures are images, in which a browser runs nothing, and the
page's policy forbids everything but its own style sheet and these images.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from tcemu.grade.output.sheet import number
from tcemu.grade.output.words import SIGNS, WORDS
from tcemu.grade.plain import visible
from tcemu.show.palette import ROLES

_TEMPLATES = Path(__file__).parent / "templates"
_TITLE, _WORDS = (re.compile(f"<{tag}[^>]*>(.*?)</{tag}>", re.DOTALL) for tag in ("title", "desc"))


def page(template: str, **held: Any) -> str:
    """A page made from one of the templates; text is made visible and escaped, wherever it stands.

    >>> from tcemu.grade.output.pages import page
    >>> from tcemu.grade.records import Grade
    >>> "<b>" in page("feedback.html", grade=Grade("<b>", "0"), about=[], books=[])
    False
    """
    sheet = _style()
    allowed = base64.b64encode(hashlib.sha256(sheet.encode()).digest()).decode()
    return _environment().get_template(template).render(style=Markup(sheet), style_hash=allowed, **held)  # noqa: S704


@cache
def _environment() -> Environment:
    made = Environment(
        autoescape=True, finalize=_shown, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
        loader=FileSystemLoader(_TEMPLATES), keep_trailing_newline=True,
    )  # fmt: skip
    made.filters |= {"prose": _prose, "picture": _picture, "points": number}
    made.globals |= {"WORDS": WORDS, "SIGNS": SIGNS}
    return made


def _shown(value: Any) -> Any:
    """What an expression of a template prints: markup of this module as it is, other text with nothing invisible."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(text: str) -> Markup:
    """Text with `code`; further lines, such as a report, keep their form."""
    head, _, rest = visible(text, lines=True).partition("\n")
    words = Markup("").join(
        Markup("<code>{}</code>").format(part) if odd % 2 else escape(part)
        for odd, part in enumerate(re.split("`([^`]+)`", head))
    )
    return Markup("<p>{}</p>").format(words) + (Markup("<pre>{}</pre>").format(rest) if rest.strip() else Markup(""))


def _picture(svg: str) -> Markup:
    """A drawing of the package as an image, with its title, and its description for those who cannot see it."""
    title, words = (unescape(match[1]) if (match := part.search(svg)) else "" for part in (_TITLE, _WORDS))
    source = base64.b64encode(svg.encode("utf-8", "replace")).decode()
    return Markup(
        '<figure><figcaption>{}</figcaption><div class="scroll" role="group" aria-label="{}" tabindex="0">'
        '<img alt="{}" src="data:image/svg+xml;base64,{}"></div>'
        "<details><summary>In words</summary><p>{}</p></details></figure>"
    ).format(*map(visible, (title, title, words)), source, visible(words))


@cache
def _style() -> str:
    """The style sheet, with the colours of the package's pictures."""

    def colours(theme: str) -> str:
        return "".join(f"--{role}:{getattr(shade, theme)};" for role, shade in ROLES.items())

    rules = (_TEMPLATES / "style.css").read_text(encoding="utf-8")
    return f":root{{{colours('light')}}}\n@media (prefers-color-scheme:dark){{:root{{{colours('dark')}}}}}\n{rules}"
