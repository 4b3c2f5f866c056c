"""The lines of a kernel under a picture of what it does: a line lights what it did, and what it did lights the line."""

from __future__ import annotations

import linecache
from collections import defaultdict
from collections.abc import Sequence

from tcemu.errors import counted
from tcemu.machine.events import Site
from tcemu.show import svg
from tcemu.show.layers import layer, target
from tcemu.show.sheet import Box
from tcemu.show.words import cut

#: Where functions, numbers and code begin; the height of a line, the width of a letter, the letters of a line.
_LEFT, _NUMBERS, _CODE = 10, 54, 64
_HIGH, _LETTER, _LETTERS = 17, 6.7, 120
#: The look of what is lit; & is the picture.
_LIT = (
    "& .y path{opacity:0;fill:var(--tc-mark);fill-opacity:.25;stroke:var(--tc-ink);stroke-width:2;pointer-events:none}"
)


def function_of(site: Site) -> str:
    """The name of a line's function, without that of the function around it."""
    return site.function.rpartition("<locals>.")[2]


def listing(steps: Sequence[tuple[Site, str, str]], low: float) -> tuple[list[str], str, tuple[float, float]]:
    """The lines of some steps, from `low` on: their elements, the layer over them and the steps, and their size.

    A step is its line, what it is, and its outline. Nothing if the source of a line cannot be read.
    """
    did: dict[tuple[str, str, int], list[tuple[str, str]]] = defaultdict(list)
    for site, title, box in steps:
        did[site.file, function_of(site), site.line].append((title, box))
    functions = list(dict.fromkeys((file, function) for file, function, _ in did))
    code = {place: linecache.getline(place[0], place[2]).strip() for place in did}
    if not all(code.values()):
        return [], "", (0, 0)
    elements, targets, bands, y, before = list[str](), list[str](), list[str](), low, ("", "")
    wide = _CODE + _LETTER * max(min(len(line), _LETTERS) for line in code.values()) + _LEFT
    for number, place in enumerate(sorted(did, key=lambda place: (functions.index(place[:2]), place[2]))):
        file, function, line = place
        if (file, function) != before:
            before = file, function
            elements.append(svg.text(_LEFT, y + 12, function, "n b"))
            y += _HIGH
        text = cut(code[place], _LETTERS)
        elements += [svg.text(_NUMBERS, y + 12, line, "n q", "end"), svg.text(_CODE, y + 12, text, "n")]
        own = Box(_NUMBERS - 30, y, _CODE - _NUMBERS + 34 + _LETTER * len(text), _HIGH).outline()
        lights = [(f"{function} line {line}: {counted(len(did[place]), 'step')}", own), *did[place]]
        targets += [target(box, title, f"n{number}") for title, box in lights]
        bands += [svg.path(box, f"n{number}") for _, box in lights]
        y += _HIGH
    rules = (f"&:has(.z .n{each}:is(:hover,.on)) .y .n{each}{{opacity:1}}" for each in range(len(did)))
    return elements, f"<style>{_LIT}{''.join(rules)}</style>{svg.group(bands, 'y')}{layer(targets)}", (wide, y - low)
