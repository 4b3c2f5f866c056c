"""A fused sum, bit by bit: the terms aligned to the largest exponent, the bits cut off, the sum and the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from tcemu.arithmetic import FusedSum, FusedSums, Term, fused_sums
from tcemu.errors import OperandError, briefly, counted, span, whole
from tcemu.formats import Format
from tcemu.instructions import Instruction, parse
from tcemu.instructions.targets import target_named
from tcemu.show import svg
from tcemu.show.given import format_of
from tcemu.show.picture import Picture, picture
from tcemu.show.words import neat, power, value

_LEFT, _TOP, _ROW, _COLUMN = 132, 74, 28, 12.5
#: Columns drawn to the right of the cut, at least and at most; bits further to the right are an arrow.
_BEYOND = (6, 16)
_CUT = 16
#: Room to the right of the columns, and where the exponents end in it.
_VALUE, _EXPONENT = 214, 198


@dataclass(frozen=True)
class _Sheet:
    """The weights of the columns: `top` is the highest, `cut` the lowest that is kept, `low` the lowest drawn."""

    top: int
    cut: int
    low: int

    def x(self, weight: int) -> float:
        """Left edge of the column of 2^weight; a gap marks the cut."""
        return _LEFT + (self.top - weight) * _COLUMN + (_CUT if weight < self.cut else 0)

    @property
    def right(self) -> float:
        return self.x(self.low - 1)

    def y(self, row: int) -> float:
        return _TOP + row * _ROW


def fused_sum(steps: FusedSum, form: Format | str = "f32") -> Picture:
    """The picture of one fused sum, as :func:`tcemu.arithmetic.fused_sum` returns it, with its result in `form`.

    Zero terms are counted but not drawn. Raises OperandError for a sum of more than 40 terms, and for one whose result
    an infinity or a NaN decides before any alignment.

    >>> from tcemu.arithmetic import FusedSums, fused_sum
    >>> f16, f32 = tcemu.formats.lookup("f16"), tcemu.formats.lookup("f32")
    >>> two, zero = tcemu.formats.unpack(f16, 0x4000), tcemu.formats.unpack(f32, 0)
    >>> steps = fused_sum(FusedSums(fraction=25, block=None, floor=None), [(0, two, two)], zero, f32)
    >>> tcemu.show.fused_sum(steps).title
    'One fused sum: 1 term, 25 bits kept below the largest exponent 2'
    """
    form = format_of(form)
    terms = [term for term in steps.terms if term.significand]
    if steps.special or not terms or len(terms) > 40:
        why = steps.special or f"{len(terms)} terms that are not zero"
        raise OperandError(f"a fused sum is drawn for 1 to 40 finite terms that are not zero; this one has {why}")
    cut = steps.largest - steps.fraction
    tops = [_top(term.significand, term.exponent - term.point) for term in terms] + [_top(steps.total, cut)]
    few, many = _BEYOND
    low = min(term.exponent - term.point for term in terms)
    sheet = _Sheet(max(*tops, steps.largest), cut, min(cut - few, max(cut - many, low)))
    body = _frame(sheet, len(terms), steps)
    for row, term in enumerate(terms):
        body += _term(sheet, row, term, steps.largest)
    body += _sum(sheet, len(terms), steps, form)
    height = sheet.y(len(terms)) + 100
    body.append(svg.text(16, height - 10, _legend(len(steps.terms) - len(terms)), "s"))
    kept = f"{steps.fraction} bits kept below the largest exponent {value(steps.largest)}"
    title = f"One fused sum: {counted(len(terms), 'term')}, {kept}"
    floor = ", the floor" if all(term.exponent < steps.largest for term in terms) else ""
    words = f"The largest exponent is {value(steps.largest)}{floor}, so every term is truncated below 2^{cut}. "
    words += " ".join(_fate(term, cut) for term in terms)
    words += f" Their sum {neat(steps.total * 2.0**cut, 12)} becomes the {form.name} {_result(steps, form, 12)}."
    return picture(title, words, sheet.right + _VALUE, height, body)


def _top(magnitude: int, unit: int) -> int:
    """The exponent of the highest bit of a whole number of 2^unit."""
    return magnitude.bit_length() - 1 + unit


def _exact(term: Term) -> float:
    return term.significand * 2.0 ** (term.exponent - term.point)


def _fate(term: Term, cut: int) -> str:
    """What the cut leaves of a term, in words."""
    left = f"cut to {neat(term.kept * 2.0**cut, 12)}" if term.cut else "unchanged"
    return f"{_label(term)}: {neat(_exact(term), 12)}, exponent {value(term.exponent)}, {left}."


def _label(term: Term) -> str:
    return "c" if term.k is None else f"a{term.k} · b{term.k}"


def _result(steps: FusedSum, form: Format, digits: int) -> str:
    number = value(form.decode(steps.result).item(), digits)
    return f"{number} ({steps.result:#0{2 + -(-form.container // 4)}x})"


def _frame(sheet: _Sheet, rows: int, steps: FusedSum) -> list[str]:
    """The columns' weights, the line of the cut, the headings."""
    top, bottom = _TOP - 12, sheet.y(rows) + 66
    cut_x = sheet.x(sheet.cut) + _COLUMN + _CUT / 2
    elements = [
        svg.line(cut_x, top - 40, cut_x, bottom - 30, "k", dash="6 4"),
        svg.text(cut_x - 8, top - 32, f"kept: {steps.fraction} bits below {power(steps.largest)}", "b", "end"),
        svg.text(cut_x + 8, top - 32, "cut off", "b"),
        svg.text(sheet.right + 28, top - 8, "value", "s"),
        svg.text(sheet.right + _EXPONENT, top - 8, "exponent", "s", "end"),
    ]
    for weight in range(sheet.top, sheet.low - 1, -1):
        if weight == sheet.cut or (steps.largest - weight) % 5 == 0:
            look = "t b" if weight in (steps.largest, sheet.cut) else "s t"
            elements.append(svg.text(sheet.x(weight) + _COLUMN / 2, top - 8, power(weight), look, "middle"))
    return elements


def _term(sheet: _Sheet, row: int, term: Term, largest: int) -> list[str]:
    """One term: its bits, its value, its exponent, in bold if it is the largest."""
    y, unit, magnitude = sheet.y(row), term.exponent - term.point, abs(term.significand)
    sign = svg.text(_LEFT - 14, y + 14, _sign(term.significand), "m b", "end")
    elements = [svg.text(16, y + 14, _label(term)), sign, *_bits(sheet, y, (magnitude, unit), "fb", sheet.cut)]
    lowest = unit + (magnitude & -magnitude).bit_length() - 1
    if lowest < sheet.low:
        elements.append(svg.arrow(sheet.right + 3, y + 10, sheet.right + 20, y + 10))
    look = "b" if term.exponent == largest else "s"
    elements.append(svg.text(sheet.right + _EXPONENT, y + 14, value(term.exponent), look, "end"))
    return [*elements, svg.text(sheet.right + 28, y + 14, neat(_exact(term)), "s")]


def _sign(number: int) -> str:
    return "−" if number < 0 else "+"


def _bits(sheet: _Sheet, y: float, whole: tuple[int, int], style: str, lowest: int) -> list[str]:
    """The bits of whole[0] * 2^whole[1] from the highest one down: solid boxes to 2^lowest, hatched ones below."""
    magnitude, unit = whole
    weights = range(_top(magnitude, unit), max(unit, sheet.low) - 1, -1)
    kept, lost = [w for w in weights if w >= lowest], [w for w in weights if w < lowest]
    elements = [svg.path("".join(_box(sheet.x(w), y) for w in kept), style)] if kept else []
    elements += [svg.hatch(sheet.x(weight), y, _COLUMN, 20, "g", step=4) for weight in lost]
    elements += [svg.path("".join(_box(sheet.x(w), y) for w in lost), "l")] if lost else []
    for chosen, look in ((kept, "n c"), (lost, "n c q clear")):
        digits = (svg.text(sheet.x(w) + _COLUMN / 2, y + 14, magnitude >> (w - unit) & 1) for w in chosen)
        elements.append(svg.group(digits, look))
    return elements


def _box(x: float, y: float) -> str:
    return f"M{svg.number(x)} {svg.number(y)}h{_COLUMN}v20h-{_COLUMN}z"


def _sum(sheet: _Sheet, row: int, steps: FusedSum, form: Format) -> list[str]:
    """The exact sum of the truncated terms, and the result to which it is rounded."""
    y = sheet.y(row) + 12
    elements = [svg.line(16, y - 8, sheet.right + _VALUE - 16, y - 8, "k")]
    elements.append(svg.text(16, y + 14, "sum", "b"))
    if steps.total:
        elements.append(svg.text(_LEFT - 14, y + 14, _sign(steps.total), "m b", "end"))
        lowest = max(sheet.cut, max(_top(abs(steps.total), sheet.cut), form.emin) - form.mantissa)
        elements += _bits(sheet, y, (abs(steps.total), sheet.cut), "fg", lowest)
    elements.append(svg.text(sheet.right + 28, y + 14, neat(steps.total * 2.0**sheet.cut), "s"))
    result = _result(steps, form, 9)
    return [*elements, svg.text(16, y + 42, f"result in {form.name}", "b"), svg.text(_LEFT, y + 42, result, "m b")]


def _legend(zeros: int) -> str:
    left_out = f"{counted(zeros, 'zero term')} left out; " if zeros else ""
    return left_out + "hatched: bits that are dropped; arrow: more bits further right; bold: the largest exponent"


def fused_sum_of(
    instruction: Instruction,
    matrices: Sequence[npt.ArrayLike],
    row: int,
    column: int,
    target: str = "sm_90a",
    part: int = 0,
) -> Picture:
    """The fused sum behind the output at (row, column) of `instruction` on `target`; `matrices` are A, B and C.

    If the target chains several sums, `part` selects one, counted from 0. Raises OperandError for matrices of the wrong
    shape, for a position or part that does not exist, and for instructions that the target does not compute as fused
    sums of A, B and C.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> A, B, C = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16), np.zeros((16, 8), np.float32)
    >>> tcemu.show.fused_sum_of(mma, [A, B, C], row=0, column=0, target="sm_80", part=1).title  # the second of two sums
    'One fused sum: 9 terms, 24 bits kept below the largest exponent 3'
    """
    instruction = parse(instruction)
    if not isinstance(matrices, list | tuple) or len(matrices) != 3:
        raise OperandError(f"the matrices are a list of A, B and C of {instruction}; got {briefly(matrices)}")
    row, column, part = whole(row, "a row"), whole(column, "a column"), whole(part, "a part")
    model = instruction.arithmetic(target_named(target)).model
    if not isinstance(model, FusedSums) or model.through is not None or model.addend != "first":
        raise OperandError(f"{target} does not compute {instruction} as fused sums of A, B and C")
    m, n, k = instruction.shape
    sums = model.sums(k)
    if not (0 <= row < m and 0 <= column < n and 0 <= part < len(sums)):
        asked = f"row {row}, column {column}, part {part}"
        raise OperandError(
            f"{asked}: there are rows {span(0, m - 1)}, columns {span(0, n - 1)}, part{'s' * (len(sums) > 1)} "
            f"{span(0, len(sums) - 1)}"
        )
    a, b, c = (_operand(instruction, role, matrix) for role, matrix in zip("abc", matrices, strict=True))
    steps = fused_sums(model, a[row].tolist(), b[:, column].tolist(), int(c[row, column]), dict(instruction.types))
    return fused_sum(steps[part], instruction.types["d"])


def _operand(instruction: Instruction, role: str, matrix: npt.ArrayLike) -> npt.NDArray[Any]:
    fragment = instruction.fragments[role]
    patterns = fragment.format.patterns(matrix, role)
    if patterns.shape != fragment.shape:
        raise OperandError(f"{role} is a matrix of shape {fragment.shape}; got {patterns.shape}")
    return patterns
