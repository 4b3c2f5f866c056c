"""The pictures of an explorer that a page keeps, so that its controls answer without a kernel.

Where there are too many, some controls move together, and each of the others only from the start. Sliders with many
positions keep some of them. A sentence beside the controls says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from itertools import combinations
from math import ceil, prod
from typing import Any

from tcemu.commands.book.weight import plain
from tcemu.errors import OperandError, listing
from tcemu.show.view import Control

#: The most positions that a slider keeps, and the most pictures of controls that move together.
_POSITIONS, _PICTURES = 128, 256
#: The name of a picture's elements.
_KEY = re.compile(r'<svg [^>]*\bid="(tc[0-9a-f]{10})"')


class Pieces:
    """Texts that have much in common, as strings of letters: each letter is a piece, and the same one everywhere."""

    #: The first letter, and the last one, which is before the surrogates.
    FIRST, LAST = 0x100, 0xD7FF

    def __init__(self) -> None:
        self._letters: dict[str, str] = {}

    def spelled(self, text: str) -> str:
        """The letters of a string, which is cut before and after each tag."""
        return "".join(self._letter(piece) for piece in re.split("(?=<)|(?<=>)", text) if piece)

    def _letter(self, piece: str) -> str:
        if piece not in self._letters:
            self._letters[piece] = chr(self.FIRST + len(self._letters))
        return self._letters[piece]

    @property
    def table(self) -> list[str]:
        """The pieces, by letter."""
        if self.FIRST + len(self._letters) > self.LAST:
            raise ValueError(f"{len(self._letters)} pieces are more than there are letters for")
        return list(self._letters)


def frames(explorer: Any) -> dict[str, Any]:
    """What a page needs of an explorer: where its controls can stand, and the picture for each of these states."""
    walker, pieces = explorer.at(**explorer.values), Pieces()
    controls = [_sampled(control) for control in walker.controls]
    start, free = walker.values, _together([len(_positions(control)) for control in controls])
    states: dict[tuple[Any, ...], dict[str, Any]] = {}

    def keep() -> None:
        values = tuple(walker.values.values())
        if values not in states:
            highs = [control.get("high", 0) for control in walker.controls]
            states[values] = {"values": values, "highs": highs, "said": walker.said}
            states[values]["html"] = pieces.spelled(_renamed(walker.html))

    for _ in _moves(walker, [control for at, control in enumerate(controls) if at in free]):
        keep()
    for at, control in enumerate(controls):
        if at not in free:
            walker = explorer.at(**start)
            for _ in _moves(walker, [control]):
                keep()
    walker = explorer.at(**start)
    keep()
    # two explorers that differ in their start only have the same states, in the same order
    return {
        "kind": "explorer", "controls": controls, "free": sorted(free), "note": _note(walker.controls, controls, free),
        "start": list(states).index(tuple(start.values())), "pieces": pieces.table, "states": list(states.values()),
    }  # fmt: skip


def _renamed(html: str) -> str:
    """The pictures under names that do not depend on their content, so that they have more in common."""
    html = plain(html)
    for number, name in enumerate(dict.fromkeys(_KEY.findall(html))):
        html = html.replace(name, f"tc{number:010x}")
    return html


def _moves(walker: Any, controls: Sequence[Control]) -> Iterator[None]:
    """Move these controls to all their positions, in all combinations; what has no picture is left out."""
    if not controls:
        yield
        return
    control, *others = controls
    # the end of a slider may depend on the controls before it
    high = next(each.get("high") for each in walker.controls if each["name"] == control["name"])
    for position in _positions(control | {"high": high}):
        with suppress(OperandError):
            walker.set(**{control["name"]: position})
            yield from _moves(walker, others)


def _positions(control: Control) -> list[Any]:
    if control["kind"] == "select":
        return list(control["options"])
    low, high, step = (Fraction(str(control[name])) for name in ("low", "high", "step"))
    exact = [low + step * number for number in range(int((high - low) / step) + 1)]
    return [int(each) if each.denominator == 1 and isinstance(control["step"], int) else float(each) for each in exact]


def _sampled(control: Control) -> Control:
    """The control, if it is a slider with many positions, with larger steps; it keeps the one where it stands."""
    if control["kind"] == "select" or len(_positions(control)) <= _POSITIONS:
        return dict(control)
    step = Fraction(str(control["step"]))
    least = ceil(Fraction(str(control["high"])) / _POSITIONS / step)
    larger = step * (1 << (least - 1).bit_length() if step == 1 else _round(least))
    low = Fraction(str(control["value"])) % larger
    whole = isinstance(control["step"], int)
    return dict(control) | {name: int(x) if whole else float(x) for name, x in (("low", low), ("step", larger))}


def _round(least: int) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 and so on that is not less."""
    sizes: list[int] = [part * 10**power for power in range(9) for part in (1, 2, 5)]
    return min(size for size in sizes if size >= least)


def _together(sizes: Sequence[int]) -> set[int]:
    """The controls that move together: those with the most combinations that are few enough."""
    every = (set(chosen) for count in range(len(sizes) + 1) for chosen in combinations(range(len(sizes)), count))
    few = [chosen for chosen in every if prod(sizes[at] for at in chosen) <= _PICTURES]
    return max(few, key=lambda chosen: (prod(sizes[at] for at in chosen), len(chosen)))


def _note(whole: Sequence[Control], kept: Sequence[Control], free: set[int]) -> str:
    """What a reader must know about the controls; empty if they do all that they do with a kernel."""
    moving = [(at, control["label"]) for at, control in enumerate(kept) if len(_positions(control)) > 1]
    alone = [label for at, label in moving if at not in free]
    notes = []
    if alone and len(alone) == len(moving):
        notes.append("one control moves at a time, and the others go back to where they started")
    elif alone:
        notes.append(f"moving {listing(alone)} takes the other controls back to where they started")
    steps: dict[float, list[str]] = {}
    for old, new in zip(whole, kept, strict=True):
        if old.get("step") != new.get("step"):
            steps.setdefault(new["step"], []).append(old["label"])
    for step, labels in steps.items():
        notes.append(f"{listing(labels, 'and')} move{'s' * (len(labels) == 1)} in steps of {step:g}")
    return f"On this page, {'; '.join(notes)}. With a running kernel, every position has its picture." if notes else ""
