"""The sign before a verdict: a tick or a cross, so that right and wrong differ in more than their colour."""

from __future__ import annotations

#: The sign and its colour, by whether something is right; white on it is legible, and it is in a dark page.
_SIGNS = {True: ("✓", "#1b7f3b"), False: ("✗", "#b3261e")}
_LOOK = "display:inline-block;min-width:1.4em;border-radius:3px;text-align:center;font-weight:700;color:#fff"


def tick(right: bool) -> str:
    """The sign as HTML. A screen reader does not read it: the words that follow say the same."""
    (sign, colour), name = _SIGNS[right], "tcemu-right" if right else "tcemu-wrong"
    return f'<span class="{name}" aria-hidden="true" style="{_LOOK};background:{colour}">{sign}</span> '
