"""Sliders around the pictures. A widget only calls a function that returns a Picture.

Every number can be set by a slider and by a box beside it, by mouse and keyboard. A saved notebook keeps the first
picture, so that it can be read without a kernel. anywidget is imported when the first widget is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import show
from tcemu.errors import ArithmeticUnknown, OperandError, briefly, listing
from tcemu.formats import FORMATS, lookup
from tcemu.formats.arrays import as_array
from tcemu.instructions import TARGETS, Instruction, parse, run
from tcemu.instructions.mma_sp import pattern_of
from tcemu.layouts import Descriptor
from tcemu.layouts.canonical import Major
from tcemu.layouts.descriptor import as_bits
from tcemu.machine.events import Event
from tcemu.machine.pending import POLICIES
from tcemu.show.alignment import fused_model
from tcemu.show.hazards import first_rows
from tcemu.show.picture import Picture
from tcemu.show.view import Control, view, widget_bundle
from tcemu.show.words import compact
from tcemu.timing import Timeline

__all__ = [
    "Choice",
    "Explorer",
    "Range",
    "address_of_an_element",
    "bits_of_a_number",
    "bytes_of_a_descriptor",
    "conflicts_of_ldmatrix",
    "cycles_of_a_launch",
    "flip_one_bit",
    "fragment_by_target",
    "hazards_of_a_launch",
    "metadata_of_a_chunk",
    "metadata_of_a_lane",
    "one_among_powers",
    "outcome_of_a_kernel",
    "probe_one_element",
    "rounding_of_a_number",
    "scales_of_a_block",
    "sum_on_two_targets",
    "tile_that_is_loaded",
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


def cycles_of_a_launch(run: Timeline, block: int = 0, start: int = 0, zoom: str = "1") -> Explorer:
    """The timeline of a block, with a slider for the first cycle that is shown and a choice of how much of it.

    With a `zoom` of "4", a quarter of the block's time is shown. Raises OperandError for a block that the launch did
    not have, and for a start that the block's time does not include.
    """
    whole = show.timeline(run, block)
    first, last = run.blocks[block]

    def draw(start: int, zoom: str) -> Picture:
        length = (last - first) / int(zoom)
        begin = min(first + start, last - length)
        return show.timeline(run, block, begin, begin + length) if zoom != "1" else whole

    sizes = tuple(str(1 << power) for power in range(7))
    first_cycle = Range("first cycle", int(last - first), start)
    return Explorer(draw, {"start": first_cycle, "zoom": Choice("zoom", sizes, zoom)})


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


def metadata_of_a_chunk(
    instruction: str | Instruction, dense: npt.ArrayLike, metadata: npt.ArrayLike, selector: int = 0, **start: int
) -> Explorer:
    """Where the metadata of one chunk of a sparse A is: sliders for its row and chunk; see show.sparsity.

    `start` may give row and chunk. Raises what show.sparsity raises, OperandError for a start that is not possible.
    """
    found = _with_metadata(instruction)
    _, rows, chunks = found.fragments["e"].shape
    controls = _ranges({"row": rows - 1, "chunk": chunks - 1}, start)
    return Explorer(lambda row, chunk: show.sparsity(found, dense, metadata, row, chunk, selector), controls)


def metadata_of_a_lane(
    instruction: str | Instruction, dense: npt.ArrayLike, metadata: npt.ArrayLike, **start: int
) -> Explorer:
    """The chunk of a sparse A that four bits of a lane are about: sliders for lane and group of bits.

    Group 0 is bits 3:0, group 7 bits 31:28; `start` may give lane and group. The selector is the one that uses the
    lane. Raises as metadata_of_a_chunk.
    """
    found = _with_metadata(instruction)
    fragment = found.fragments["e"]

    def draw(lane: int, group: int) -> Picture:
        selector, row, chunk = fragment.layout.position(lane, group)
        return show.sparsity(found, dense, metadata, row, chunk, selector)

    return Explorer(draw, _ranges({"lane": fragment.lanes - 1, "group": fragment.layout.slots - 1}, start))


def scales_of_a_block(instruction: str | Instruction, role: str = "a", **start: int) -> Explorer:
    """Which byte of which lane holds the scale of a block: a list for A or B, sliders for the ids and the block.

    `start` may give byte_id, thread_id, line (a row of A, a column of B) and block; see show.scales. Raises
    IllegalInstruction for an instruction without scales, OperandError for a start that is not possible.
    """
    found = parse(instruction)
    show.scales(found)  # raises for an instruction without scales
    highs = {side: _scale_limits(found, side) for side in "ab"}
    controls = _ranges({name: max(highs["a"][name], highs["b"][name]) for name in highs["a"]}, start)
    controls["byte_id"] = Range("byte_id", highs["a"]["byte_id"], start.get("byte_id", 0), found.facts.scales)
    return Explorer(
        lambda role, **at: show.scales(found, role, **at),
        {"role": Choice("operand", ("a", "b"), role), **controls},
        lambda role, **_: highs[role],
    )


def _scale_limits(instruction: Instruction, role: str) -> dict[str, int]:
    """The largest ids, line and block of an operand's scales."""
    count, shape = instruction.facts.scales, instruction.shape
    threads, lines = instruction.fragments[f"scale_{role}"].shape[0], shape.m if role == "a" else shape.n
    return {"byte_id": 4 - count, "thread_id": threads - 1, "line": lines - 1, "block": count - 1}


def sum_on_two_targets(
    instruction: str | Instruction,
    matrices: Sequence[npt.ArrayLike],
    first: str = "sm_80",
    second: str = "sm_90a",
    **start: int,
) -> Explorer:
    """One output's fused sums on two targets, with what each cuts off: lists of the targets, sliders for the output.

    `matrices` are A, B and C; `start` may give row and column. Raises OperandError as show.fused_sums_of does, and for
    a target that does not compute the instruction as fused sums.
    """
    found = parse(instruction)
    places = _ranges({"row": found.shape.m - 1, "column": found.shape.n - 1}, start)

    def draw(first: str, second: str, row: int, column: int) -> Picture:
        return show.fused_sums_of(found, matrices, row, column, [first, second])

    return Explorer(draw, _two_targets(found, first, second) | places)


def one_among_powers(
    instruction: str | Instruction = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32",
    first: str = "sm_80",
    second: str = "sm_90a",
    power: int = 25,
) -> Explorer:
    """2^power + 1 - 2^power, added up on two targets: the largest power that leaves the 1 tells how many bits are kept.

    The three terms are the products of the first three k of an otherwise empty A and B. Raises OperandError for a power
    whose factors A and B cannot hold, and for targets as sum_on_two_targets does.
    """
    found = parse(instruction)
    m, n, k = found.shape

    def draw(power: int, first: str, second: str) -> Picture:
        numbers = {"a": np.zeros((m, k)), "b": np.zeros((k, n)), "c": np.zeros((m, n))}
        high, low = 2.0 ** -(-power // 2), 2.0 ** (power // 2)
        numbers["a"][0, :3], numbers["b"][:3, 0] = (high, 1, -high), (low, 1, low)
        matrices = [found.types[role].encode(matrix) for role, matrix in numbers.items()]
        return show.fused_sums_of(found, matrices, 0, 0, [first, second])

    most = sum(int(math.log2(found.types[role].largest)) for role in "ab")
    return Explorer(draw, {"power": Range("power of two", most, power), **_two_targets(found, first, second)})


def _two_targets(instruction: Instruction, first: str, second: str) -> dict[str, Range | Choice]:
    """Lists of the targets that compute an instruction as fused sums: one for each chip, and those that are chosen."""
    having = {name: target for name, target in TARGETS.items() if instruction.gate.admits(target)}
    names = {*{target.number: name for name, target in reversed(having.items())}.values(), first, second}
    options = tuple(name for name in having if name in names and _fused(instruction, name))
    return {"first": Choice("first target", options, first), "second": Choice("second target", options, second)}


def _fused(instruction: Instruction, target: str) -> bool:
    try:
        return fused_model(instruction, target) is not None
    except ArithmeticUnknown:
        return False


def conflicts_of_ldmatrix(row_bytes: int = 128, padding: int = 0, swizzle: int = 1, chunk: int = 0) -> Explorer:
    """The banks of a tile's rows, and the wavefronts of an ldmatrix.x4: a slider for padding, a list of swizzles.

    The slider for the chunk moves the 16 by 16 elements that are read; see show.padded_tile. Raises OperandError for
    rows or a start that are not possible.
    """
    show.padded_tile(row_bytes, padding, swizzle, chunk)  # raises for another size
    chunks = row_bytes // 16
    swizzles = {"none" if each == 1 else f"XOR mod {each}": each for each in (1, 2, 4, 8) if each <= chunks}
    start = next(name for name, each in swizzles.items() if each == swizzle)
    controls: dict[str, Range | Choice] = {
        "padding": Range("padding in bytes", 128, padding, 16),
        "swizzle": Choice("swizzle", tuple(swizzles), start),
        "chunk": Range("first chunk", chunks - 2, chunk),
    }
    return Explorer(
        lambda padding, swizzle, chunk: show.padded_tile(row_bytes, padding, swizzles[swizzle], chunk), controls
    )


def address_of_an_element(
    element: str = "f16", mn: int = 64, k: int = 64, swizzle: int = 128, major: Major = "K", **start: int
) -> Explorer:
    """Where a tile of mn by k elements is in shared memory: lists of swizzles and orders, sliders for one element.

    The descriptor is that of Descriptor.for_tile. `start` may give at_mn and at_k. Raises LayoutError for a tile that
    no descriptor can express, OperandError for a start that is not possible.
    """
    form = lookup(element).name
    controls: dict[str, Range | Choice] = {
        "swizzle": _swizzles(swizzle),
        "major": Choice("major", ("K", "MN"), major),
        **_ranges({"at_mn": mn - 1, "at_k": k - 1}, start),
    }

    def draw(swizzle: str, major: Major, at_mn: int, at_k: int) -> Picture:
        tile = Descriptor.for_tile(form, mn, k, major=major, swizzle=_SWIZZLES[swizzle])
        return show.shared_tile(tile, form, mn, k, major, at_mn=at_mn, at_k=at_k, lines=_LINES)

    return Explorer(draw, controls)


def bytes_of_a_descriptor(
    descriptor: Descriptor | int, element: str = "f16", mn: int = 64, k: int = 16, major: Major = "K", **at: int
) -> Explorer:
    """The bytes that a descriptor names: sliders for start, LBO and SBO, a list of swizzles, sliders for an element.

    `at` may give at_mn and at_k. Raises LayoutError for an invalid descriptor, OperandError for fields beyond the
    sliders (16,368 bytes) and for an element outside the tile.
    """
    given, form = Descriptor.decode(as_bits(descriptor)), lookup(element).name
    fields = {"start": given.start, "lbo": given.lbo, "sbo": given.sbo}
    controls: dict[str, Range | Choice] = {name: Range(name, 16368, now, 16) for name, now in fields.items()}
    controls |= {"swizzle": _swizzles(given.swizzle), **_ranges({"at_mn": mn - 1, "at_k": k - 1}, at)}

    def draw(start: int, lbo: int, sbo: int, swizzle: str, at_mn: int, at_k: int) -> Picture:
        named = Descriptor(start, lbo, sbo, _SWIZZLES[swizzle], given.base_offset)
        return show.shared_tile(named, form, mn, k, major, at_mn=at_mn, at_k=at_k, lines=_LINES)

    return Explorer(draw, controls)


def hazards_of_a_launch(events: Sequence[Event], reports: Sequence[Any] = (), block: int | None = None) -> Explorer:
    """What the warps of a block did, with a slider that moves through the rows; see show.hazards.

    Raises LaunchError for events without the block.
    """
    start, last = first_rows(events, reports, block)
    return Explorer(
        lambda first: show.hazards(events, reports, block, first), {"first": Range("first row", last, start)}
    )


#: Lines of shared memory that fit beside sliders.
_LINES = 20
_SWIZZLES = {"none": 0, "32 bytes": 32, "64 bytes": 64, "128 bytes": 128}


def _swizzles(start: int) -> Choice:
    """The list of a descriptor's swizzles."""
    names = {size: name for name, size in _SWIZZLES.items()}
    return Choice("swizzle", tuple(_SWIZZLES), names.get(start, str(start)))


def _with_metadata(instruction: str | Instruction) -> Instruction:
    """The instruction. Raises OperandError if its A is dense."""
    found = parse(instruction)
    pattern_of(found)
    return found


def _ranges(highs: Mapping[str, int], start: Mapping[str, int]) -> dict[str, Range | Choice]:
    """A slider for each name, from 0 to its largest value. Raises OperandError for a start without a slider."""
    unknown = [name for name in start if name not in highs]
    if unknown:
        raise OperandError(f"no control is called {unknown[0]!r}; there are {listing(highs, 'and')}")
    return {name: Range(name, high, start.get(name, 0)) for name, high in highs.items()}


def probe_one_element(instruction: str | Instruction, target: str = "sm_90a", **start: Any) -> Explorer:
    """A one in one element of A or B, and who answers; see show.probe.

    `start` may give operand ("a" or "b"), lane, register, element and answers ("d" or "partner"). Raises OperandError
    for a start that is not possible.
    """
    found = parse(instruction)
    chosen: Values = {"operand": "a", "lane": 0, "register": 0, "element": 0, "answers": "d"} | start
    show.probe(found, target=target, **chosen)  # raises for what is not possible
    fragments = [found.fragments[role] for role in "ab"]
    controls: dict[str, Range | Choice] = {
        "operand": Choice("operand", ("a", "b"), chosen["operand"]),
        "lane": Range("lane", found.lanes - 1, chosen["lane"]),
        "register": Range("register", max(each.registers for each in fragments) - 1, chosen["register"]),
        "element": Range("element", max(each.elements_per_register for each in fragments) - 1, chosen["element"]),
        "answers": Choice("who answers", ("d", "partner"), chosen["answers"]),
    }

    def limits(operand: str, **_: object) -> dict[str, float]:
        return {"register": found.fragments[operand].registers - 1}

    return Explorer(lambda **at: show.probe(found, target=target, **at), controls, limits)


def outcome_of_a_kernel(
    kernel: Callable[..., object],
    args: Sequence[Any],
    right: npt.ArrayLike,
    seed: int = 0,
    **options: Any,
) -> Explorer:
    """What a kernel leaves in its last argument, with what is not `right` marked: sliders for seed and policy.

    The kernel is launched afresh, on copies of `args`, each time a control moves; nothing is checked. The last argument
    and `right` are matrices of at most 64 by 64 numbers; `options` are those of tcemu.launch. Raises LaunchError if the
    kernel does not run to its end.
    """
    from tcemu.machine.launch import launch  # the machine is loaded when a kernel is first shown

    wanted = np.asarray(right)

    def draw(seed: int, policy: str) -> Picture:
        given = [np.copy(each) if isinstance(each, np.ndarray) else each for each in args]
        launch(kernel, args=tuple(given), seed=seed, policy=policy, **options)  # type: ignore[arg-type]
        got = given[-1]
        labels = [[compact(number) for number in row] for row in got.tolist()]
        return show.marked(labels, got != wanted, f"The result with seed {seed}, policy {policy}")

    return Explorer(draw, {"seed": Range("seed", 31, seed), "policy": Choice("policy", tuple(POLICIES), "late")})


def tile_that_is_loaded(instruction: str | Instruction, rows: int, columns: int, **start: int) -> Explorer:
    """Which elements of a row-major matrix a wmma.load reads: a slider for the pointer's element, a list of strides.

    Both have only values that the instruction accepts; `start` may give first and ldm. See show.loaded.
    """
    found = parse(instruction)
    chosen: Values = {"first": 0, "ldm": columns} | start
    show.loaded(found, rows, columns, **chosen)  # raises for what is not possible
    strides = tuple(str(stride) for stride in range(16, 2 * columns + 1, 16))
    controls: dict[str, Range | Choice] = {
        "first": Range("pointer, in elements", rows * columns - 16, chosen["first"], 16),
        "ldm": Choice("stride", strides, str(chosen["ldm"])),
    }
    return Explorer(lambda first, ldm: show.loaded(found, rows, columns, first, int(ldm)), controls)


def fragment_by_target(
    instruction: str | Instruction, role: str = "", lane: int = 0, target: str = "sm_90a", targets: Sequence[str] = ()
) -> Explorer:
    """The map of an operand on one architecture after the other: a list of targets, a slider for the lane.

    `role` may be left out if the instruction has one operand in registers. The default `targets` are one of each
    generation that has the instruction. Raises OperandError for a start that is not possible.
    """
    found = parse(instruction)
    which = role or next(iter(found.fragments))
    names = tuple(targets) or tuple(name for name in _GENERATIONS if found.gate.admits(TARGETS[name]))
    controls: dict[str, Range | Choice] = {
        "target": Choice("target", names, target),
        "lane": Range("lane", found.fragments[which].lanes - 1, lane),
    }
    return Explorer(lambda target, lane: _on(found, target, which, lane), controls)


#: One architecture of each generation.
_GENERATIONS = ("sm_70", "sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a")


def _on(instruction: Instruction, target: str, role: str, lane: int) -> Picture:
    drawn = show.fragment_map(instruction.on(TARGETS[target]).fragments[role], lane=lane)
    return replace(drawn, title=f"{drawn.title}, on {target}")
