"""Sliders around the pictures. A widget only calls a function that returns a Picture.

Every number can be set by a slider and by a labelled box beside it, both with the keyboard. A saved notebook keeps the
first picture, so that it can be read without a kernel. ipywidgets is imported when the first widget is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tcemu import show
from tcemu.errors import OperandError, listing
from tcemu.formats import FORMATS, lookup
from tcemu.formats.arrays import as_array
from tcemu.instructions import Instruction, run
from tcemu.show.picture import Picture

__all__ = [
    "Choice",
    "Explorer",
    "Range",
    "bits_of_a_number",
    "flip_one_bit",
    "rounding_of_a_number",
    "who_holds_what",
]


@dataclass(frozen=True)
class Range:
    """A slider over the whole numbers from 0 to `high`."""

    label: str
    high: int
    start: int = 0


@dataclass(frozen=True)
class Choice:
    """A list to choose from."""

    label: str
    options: tuple[str, ...]
    start: str


class Explorer:
    """A picture with controls. `explorer.set(lane=13)` has the same effect as moving the slider called lane.

    `draw` gets the controls' values by name. So does `limits`, if given; it returns the largest values of the sliders
    that depend on other controls.
    """

    def __init__(
        self,
        draw: Callable[..., Picture],
        controls: Mapping[str, Range | Choice],
        limits: Callable[..., Mapping[str, int]] | None = None,
    ) -> None:
        import ipywidgets  # type: ignore[import-untyped]

        self._draw, self._limits = draw, limits
        self._rows = {name: _row(ipywidgets, control) for name, control in controls.items()}
        self._sheet = ipywidgets.HTML()
        boxes = [ipywidgets.HBox(row[::-1]) for row in self._rows.values()]
        self._box = ipywidgets.VBox([*boxes, self._sheet])
        for row in self._rows.values():
            row[0].observe(self._redraw, "value")
        self._redraw()

    @property
    def values(self) -> dict[str, Any]:
        """The current values of the controls."""
        return {name: row[0].value for name, row in self._rows.items()}

    @property
    def picture(self) -> Picture:
        """The current picture."""
        return self._picture

    def set(self, **values: Any) -> Picture:
        """Move controls, and return the new picture. Raises OperandError for a control or value that does not exist."""
        for name, value in values.items():
            if name not in self._rows:
                raise OperandError(f"no control is called {name!r}; there are {listing(self._rows, 'and')}")
            widget = self._rows[name][0]
            allowed = widget.options if hasattr(widget, "options") else range(widget.min, widget.max + 1)
            if value not in allowed:
                what = listing(allowed) if hasattr(widget, "options") else f"whole numbers from 0 to {widget.max}"
                raise OperandError(f"{name} = {value!r} is not possible: {name} takes {what}")
            widget.value = value
        return self._picture

    def _redraw(self, _change: object = None) -> None:
        if self._limits is not None:
            for name, high in self._limits(**self.values).items():
                for widget in self._rows[name]:
                    widget.max = high
        self._picture = self._draw(**self.values)
        self._sheet.value = self._picture.html

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """The widget for a page with a kernel, and the current picture for one without."""
        bundle: dict[str, Any] = dict(self._box._repr_mimebundle_())
        names = listing([row[0].tooltip for row in self._rows.values()], "and")
        note = f"<p><em>With a running kernel, there are controls for {names} here.</em></p>"
        return bundle | {"text/html": note + self._picture.portable_html, "text/plain": f"{self!r}\n{self._picture}"}

    def __repr__(self) -> str:
        return f"<Explorer {', '.join(f'{name}={value!r}' for name, value in self.values.items())}>"


def _row(ipywidgets: Any, control: Range | Choice) -> list[Any]:
    """The widgets of one control; the value of the first counts, and the others follow it."""
    wide = {"description_width": "88px"}
    if isinstance(control, Choice):
        options = {"options": control.options, "value": control.start}
        return [ipywidgets.Dropdown(description=control.label, tooltip=control.label, style=wide, **options)]
    limits = {"min": 0, "max": control.high, "value": control.start}
    # A screen reader finds no name on the slider itself (ipywidgets 8); the box has one and takes the same keys.
    number = ipywidgets.BoundedIntText(description=control.label, style=wide, layout={"width": "190px"}, **limits)
    slider = ipywidgets.IntSlider(tooltip=control.label, readout=False, layout={"width": "420px"}, **limits)
    ipywidgets.link((slider, "value"), (number, "value"))
    return [slider, number]


# ---------------------------------------------------------------------------------------------- the explorers


def who_holds_what(instruction: Instruction, lane: int = 0) -> Explorer:
    """A, B and D of an instruction, and a slider for the lane whose elements are marked."""
    lanes = instruction.fragments["a"].lanes
    return Explorer(lambda lane: show.mma_map(instruction, lane=lane), {"lane": Range("lane", lanes - 1, lane)})


def bits_of_a_number(form: str = "e4m3", pattern: int = 0) -> Explorer:
    """The bits of one number, with a list of all formats and sliders for sign, exponent and mantissa."""
    fields = lookup(form).fields(pattern)
    top = _field_limits(form)
    controls: dict[str, Range | Choice] = {"form": Choice("format", tuple(FORMATS), form)}
    for name, start in fields._asdict().items():
        controls[name] = Range(name, top[name], start)
    return Explorer(_bits, controls, lambda form, **_: _field_limits(form))


def _field_limits(name: str) -> dict[str, int]:
    form = lookup(name)
    return {"sign": int(form.signed), "exponent": (1 << form.exponent) - 1, "mantissa": (1 << form.mantissa) - 1}


def _bits(form: str, sign: int, exponent: int, mantissa: int) -> Picture:
    row = lookup(form)
    code = ((sign << row.exponent | exponent) << row.mantissa) | mantissa
    return show.number_bits(row, code << row.padding)


def rounding_of_a_number(form: str = "e4m3", thousandths: int = 1300, high: int = 4000) -> Explorer:
    """The results of each rounding of a number between 0 and `high` thousandths."""
    names = tuple(
        name for name, row in FORMATS.items() if row.kind == "float" and row.largest > high / 1000 and row.zero
    )
    number = Range("thousandths", high, thousandths)
    controls: dict[str, Range | Choice] = {"form": Choice("format", names, form), "thousandths": number}
    return Explorer(lambda form, thousandths: show.rounding(form, thousandths / 1000), controls)


def flip_one_bit(
    instruction: Instruction,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    target: str = "sm_90a",
    **start: Any,
) -> Explorer:
    """Change one bit of one register of A or B, and see which elements of D change.

    `a`, `b` and `c` are registers; `start` may give operand ("a" or "b"), lane, register and bit.
    """
    operands = {role: as_array(given, f"operand {role}") for role, given in {"a": a, "b": b, "c": c}.items()}
    d = instruction.fragments["d"]
    before = d.unpack(run(instruction, *operands.values(), target=target))

    def draw(operand: str, lane: int, register: int, bit: int) -> Picture:
        registers = operands[operand].copy()
        registers[lane, register] ^= registers.dtype.type(1 << bit)
        after = d.unpack(run(instruction, *(operands | {operand: registers}).values(), target=target))
        cause = f"bit {bit} of register {operand}{register} in lane {lane}"
        return show.changes(before, after, d.format, cause=cause)

    def limits(operand: str, **_: object) -> dict[str, int]:
        return {"register": instruction.fragments[operand].registers - 1}

    controls: dict[str, Range | Choice] = {
        "operand": Choice("operand", ("a", "b"), start.get("operand", "a")),
        "lane": Range("lane", 31, start.get("lane", 0)),
        "register": Range("register", instruction.fragments["a"].registers - 1, start.get("register", 0)),
        "bit": Range("bit", 8 * operands["a"].itemsize - 1, start.get("bit", 0)),
    }
    return Explorer(draw, controls, limits)
