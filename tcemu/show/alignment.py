"""A fused sum, bit by bit: the terms aligned to the largest exponent, the bits cut off, the sum and the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.arithmetic import FusedSum, FusedSums, Term, fused_sums
from tcemu.errors import OperandError, counted
from tcemu.formats import Format
from tcemu.instructions import Instruction, parse
from tcemu.instructions.targets import target_named
from tcemu.show import svg
from tcemu.show.inputs import format_of, patterns_of, targets_of
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box
from tcemu.show.svg import Drawing
from tcemu.show.words import hexadecimal, neat, power, value

_LEFT, _TOP, _ROW, _COLUMN = 132, 74, 28, 12.5
#: Columns drawn to the right of the cut, at least and at most; bits further to the right are an arrow.
_BEYOND = (6, 16)
_CUT = 16
#: Room to the right of the columns, and where the exponents end in it.
_VALUE, _EXPONENT = 214, 198
#: Width of a letter of small text.
_LETTER = 6.2

_HOW_TO_READ = "hatched: bits that are dropped; arrow: more bits further right; bold: the largest exponent"


@dataclass(frozen=True)
class _Columns:
    """The weights of the columns: `top` is the highest, `cut` the lowest that is kept, `low` the lowest drawn."""

    top: int
    cut: int
    low: int
    #: The upper edge, and the gap at the cut: none if sums with different cuts are compared, column by column.
    start: float = 0
    gap: float = _CUT

    def x(self, weight: int) -> float:
        """Left edge of the column of 2^weight; a gap marks the cut."""
        return _LEFT + (self.top - weight) * _COLUMN + (self.gap if weight < self.cut else 0)

    @property
    def right(self) -> float:
        return self.x(self.low - 1)

    def y(self, row: int) -> float:
        return self.start + _TOP + row * _ROW


@explained
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
    terms = _terms(steps)
    kept = f"{steps.fraction} bits kept below the largest exponent {value(steps.largest)}"
    zeros = len(steps.terms) - len(terms)
    left_out = f"{counted(zeros, 'zero term')} left out; " if zeros else ""
    return _picture(f"One fused sum: {counted(len(terms), 'term')}, {kept}", [("", steps)], form, left_out)


def _picture(title: str, panels: Sequence[tuple[str, FusedSum]], form: Format, left_out: str) -> Picture:
    """Sums one below the other, under their names if they have any; `left_out` says what is not drawn of them."""
    columns, body, words, y = _columns([steps for _, steps in panels]), list[Drawing](), list[str](), 0.0
    for name, steps in panels:
        cut = steps.largest - steps.fraction
        placed = replace(columns, cut=cut, start=y + 20, gap=0) if name else columns
        body += [svg.text(16, y + 22, name, "b") if name else "", _drawn(placed, steps, form)]
        words.append(f"{name}: {_in_words(steps, form)}" if name else _in_words(steps, form))
        y = placed.y(len(_terms(steps))) + 72
    legend = left_out + _HOW_TO_READ
    body.append(svg.text(16, y + 18, legend, "s"))
    width = max(columns.right + _VALUE, 32 + _LETTER * len(legend))
    return picture(title, " ".join(words), width, y + 28, body)


def _terms(steps: FusedSum) -> list[Term]:
    """The terms that are drawn. Raises OperandError for a sum that cannot be drawn."""
    terms = [term for term in steps.terms if term.significand]
    if steps.special or not terms or len(terms) > 40:
        why = steps.special or f"{len(terms)} terms that are not zero"
        raise OperandError(f"a fused sum is drawn for 1 to 40 finite terms that are not zero; this one has {why}")
    return terms


def _columns(sums: Sequence[FusedSum]) -> _Columns:
    """Columns that are enough for all of these sums; the cut is that of the first."""
    few, many = _BEYOND
    tops, lows = [], []
    for steps in sums:
        terms, cut = _terms(steps), steps.largest - steps.fraction
        tops += [_top(term.significand, term.exponent - term.point) for term in terms]
        tops += [_top(steps.total, cut), steps.largest]
        lows.append(min(cut - few, max(cut - many, min(term.exponent - term.point for term in terms))))
    return _Columns(max(tops), sums[0].largest - sums[0].fraction, min(lows))


def _drawn(columns: _Columns, steps: FusedSum, form: Format) -> Drawing:
    """The columns, the terms, the sum and the result."""
    terms = _terms(steps)
    rows = [_term(columns, row, term, steps.largest) for row, term in enumerate(terms)]
    return _frame(columns, len(terms), steps), rows, _sum(columns, len(terms), steps, form)


def _in_words(steps: FusedSum, form: Format) -> str:
    """The text alternative: the cut, what it leaves of each term, the sum and the result."""
    terms, cut = _terms(steps), steps.largest - steps.fraction
    floor = ", the floor" if all(term.exponent < steps.largest for term in terms) else ""
    words = f"The largest exponent is {value(steps.largest)}{floor}, so every term is truncated below {power(cut)}. "
    for term in terms:
        left = f"cut to {neat(term.kept * 2.0**cut, 12)}" if term.cut else "unchanged"
        words += f"{_label(term)}: {neat(_exact(term), 12)}, exponent {value(term.exponent)}, {left}. "
    return words + f"Their sum {neat(steps.total * 2.0**cut, 12)} becomes the {form.name} {_result(steps, form, 12)}."


def _top(magnitude: int, unit: int) -> int:
    """The exponent of the highest bit of a whole number of 2^unit."""
    return magnitude.bit_length() - 1 + unit


def _exact(term: Term) -> float:
    return term.significand * 2.0 ** (term.exponent - term.point)


def _label(term: Term) -> str:
    return "c" if term.k is None else f"a{term.k} · b{term.k}"


def _result(steps: FusedSum, form: Format, digits: int) -> str:
    number = value(form.decode(steps.result).item(), digits)
    return f"{number} ({hexadecimal(steps.result, form.container)})"


def _frame(columns: _Columns, rows: int, steps: FusedSum) -> Iterator[str]:
    """The columns' weights, the line of the cut, the headings."""
    top, bottom = columns.y(0) - 12, columns.y(rows) + 66
    cut_x = columns.x(columns.cut) + _COLUMN + columns.gap / 2
    yield svg.line(cut_x, top - 40, cut_x, bottom - 30, "k", dash="6 4")
    yield svg.text(cut_x - 8, top - 32, f"kept: {steps.fraction} bits below {power(steps.largest)}", "b", "end")
    yield svg.text(cut_x + 8, top - 32, "cut off", "b")
    yield svg.text(columns.right + 28, top - 8, "value", "s")
    yield svg.text(columns.right + _EXPONENT, top - 8, "exponent", "s", "end")
    for weight in range(columns.top, columns.low - 1, -1):
        near = 0 < abs(weight - columns.cut) < 3  # too near to the label of the cut
        if weight == columns.cut or ((steps.largest - weight) % 5 == 0 and not near):
            look = "t b" if weight in (steps.largest, columns.cut) else "s t"
            ends = weight == columns.cut and not columns.gap  # beside the line, not on it
            x, anchor = (_COLUMN - 3, "end") if ends else (_COLUMN / 2, "middle")
            yield svg.text(columns.x(weight) + x, top - 8, power(weight), look, anchor)


def _term(columns: _Columns, row: int, term: Term, largest: int) -> Iterator[Drawing]:
    """One term: its bits, its value, its exponent, in bold if it is the largest."""
    y, unit, magnitude = columns.y(row), term.exponent - term.point, abs(term.significand)
    yield svg.text(16, y + 14, _label(term)), _sign(term.significand, y)
    yield _bits(columns, y, (magnitude, unit), "fb", columns.cut)
    if unit + (magnitude & -magnitude).bit_length() - 1 < columns.low:
        yield svg.arrow(columns.right + 3, y + 10, columns.right + 20, y + 10)
    look = "b" if term.exponent == largest else "s"
    yield svg.text(columns.right + _EXPONENT, y + 14, value(term.exponent), look, "end")
    yield svg.text(columns.right + 28, y + 14, neat(_exact(term)), "s")


def _sign(number: int, y: float) -> str:
    return svg.text(_LEFT - 14, y + 14, "−" if number < 0 else "+", "m b", "end")


def _bits(columns: _Columns, y: float, whole: tuple[int, int], style: str, lowest: int) -> Drawing:
    """The bits of whole[0] * 2^whole[1] from the highest one down: solid boxes to 2^lowest, hatched ones below."""
    magnitude, unit = whole
    boxes = {weight: Box(columns.x(weight), y, _COLUMN, 20)
             for weight in range(_top(magnitude, unit), max(unit, columns.low) - 1, -1)}  # fmt: skip
    kept, lost = [w for w in boxes if w >= lowest], [w for w in boxes if w < lowest]
    hatched = [boxes[w].hatch(step=4) for w in lost], svg.path((boxes[w].outline() for w in lost), "l")
    digits = [
        svg.group((svg.text(boxes[w].middle, boxes[w].base, magnitude >> (w - unit) & 1) for w in chosen), look)
        for chosen, look in ((kept, "n c"), (lost, "n c q clear"))
    ]
    return svg.path((boxes[w].outline() for w in kept), style), hatched, digits


def _sum(columns: _Columns, row: int, steps: FusedSum, form: Format) -> Iterator[Drawing]:
    """The exact sum of the truncated terms, and the result to which it is rounded."""
    y = columns.y(row) + 12
    yield svg.line(16, y - 8, columns.right + _VALUE - 16, y - 8, "k"), svg.text(16, y + 14, "sum", "b")
    if steps.total:
        lowest = max(columns.cut, max(_top(abs(steps.total), columns.cut), form.emin) - form.mantissa)
        yield _sign(steps.total, y), _bits(columns, y, (abs(steps.total), columns.cut), "fg", lowest)
    yield svg.text(columns.right + 28, y + 14, neat(steps.total * 2.0**columns.cut), "s")
    yield svg.text(16, y + 42, f"result in {form.name}", "b")
    yield svg.text(_LEFT, y + 42, _result(steps, form, 9), "m b")


@explained
def fused_sum_of(
    instruction: Instruction, matrices: Sequence[npt.ArrayLike], row: int, column: int, target: str = "sm_90a"
) -> Picture:
    """The fused sum behind the output at (row, column) of `instruction` on `target`; `matrices` are A, B and C.

    If the target chains several sums, it is the first; fused_sums_of draws all of them. Raises OperandError for
    matrices of the wrong shape, for a position that does not exist, and for instructions that the target does not
    compute as fused sums of A, B and C.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> A, B, C = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16), np.zeros((16, 8), np.float32)
    >>> tcemu.show.fused_sum_of(mma, [A, B, C], row=0, column=0).title
    'One fused sum: 16 terms, 25 bits kept below the largest exponent 0'
    """
    parsed = parse(instruction)
    return fused_sum(_sums_of(parsed, matrices, row, column, target)[0], parsed.types["d"])


@explained
def fused_sums_of(
    instruction: str | Instruction,
    matrices: Sequence[npt.ArrayLike],
    row: int = 0,
    column: int = 0,
    targets: Sequence[str] = ("sm_80", "sm_90a"),
) -> Picture:
    """The fused sums behind one output on several targets, one below the other: the same columns, different cuts.

    `matrices` are A, B and C. Where a target chains several sums, those whose products are all zero are left out.
    Raises OperandError as fused_sum_of does, and without targets; IllegalInstruction for a target that does not have
    the instruction.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> A, B, C = np.zeros((16, 16), np.float16), np.zeros((16, 8), np.float16), np.zeros((16, 8), np.float32)
    >>> A[0, :3], B[:3, 0] = (2**13, 1, -(2**13)), (2**12, 1, 2**12)  # 2^25 + 1 - 2^25
    >>> tcemu.show.fused_sums_of(mma, [A, B, C]).title
    'D[0, 0] is 0 on sm_80, 1 on sm_90a'
    """
    parsed = parse(instruction)
    form, panels, results = parsed.types["d"], [], []
    for target in targets_of(targets):
        sums = _sums_of(parsed, matrices, row, column, target)
        results.append(f"{neat(form.decode(sums[-1].result).item())} on {target}")
        # those that add a product that is not zero, or cut what they are given
        busy = [number for number, steps in enumerate(sums)
                if any(term.significand and (term.k is not None or term.cut) for term in steps.terms)]  # fmt: skip
        for number in busy or [len(sums) - 1]:
            before = "; c is the result before" if number else ""
            part = f", sum {number + 1} of {len(sums)}{before}" if len(sums) > 1 else ""
            panels.append((f"{target}{part}", sums[number]))
    title = f"D[{row}, {column}] is {', '.join(results)}"
    return _picture(title, panels, form, "terms that are zero are left out; ")


def _sums_of(
    instruction: Instruction, matrices: Sequence[npt.ArrayLike], row: int, column: int, target: str
) -> Sequence[FusedSum]:
    """The fused sums behind one output, in the order in which the target chains them.

    Raises OperandError for an instruction that is not computed as fused sums of A, B and C.
    """
    known = parse(instruction, target)
    fragments, model = known.fragments, known.arithmetic(target_named(target)).model
    plain = (
        fragments.keys().isdisjoint(("e", "scale_a", "scale_b")) and len(fragments.get("d", fragments["a"]).shape) == 2
    )
    if not plain or not isinstance(model, FusedSums) or model.through is not None or model.addend != "first":
        raise OperandError(f"{target} does not compute {instruction} as fused sums of A, B and C")
    return fused_sums(model, *patterns_of(instruction, matrices, row, column), dict(instruction.types))
