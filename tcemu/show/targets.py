"""The layer over a drawing that answers the pointer and the arrow keys: what is under them is framed, and named."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from tcemu.show import svg

#: What has a target at all, and what is pointed at; & is the picture.
LOOK = "& .z path{fill:transparent}& .z :is(:hover,.on){stroke:var(--tc-ink);stroke-width:3}"


def target(data: str, title: str, names: str = "") -> str:
    """An outline that says `title`; `names` are its classes."""
    classes = f' class="{names}"' if names else ""
    return f'<path d="{data}"{classes}><title>{escape(title, quote=False)}</title></path>'


def layer(targets: Iterable[str]) -> str:
    """The layer with these targets; empty if there are none."""
    inside = svg.group(targets, "z")
    return f"<style>{LOOK}</style>{inside}" if inside else ""
