"""Sliders around the pictures. A widget only calls a function that returns a Picture.

Every number can be set by a slider and by a box beside it, by mouse and keyboard. A saved notebook keeps the first
picture, so that it can be read without a kernel. anywidget is imported when the first widget is made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu import show
from tcemu.errors import ArithmeticUnknown, OperandError, briefly, counted, listing
from tcemu.formats import FORMATS, lookup
from tcemu.formats.arrays import as_array
from tcemu.instructions import TARGETS, Instruction, matmul, parse, run
from tcemu.instructions.mma_sp import pattern_of
from tcemu.layouts import Descriptor, Fragment, copy_tile
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
    "cell_of_tensor_memory",
    "change_metadata",
    "change_one_element",
    "choose_scales",
    "conflicts_of_ldmatrix",
    "cycles_of_a_launch",
    "descriptor_of_a_tile",
    "descriptor_of_two_generations",
    "end_of_s32",
    "exchange_registers",
    "flip_one_bit",
    "fragment_by_target",
    "fragment_of_a_form",
    "hazards_of_a_launch",
    "metadata_of_a_chunk",
    "metadata_of_a_lane",
    "one_among_powers",
    "order_of_a_kernel",
    "outcome_of_a_kernel",
    "pair_of_words",
    "probe_one_element",
    "promoted_sum",
    "rounding_of_a_number",
    "row_from_elsewhere",
    "scales_of_a_block",
    "step_along_k",
    "sum_on_two_targets",
    "term_of_a_sum",
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


def change_metadata(
    instruction: str | Instruction,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    metadata: npt.ArrayLike,
    selector: int = 0,
    target: str = "sm_90a",
    **start: Any,
) -> Explorer:
    """Change four bits of the metadata of a sparse instruction, and see which elements of D change.

    `a`, `b`, `c` and `metadata` are registers; `start` may give code (four bits, "0b0100"), lane and group (0 is bits
    3:0). Raises OperandError for a start that is not possible, IllegalInstruction for an instruction without metadata.
    """
    found = _with_metadata(instruction)
    registers = [as_array(given, name) for name, given in (("a", a), ("b", b), ("c", c), ("metadata", metadata))]
    d, slots = found.fragments["d"], found.fragments["e"].layout.slots
    codes = tuple(f"{code:#06b}" for code in sorted(pattern_of(found).places))
    before = d.unpack(run(found, *registers, selector, target=target))

    def draw(code: str, lane: int, group: int) -> Picture:
        held, low = registers[3].copy(), 4 * group
        held[lane] = int(held[lane]) & ~(15 << low) & 0xFFFFFFFF | int(code, 2) << low
        after = d.unpack(run(found, *registers[:3], held, selector, target=target))
        return show.changes(before, after, d.format, cause=f"bits {low + 3}:{low} of lane {lane} are {code[2:]}")

    controls = _ranges({"lane": found.lanes - 1, "group": slots - 1}, {k: v for k, v in start.items() if k != "code"})
    return Explorer(draw, {"code": Choice("code", codes, start.get("code", codes[0])), **controls})


def change_one_element(
    row: npt.ArrayLike, ways: Mapping[str, tuple[Callable[[Any], Any], int]], high: float = 8.0, **start: Any
) -> Explorer:
    """Change one number of a row, and see what becomes of all of them when the row is pruned or quantised.

    `ways` are functions of a row by name, each with the number of elements in its blocks: {"2:4": (prune, 4)}. Sliders
    choose the column and its value, up to `high`; `start` may give way, column and value. Raises OperandError for a
    start that is not possible.
    """
    numbers = as_array(row, "the row").astype(np.float64)

    def draw(way: str, column: int, value: float) -> Picture:
        changed = numbers.copy()
        changed[column] = value
        function, block = ways[way]
        return show.before_and_after(changed, function(changed), block)

    unknown = [name for name in start if name not in ("way", "column", "value")]
    if unknown:
        raise OperandError(f"no control is called {unknown[0]!r}; there are way, column and value")
    controls: dict[str, Range | Choice] = {
        "way": Choice("way", tuple(ways), start.get("way", next(iter(ways)))),
        "column": Range("column", len(numbers) - 1, start.get("column", 0)),
        "value": Range("value", high, start.get("value", 1.0), 0.25),
    }
    return Explorer(draw, controls)


def choose_scales(
    instruction: str | Instruction,
    operands: Sequence[npt.ArrayLike],
    scale_a: npt.ArrayLike,
    scale_b: npt.ArrayLike,
    target: str = "sm_120a",
) -> Explorer:
    """Choose byte-id and thread-id of both scale operands, and see which elements of D change.

    `operands` are the registers a, b and c; `scale_a` and `scale_b` have scales in all bytes of all lanes. D is
    compared with that of the ids 0. Raises IllegalInstruction for an instruction without scales.
    """
    found = parse(instruction)
    show.scales(found)  # raises for an instruction without scales
    d, count = found.fragments["d"], found.facts.scales

    def multiplied(byte_a: int, thread_a: int, byte_b: int, thread_b: int) -> npt.NDArray[Any]:
        picks = (scale_a, (byte_a, thread_a), scale_b, (byte_b, thread_b))
        return d.unpack(run(found, *operands, *picks, target=target))

    before = multiplied(0, 0, 0, 0)

    def draw(**ids: int) -> Picture:
        told = f"A {ids['byte_a']}, {ids['thread_a']} and B {ids['byte_b']}, {ids['thread_b']}"
        return show.changes(before, multiplied(**ids), d.format, cause=f"byte-id and thread-id of {told}")

    controls: dict[str, Range | Choice] = {}
    for role in "ab":
        highs = _scale_limits(found, role)
        controls[f"byte_{role}"] = Range(f"byte_id of {role.upper()}", highs["byte_id"], 0, count)
        controls[f"thread_{role}"] = Range(f"thread_id of {role.upper()}", highs["thread_id"], 0)
    return Explorer(draw, controls)


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


def descriptor_of_two_generations(start: int = 0, lbo: int = 16, sbo: int = 1024, swizzle: int = 128) -> Explorer:
    """One tile of shared memory as wgmma and as tcgen05 describe it, with sliders for the fields.

    Raises LayoutError for fields that cannot be encoded, OperandError for those beyond the sliders (16,368 bytes).
    """
    fields = {"start": start, "lbo": lbo, "sbo": sbo}
    controls: dict[str, Range | Choice] = {name: Range(name, 16368, now, 16) for name, now in fields.items()}
    controls |= {"swizzle": _swizzles(swizzle), "of": Choice("descriptor of", ("tcgen05", "wgmma"), "tcgen05")}

    def draw(start: int, lbo: int, sbo: int, swizzle: str, of: str) -> Picture:
        named = Descriptor(start, lbo, sbo, _SWIZZLES[swizzle])
        return show.descriptor(named) if of == "wgmma" else show.descriptor_of_tcgen05(named)

    return Explorer(draw, controls)


def cell_of_tensor_memory(warp: int = 1, lane: int = 40, column: int = 100) -> Explorer:
    """A cell of Tensor Memory, its address, and whether a warp can load it; with sliders for all three.

    Raises OperandError for a cell that does not exist.
    """
    at = {"warp": (7, warp), "lane": (127, lane), "column": (511, column)}
    return Explorer(show.tensor_memory, {name: Range(name, last, now) for name, (last, now) in at.items()})


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
    """Which elements of a row-major matrix a wmma.load reads: a slider for the pointer, a list of strides.

    Both count elements and have only values that the instruction accepts; `start` may give first and ldm. See
    show.loaded.
    """
    found = parse(instruction)
    chosen: Values = {"first": 0, "ldm": columns} | start
    show.loaded(found, rows, columns, **chosen)  # raises for what is not possible
    strides = tuple(str(stride) for stride in range(16, 2 * columns + 1, 16))
    controls: dict[str, Range | Choice] = {
        "first": Range("pointer", rows * columns - 16, chosen["first"], 16),
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


def exchange_registers(
    instruction: str | Instruction,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    c: npt.ArrayLike,
    role: str = "a",
    target: str = "sm_90a",
    **start: int,
) -> Explorer:
    """Exchange two registers of A or B in every lane, and see which elements of D change.

    `a`, `b` and `c` are registers, and `role` says whose are exchanged; `start` may give first and second. Raises
    OperandError for a start that is not possible.
    """
    found = parse(instruction)
    operands = {name: as_array(given, f"operand {name}") for name, given in {"a": a, "b": b, "c": c}.items()}
    d = found.fragments["d"]
    before = d.unpack(run(found, *operands.values(), target=target))

    def draw(first: int, second: int) -> Picture:
        registers = operands[role].copy()
        registers[..., [first, second]] = registers[..., [second, first]]
        after = d.unpack(run(found, *(operands | {role: registers}).values(), target=target))
        cause = f"{role}{first} and {role}{second} are exchanged" if first != second else "nothing is exchanged"
        return show.changes(before, after, d.format, cause=cause)

    most = found.fragments[role].registers - 1
    return Explorer(draw, _ranges({"first": most, "second": most}, start))


def fragment_of_a_form(opcodes: Iterable[str | Instruction], role: str = "a", lane: int = 0) -> Explorer:
    """The map of one operand, with a list of instructions to choose from and a slider for the lane that is marked.

    Raises IllegalInstruction for text that is not an instruction, OperandError for a lane that does not exist.
    """
    forms = {_form(found): found for found in map(parse, opcodes)}
    names = tuple(forms)
    lanes = min(found.fragments[role].lanes for found in forms.values())
    controls: dict[str, Range | Choice] = {
        "form": Choice("shape and types", names, names[0] if names else ""),
        "lane": Range("lane", lanes - 1, lane),
    }
    return Explorer(lambda form, lane: show.fragment_map(forms[form].fragments[role], lane=lane), controls)


def _form(instruction: Instruction) -> str:
    """The shape and the types of A and B: "m16n8k32 s8 x u8"."""
    types = dict.fromkeys(instruction.types[role].name for role in "ab")
    return f"{instruction.shape} {' x '.join(types)}"


def row_from_elsewhere(
    load: str | Instruction,
    addresses: npt.ArrayLike,
    shared: npt.ArrayLike,
    fragment: Fragment,
    lane: int = 0,
    unit: int = 0,
) -> Explorer:
    """Let one lane give ldmatrix another address, and see which elements of the matrix that it loads change.

    `addresses` (32,) are those of all lanes and `shared` (bytes,) is shared memory; `fragment` says what matrix the
    registers of the load are. The sliders are the lane and the 16-byte unit of shared memory that it names instead.
    Raises OperandError for addresses that the instruction does not take, and for a start that is not possible.
    """
    found, memory = parse(load), as_array(shared, "shared")
    given = as_array(addresses, "addresses")
    before = fragment.unpack(run(found, given, shared=memory))

    def draw(lane: int, unit: int) -> Picture:
        moved = given.copy()
        moved[lane] = 16 * unit
        after = fragment.unpack(run(found, moved, shared=memory))
        what = fragment.role.upper()
        return show.changes(before, after, fragment.format, what, cause=f"lane {lane} gives the address {16 * unit}")

    controls: dict[str, Range | Choice] = {
        "lane": Range("lane", 31, lane),
        "unit": Range("unit of 16 bytes", memory.size // 16 - 1, unit),
    }
    return Explorer(draw, controls)


def term_of_a_sum(
    instruction: str | Instruction,
    terms: Mapping[int, float],
    k: int = 1,
    halvings: int = 25,
    targets: Sequence[str] = ("sm_80", "sm_90a"),
) -> Explorer:
    """A sum of `terms`, by their k, and of one more, 2^-halvings, on several targets; sliders for its k and its size.

    The terms are elements of row 0 of A, and all elements of B are 1. Where there is a term already, the new one takes
    its place. Raises IllegalInstruction, and OperandError for a k that the instruction does not have.
    """
    found = parse(instruction)
    (m, n, depth), types = found.shape, found.types
    b, c = np.ones((depth, n), types["b"].dtype), np.zeros((m, n), types["c"].dtype)

    def draw(k: int, halvings: int) -> Picture:
        a = np.zeros((m, depth), types["a"].dtype)
        for place, term in {**terms, k: 2.0**-halvings}.items():
            a[0, place] = term
        return show.one_output(found, [a, b, c], targets=targets)

    wrong = [place for place in terms if place not in range(depth)]
    if wrong:
        raise OperandError(f"{found} has no product at k = {briefly(wrong[0])}; k goes from 0 to {depth - 1}")
    return Explorer(draw, {"k": Range("k", depth - 1, k), "halvings": Range("halvings", 40, halvings)})


def promoted_sum(
    instruction: str | Instruction,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    promotions: int = 31,
    step: int = 128,
    target: str = "sm_90a",
) -> Explorer:
    """The error of D[0][0] as k grows, with and without promotion; a slider for the number of promotions.

    `a` (M, K) and `b` (K, N) are whole matrices, and the error is shown after each `step` of k. At a promotion, the
    accumulator is added to a float32 sum by an ordinary addition, and starts again from zero. The promotions are evenly
    spread over the steps. Raises what tcemu.matmul raises.
    """
    found = parse(instruction, target)
    left, right = as_array(a, "A")[: found.shape.m], as_array(b, "B")[:, : found.shape.n]
    ks = list(range(step, left.shape[1] + 1, step))
    exact = np.cumsum(left[0].astype(np.float64) * right[:, 0].astype(np.float64))[step - 1 :: step]

    def errors(promotions: int) -> list[float]:
        total, inner, after = np.float32(0), None, []
        for number, k in enumerate(ks, 1):
            inner = matmul(left[:, k - step : k], right[k - step : k], inner, instruction=found, target=target)
            after.append(float(total + inner[0, 0]) / float(exact[number - 1]) - 1)
            if number * (promotions + 1) // len(ks) > (number - 1) * (promotions + 1) // len(ks):
                total, inner = np.float32(total + inner[0, 0]), None
        return after

    alone = errors(0)

    def draw(promotions: int) -> Picture:
        lines = {"never promoted": alone, f"promoted {counted(promotions, 'time')}": errors(promotions)}
        return show.running_error(ks, lines, f"Error of D[0][0] of {found.family} {found.shape} along k")

    return Explorer(draw, {"promotions": Range("promotions", len(ks) - 1, promotions)})


def end_of_s32(instruction: str | Instruction, a: int = 127, b: int = 127, c: int = 2**31 - 4001) -> Explorer:
    """c + a · b near the end of s32, with and without .satfinite; sliders for a and b, factors of an integer mma.

    `instruction` is one without .satfinite. The sliders go from 0 to the largest number of each type. Raises
    IllegalInstruction, and OperandError for a factor that a slider does not have.
    """
    found = parse(instruction)
    m, n, k = found.shape
    clamping = found.opcode.replace(".s32", ".satfinite.s32", 1)

    def draw(a: int, b: int) -> Picture:
        left, right = np.zeros((m, k), found.types["a"].dtype), np.zeros((k, n), found.types["b"].dtype)
        addend = np.zeros((m, n), np.int32)
        left[0, 0], right[0, 0], addend[0, 0] = a, b, c
        wraps, clamps = (int(matmul(left, right, addend, instruction=op)[0, 0]) for op in (found, clamping))
        return show.end_of_s32(c, a * b, wraps, clamps)

    tops = [int(found.types[role].largest) for role in "ab"]
    return Explorer(draw, {"a": Range("a", tops[0], a), "b": Range("b", tops[1], b)})


def pair_of_words(a: int = 0, b: int = 0, operation: str = "xor", bit: int = 0) -> Explorer:
    """Two words of 32 b1 elements, combined and counted; a list of operations, and a slider for the bit of b to flip.

    Raises OperandError for a word that has more than 32 bits, and for another operation than xor and and.
    """

    def draw(operation: str, bit: int) -> Picture:
        return show.popcount(a, b ^ 1 << bit, operation)

    return Explorer(
        draw, {"operation": Choice("operation", ("xor", "and"), operation), "bit": Range("flip bit of b", 31, bit)}
    )
#: The policies of tcemu.launch, and the seeds that a slider offers.
_POLICIES, _SEEDS = ("late", "early", "random"), 12


def order_of_a_kernel(
    launch: Callable[..., Any],
    kernel: Callable[..., Any],
    args: Sequence[Any],
    *,
    right: npt.ArrayLike | None = None,
    first: int | None = None,
    **choices: Sequence[Any],
) -> Explorer:
    """Launch a kernel each time a control moves, and see what its block did in which order; see show.hazards.

    `launch` is tcemu.launch with all keywords but args, seed, policy and observers:
    functools.partial(tcemu.launch, block=128, sanitizer="collect"). There are a list of policies and a slider for the
    seed. `choices` are further parameters of the kernel, by name, each with the values of its list: pending=(0, 1). The
    last of `args` is the array that the kernel fills; if `right` says what belongs there, the title counts the elements
    that are right. `first` is the first row that is drawn.

    Raises OperandError for a list without values, and what `launch` raises.
    """
    lists = {name: {str(value): value for value in values} for name, values in choices.items()}
    empty = [name for name, values in lists.items() if not values]
    if empty:
        raise OperandError(f"{empty[0]} has no values to choose from")

    def draw(policy: str, seed: int, **chosen: str) -> Picture:
        given = [np.copy(each) if isinstance(each, np.ndarray) else each for each in args]
        events: list[Event] = []
        ready = partial(kernel, **{name: lists[name][text] for name, text in chosen.items()})
        result = launch(ready, args=tuple(given), policy=policy, seed=seed, observers=[events.append])
        drawn = show.hazards(events, result.reports, 0, first)
        said = [] if right is None else [_kept(given[-1], np.asarray(right))]
        said.append(f"policy {policy}, seed {seed}")
        description = f"{'. '.join(said)}. {drawn.description}"
        return replace(drawn, title="; ".join([drawn.title, *said]), description=description)

    controls: dict[str, Range | Choice] = {
        name: Choice(name, tuple(values), next(iter(values))) for name, values in lists.items()
    }
    controls["policy"] = Choice("policy", _POLICIES, _POLICIES[0])
    controls["seed"] = Range("seed", _SEEDS)
    return Explorer(draw, controls)


def _kept(got: npt.NDArray[Any], right: npt.NDArray[Any]) -> str:
    return f"{int((got == right).sum())} of {counted(right.size, 'element')} are right"


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
