"""What is folded away on a page, and the keys that stay there."""

from __future__ import annotations

#: With this attribute, an element that has the focus keeps its keys: JupyterLab would cut the cell on x.
KEEPS_KEYS = ' data-lm-suppress-shortcuts="true"'


def folded(summary: str, content: str, style: str = "") -> str:
    """HTML folded away under a summary, which is HTML too.

    >>> from tcemu.show.folded import folded
    >>> folded("Hint", "<p>Count.</p>")
    '<details><summary data-lm-suppress-shortcuts="true">Hint</summary><p>Count.</p></details>'
    """
    look = f' style="{style}"' if style else ""
    return f"<details{look}><summary{KEEPS_KEYS}>{summary}</summary>{content}</details>"
