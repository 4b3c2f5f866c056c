"""Sliders around the pictures. A widget only calls a function that returns a Picture.

Every number can be set by a slider and by a box beside it, by mouse and keyboard. A saved notebook keeps the first
picture, so that it can be read without a kernel. anywidget is imported when the first widget is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import show
from tcemu.errors import OperandError, briefly, listing
from tcemu.formats import FORMATS, lookup
from tcemu.formats.arrays import as_array
from tcemu.instructions import Instruction, parse, run
from tcemu.layouts import Descriptor, copy_tile
from tcemu.layouts.canonical import Major
from tcemu.show.picture import Picture
from tcemu.show.view import Control, view, widget_bundle

__all__ = [
    "Choice",
    "Explorer",
    "Range",
    "bits_of_a_number",
    "descriptor_of_a_tile",
    "flip_one_bit",
    "rounding_of_a_number",
    "step_along_k",
    "who_holds_what",
]

Values = dict[str, Any]


@dataclass(frozen=True)
class Range:
    """A slider over the numbers from 0 to `high` in steps of `step`: whole numbers, unless the step is a fraction."""

    label: str
    high: float
    start: float = 0
    step: float = 1

    def takes(self, value: object, high: float) -> bool:
        """Whether the slider has a position for `value` if it ends at `high`."""
        if isinstance(value, bool) or not isinstance(value, Real) or not 0 <= float(value) <= high:
            return False
        return Decimal(str(value)) % Decimal(str(self.step)) == 0

    def kept(self, value: Any) -> float:
        """The value as it is passed on: an int from a slider of whole numbers."""
        return int(value) if isinstance(self.step, int) else float(value)

    def accepts(self, high: float) -> str:
        """What it takes, in words."""
        if isinstance(self.step, int):
            return f"whole numbers from 0 to {high}"
        return f"numbers from 0 to {high} in steps of {self.step}"

    def control(self, name: str, value: float, high: float) -> Control:
        """The control as the view draws it."""
        place = {"name": name, "label": self.label, "value": value}
        return {"kind": "range", "low": 0, "high": high, "step": self.step, **place}


@dataclass(frozen=True)
class Choice:
    """A list to choose from."""

    label: str
    options: tuple[str, ...]
    start: str

    def takes(self, value: object, high: float) -> bool:
        """Whether `value` is in the list."""
        return value in self.options

    def kept(self, value: Any) -> str:
        """The value as it is passed on."""
        return str(value)

    def accepts(self, high: float) -> str:
        """What it takes, in words."""
        return listing(self.options)

    def control(self, name: str, value: str, high: float) -> Control:
        """The control as the view draws it."""
        return {"kind": "select", "name": name, "label": self.label, "value": value, "options": list(self.options)}


def _unlimited(**_: object) -> dict[str, float]:
    return {}


def _unchanged(before: Values, after: Values) -> Values:
    return after


class Explorer:
    """A picture with controls.

    `explorer.at(lane=13)` is a new explorer that starts at other values, for a later cell; `explorer.set(lane=13)`
    moves this one's controls, as if by hand.

    `draw` gets the controls' values by name. So does `limits`, which returns the largest values of the sliders that
    depend on other controls. `follow` gets the values before and after a control has moved, and returns the values that
    the other controls then take. Raises OperandError for a start that is not among a control's values.
    """

    def __init__(
        self,
        draw: Callable[..., Picture],
        controls: Mapping[str, Range | Choice],
        limits: Callable[..., Mapping[str, float]] = _unlimited,
        follow: Callable[[Values, Values], Values] = _unchanged,
    ) -> None:
        self._draw, self._controls, self._limits, self._follow = draw, dict(controls), limits, follow
        self._values: Values = {name: control.start for name, control in controls.items()}
        for name, control in controls.items():
            self._check(name, control.start)
            self._values[name] = control.kept(control.start)
        self._picture = draw(**self._values)
        self._view: Any = None

    @property
    def values(self) -> Values:
        """The current values of the controls."""
        return dict(self._values)

    @property
    def picture(self) -> Picture:
        """The current picture."""
        return self._picture

    def at(self, **values: Any) -> Explorer:
        """A new explorer that starts where this one started, except for `values`; this one stays as it is.

        Raises OperandError for a control or value that does not exist.
        """
        fresh = Explorer(self._draw, self._controls, self._limits, self._follow)
        fresh.set(**values)
        return fresh

    def set(self, **values: Any) -> Picture:
        """Move controls, and return the new picture. Raises OperandError for a control or value that does not exist."""
        for name in values:
            if name not in self._controls:
                raise OperandError(f"no control is called {name!r}; there are {listing(self._controls, 'and')}")
        before = self._values
        try:
            for name in (name for name in self._controls if name in values):  # a list first: sliders depend on it
                self._check(name, values[name])
                self._move(name, values[name])
            self._picture = self._draw(**self._values)
        except Exception:
            self._values = before
            raise
        self._tell()
        return self._picture

    def _highs(self) -> Mapping[str, float]:
        """The largest value of each slider while the other controls are where they are."""
        fixed = {name: control.high for name, control in self._controls.items() if isinstance(control, Range)}
        return fixed | dict(self._limits(**self._values))

    def _check(self, name: str, value: object) -> None:
        control, high = self._controls[name], self._highs().get(name, 0)
        if not control.takes(value, high):
            raise OperandError(f"{name} = {briefly(value)} is not possible: {name} takes {control.accepts(high)}")

    def _move(self, name: str, value: Any) -> None:
        """Move one control; the others follow, and stay within their limits."""
        self._values = self._follow(self._values, self._values | {name: self._controls[name].kept(value)})
        highs = self._highs()
        self._values = {name: min(now, highs[name]) if name in highs else now for name, now in self._values.items()}

    # ------------------------------------------------------------------------------------------ in a notebook

    def _shown(self) -> Any:
        """The widget, made when the explorer is first shown."""
        if self._view is None:
            self._view = view(self._standing(), lambda values: self.set(**values))
            self._tell()
        return self._view

    def _standing(self) -> list[Control]:
        highs = self._highs()
        return [each.control(name, self._values[name], highs.get(name, 0)) for name, each in self._controls.items()]

    def _tell(self) -> None:
        if self._view is not None:
            said = f"{self._picture.title}. {self._picture.description.partition('. ')[0]}."
            with self._view.hold_sync():
                self._view.controls, self._view.html, self._view.said = self._standing(), self._picture.html, said

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        """The widget for a page with a kernel, and the current picture for one without."""
        names = listing([control.label for control in self._controls.values()], "and")
        note = f"<p><em>With a running kernel, there are controls for {names} here.</em></p>"
        saved = {"text/html": note + self._picture.portable_html, "text/plain": f"{self!r}\n{self._picture}"}
        return widget_bundle(self._shown()) | saved

    def __repr__(self) -> str:
        return f"<Explorer {', '.join(f'{name}={value!r}' for name, value in self._values.items())}>"

    def __str__(self) -> str:
        return str(self._picture)


# ---------------------------------------------------------------------------------------------- the explorers


def who_holds_what(instruction: str | Instruction, lane: int = 0) -> Explorer:
    """A, B and D of an instruction or opcode, and a slider for the lane whose elements are marked.

    Raises IllegalInstruction for text that is not an instruction, OperandError for a lane that does not exist.
    """
    found = parse(instruction)
    lanes = found.fragments["a"].lanes
    return Explorer(lambda lane: show.mma_map(found, lane=lane), {"lane": Range("lane", lanes - 1, lane)})


def bits_of_a_number(form: str = "e4m3", pattern: int = 0) -> Explorer:
    """The bits of one number, with a list of all formats and sliders for sign, exponent and mantissa.

    If you choose another format, the number stays the same or becomes the nearest one that the format has. Raises
    FormatError for an unknown format, and for a pattern that the format does not have.
    """
    row = lookup(form)
    show.number_bits(row, pattern)  # raises for an invalid pattern
    controls: dict[str, Range | Choice] = {"form": Choice("format", tuple(FORMATS), row.name)}
    tops = _field_limits(row.name)
    for name, start in row.fields(pattern)._asdict().items():
        controls[name] = Range(name, tops[name], int(start))
    return Explorer(_bits, controls, lambda form, **_: _field_limits(form), _same_number)


def _field_limits(name: str) -> dict[str, float]:
    form = lookup(name)
    return {"sign": int(form.signed), "exponent": (1 << form.exponent) - 1, "mantissa": (1 << form.mantissa) - 1}


def _pattern(form: str, sign: int, exponent: int, mantissa: int) -> int:
    row = lookup(form)
    return ((sign << row.exponent | exponent) << row.mantissa | mantissa) << row.padding


def _bits(form: str, sign: int, exponent: int, mantissa: int) -> Picture:
    return show.number_bits(form, _pattern(form, sign, exponent, mantissa))


def _same_number(before: Values, after: Values) -> Values:
    """The fields of the same number in the new format, or of the nearest one."""
    if before["form"] == after["form"]:
        return after
    form = lookup(after["form"])
    number = lookup(before["form"]).decode(_pattern(**before)).item()
    if not form.signed:
        number = abs(number)
    kept = math.isinf(number) and form.infinities
    nearest = form.encode(number, satfinite=not kept).item()
    return after | {name: int(field) for name, field in form.fields(nearest)._asdict().items()}


def rounding_of_a_number(form: str = "e4m3", number: float = 1.3, high: float = 4.0) -> Explorer:
    """The results of each rounding of a number between 0 and `high`, in steps of 0.001.

    Raises OperandError for a format that does not reach `high`, and for a number that the slider does not have.
    """
    names = tuple(name for name, row in FORMATS.items() if row.kind == "float" and row.largest > high and row.zero)
    controls: dict[str, Range | Choice] = {
        "form": Choice("format", names, form),
        "number": Range("number", high, number, 0.001),
    }
    return Explorer(lambda form, number: show.rounding(form, float(number)), controls)


def flip_one_bit(
    instruction: str | Instruction,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    target: str = "sm_90a",
    **start: Any,
) -> Explorer:
    """Change one bit of one register of A or B, and see which elements of D change.

    `a`, `b` and `c` are registers; `start` may give operand ("a" or "b"), lane, register and bit. Raises OperandError
    for a start that is not possible.
    """
    found = parse(instruction)
    operands = {role: as_array(given, f"operand {role}") for role, given in {"a": a, "b": b, "c": c}.items()}
    d = found.fragments["d"]
    before = d.unpack(run(found, *operands.values(), target=target))

    def draw(operand: str, lane: int, register: int, bit: int) -> Picture:
        registers = operands[operand].copy()
        registers[lane, register] ^= registers.dtype.type(1 << bit)
        after = d.unpack(run(found, *(operands | {operand: registers}).values(), target=target))
        cause = f"bit {bit} of register {operand}{register} in lane {lane}"
        return show.changes(before, after, d.format, cause=cause)

    def limits(operand: str, **_: object) -> dict[str, float]:
        return {"register": found.fragments[operand].registers - 1}

    chosen: Values = {"operand": "a", "lane": 0, "register": 0, "bit": 0}
    unknown = [name for name in start if name not in chosen]
    if unknown:
        raise OperandError(f"no control is called {unknown[0]!r}; there are {listing(chosen, 'and')}")
    chosen |= start
    most = max(found.fragments[role].registers for role in "ab") - 1
    controls: dict[str, Range | Choice] = {
        "operand": Choice("operand", ("a", "b"), chosen["operand"]),
        "lane": Range("lane", found.lanes - 1, chosen["lane"]),
        "register": Range("register", most, chosen["register"]),
        "bit": Range("bit", 8 * operands["a"].itemsize - 1, chosen["bit"]),
    }
    return Explorer(draw, controls, limits)


#: The swizzles as a list shows them.
_SWIZZLES = {"none": 0, "32 bytes": 32, "64 bytes": 64, "128 bytes": 128}
#: How a loop gets from one part of K to the next: what Descriptor.advance does, and two recipes that often fail.
_ADVANCES: Mapping[str, Callable[[Descriptor, int, Major], Descriptor]] = {
    "to element (0, k)": lambda tile, k, major: tile.advance("f16", k=k, major=major),
    "start + 2 k bytes": lambda tile, k, _: tile.step(2 * k),
    "LBO + 2 k bytes": lambda tile, k, _: replace(tile, lbo=tile.lbo + 2 * k),
}
#: wgmma with f16, and the bytes of shared memory that its wrong descriptors may reach; B is behind A's 64 KiB.
_WGMMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"
_REACH = 1 << 16


@dataclass(frozen=True)
class _Multiplied:
    """A of 64 rows in one layout and B of 8 columns, both f16, and what wgmma makes of them."""

    a: npt.NDArray[Any]
    b: npt.NDArray[Any]
    tile: Descriptor
    major: Major

    def notes(self, given: Descriptor, k: int) -> list[str]:
        """What the product of 16 columns from k on becomes if A's descriptor is `given`."""
        shared = np.zeros(2 * _REACH, np.uint8)
        columns = Descriptor.for_tile("f16", 8, self.b.shape[1], swizzle=128, start=_REACH)
        copy_tile(self.a, shared, self.tile, self.major)
        copy_tile(self.b, shared, columns)
        b, zero = columns.advance("f16", k=k), np.zeros((128, 4), np.uint32)
        transposed = int(self.major == "MN")
        right, got = (
            run(_WGMMA, zero, a, b, 0, 1, 1, transposed, 0, shared=shared)
            for a in (self.tile.advance("f16", k=k, major=self.major), given)
        )
        wrong = int((right != got).sum())
        return [f"wgmma with this descriptor: {wrong or 'none'} of 512 elements of D are wrong."]


def descriptor_of_a_tile(
    a: npt.ArrayLike, b: npt.ArrayLike, swizzle: int = 128, major: Major = "K", **start: Any
) -> Explorer:
    """Set the fields of A's descriptor, and see what it finds and how much of wgmma's product is wrong.

    A (64, K) and B (8, K) are f16; A's tile is laid out at byte 0 with that `swizzle` and that `major`. `start` may
    give other fields to begin with, as they are encoded, in units of 16 bytes: start, lbo, sbo; and swizzle_field.
    Raises OperandError for a start that is not possible.
    """
    tile = Descriptor.for_tile("f16", 64, np.shape(a)[1], swizzle=swizzle, major=major)
    operands = _Multiplied(as_array(a, "A"), as_array(b, "B"), tile, major)
    named = {size: name for name, size in _SWIZZLES.items()}
    fields: Values = {name: getattr(tile, name) >> 4 for name in ("start", "lbo", "sbo")}
    fields["swizzle_field"] = named[swizzle]
    fields |= start

    def draw(swizzle_field: str, start: int, lbo: int, sbo: int) -> Picture:
        given = Descriptor(16 * start, 16 * lbo, 16 * sbo, _SWIZZLES[swizzle_field])
        notes = operands.notes(given, 0)
        return show.tile_read(tile, given, "f16", 64, 16, major, of_k=operands.a.shape[1], notes=notes)

    controls: dict[str, Range | Choice] = {
        "swizzle_field": Choice("swizzle", tuple(_SWIZZLES), fields.pop("swizzle_field")),
        "start": Range("start address (x 16 bytes)", 64, fields.pop("start")),
        "lbo": Range("LBO (x 16 bytes)", 256, fields.pop("lbo")),
        "sbo": Range("SBO (x 16 bytes)", 256, fields.pop("sbo")),
    }
    if fields:
        raise OperandError(f"no control is called {next(iter(fields))!r}; there are {listing(controls, 'and')}")
    return Explorer(draw, controls)


def step_along_k(a: npt.ArrayLike, b: npt.ArrayLike, **start: Any) -> Explorer:
    """Step A's descriptor along K, right or by a recipe that only some layouts allow, and see the product.

    A (64, K) and B (8, K) are f16. The tile is laid out with the swizzle and the major direction of the lists; the
    slider is the number of the instruction, which multiplies 16 columns. `start` may give swizzle, major, advance and
    step. Raises OperandError for a start that is not possible.
    """
    first, second = as_array(a, "A"), as_array(b, "B")
    chosen: Values = {"swizzle": "128 bytes", "major": "K", "advance": next(iter(_ADVANCES)), "step": 1}
    unknown = [name for name in start if name not in chosen]
    if unknown:
        raise OperandError(f"no control is called {unknown[0]!r}; there are {listing(chosen, 'and')}")
    chosen |= start
    depth = first.shape[1]

    def draw(swizzle: str, major: Major, advance: str, step: int) -> Picture:
        tile = Descriptor.for_tile("f16", 64, depth, swizzle=_SWIZZLES[swizzle], major=major)
        given = _ADVANCES[advance](tile, 16 * step, major)
        notes = _Multiplied(first, second, tile, major).notes(given, 16 * step)
        return show.tile_read(tile, given, "f16", 64, 16, major, at_k=16 * step, of_k=depth, notes=notes)

    controls: dict[str, Range | Choice] = {
        "swizzle": Choice("swizzle", tuple(_SWIZZLES), chosen["swizzle"]),
        "major": Choice("major direction", ("K", "MN"), chosen["major"]),
        "advance": Choice("how the descriptor moves", tuple(_ADVANCES), chosen["advance"]),
        "step": Range("instruction along K", depth // 16 - 1, chosen["step"]),
    }
    return Explorer(draw, controls)
