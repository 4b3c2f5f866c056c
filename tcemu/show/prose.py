"""Text, values and verdicts as HTML, for questions and their answers."""

from __future__ import annotations

from html import escape
from typing import Any

from tcemu.show.picture import Picture


def html(shown_then: Any, *, stored: bool) -> str:
    """Anything that a notebook can show."""
    if isinstance(shown_then, Picture):
        return shown_then.quiet().portable_html if stored else shown_then.html
    for name in ("html", "_repr_html_"):
        content = getattr(shown_then, name, None)
        if content is not None:
            return str(content() if callable(content) else content)
    tag = "p" if isinstance(shown_then, str) and "\n" not in shown_then else "pre"  # a sentence is prose
    return f"<{tag}>{escape(str(shown_then))}</{tag}>"


def paragraphs(text: str) -> str:
    """Each line as a paragraph."""
    return "".join(f"<p>{inline(line)}</p>" for line in text.splitlines())


def inline(text: str) -> str:
    """Text with `code` in backquotes."""
    pieces = escape(text).split("`")
    return "".join(f"<code>{piece}</code>" if number % 2 else piece for number, piece in enumerate(pieces))


#: The sign and its colour, by whether something is right; white on it is legible, and it is in a dark page.
_SIGNS = {True: ("✓", "#1b7f3b"), False: ("✗", "#b3261e")}
_LOOK = "display:inline-block;min-width:1.4em;border-radius:3px;text-align:center;font-weight:700;color:#fff"


def tick(right: bool) -> str:
    """The sign as HTML. A screen reader does not read it: the words that follow say the same."""
    (sign, colour), name = _SIGNS[right], "tcemu-right" if right else "tcemu-wrong"
    return f'<span class="{name}" aria-hidden="true" style="{_LOOK};background:{colour}">{sign}</span> '
