"""One output of an instruction on several targets, or under several recipes: the sums that make it up, side by side."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.arithmetic import FusedSum, FusedSums, Term, dot, fused_sums
from tcemu.arithmetic.model import FmaGroups
from tcemu.arithmetic.words import in_words
from tcemu.errors import OperandError
from tcemu.instructions import Instruction, parse
from tcemu.instructions.targets import target_named
from tcemu.show import svg
from tcemu.show.inputs import patterns_of, targets_of
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Box
from tcemu.show.svg import Drawing
from tcemu.show.words import compact, hexadecimal, neat, power, value

_LEFT, _TOP, _BAND, _CELL = 92, 16, 102, 24
#: Width of a cell if there are few, the gap between two sums, the room for the result; the least and largest width.
_WIDE, _GAP, _RESULT, _LEAST, _MOST = 56.0, 60, 286, 560, 1100
#: Narrower cells have no room for a number, nor for the letter k.
_ROOM = 34


@explained
def one_output(
    instruction: Instruction | str,
    matrices: Sequence[npt.ArrayLike],
    row: int = 0,
    column: int = 0,
    targets: Iterable[str] = ("sm_80", "sm_90a"),
) -> Picture:
    """The output at (row, column) of `instruction` on each of `targets`, sum by sum; `matrices` are A, B and C.

    A product that the cut removes, wholly or in part, is hatched. Products that are zero are left out. Raises
    OperandError for matrices of the wrong shape and a position that does not exist, TargetError for targets that are
    not a list, and IllegalInstruction for a target that does not have the instruction.

    >>> mma = tcemu.parse("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    >>> A, B, C = np.ones((16, 16), np.float16), np.ones((16, 8), np.float16), np.zeros((16, 8), np.float32)
    >>> tcemu.show.one_output(mma, [A, B, C]).description.partition(". ")[0]
    'sm_80: 2 fused sums of 8 products, 24 bits kept, gives 16 (0x41800000)'
    """
    parsed = parse(instruction)
    names = targets_of(targets)
    a, b, c = patterns_of(parsed, matrices, row, column)
    bands = [_band(parse(parsed, name), name, a, b, c) for name in names]
    wide = min(_WIDE, *((_MOST - _LEFT - 30 - _RESULT - _gaps(band)) / _cells_of(band) for band in bands))
    right = _LEFT + max(_gaps(band) + wide * _cells_of(band) for band in bands) + 30
    bottom = _TOP + len(bands) * _BAND
    drawn = [_drawn(_TOP + number * _BAND, band, wide, right) for number, band in enumerate(bands)]
    body = drawn, svg.text(16, bottom + 8, _LEGEND, "s")
    title = f"D[{row}][{column}] of {parsed.family} {parsed.shape} on {', '.join(band.name for band in bands)}"
    return picture(title, " ".join(map(_in_words, bands)), max(right + _RESULT, _LEAST), bottom + 24, body)


_LEGEND = "each cell: a term of the sum; hatched: cut off in part or entirely; zero products left out"


@dataclass(frozen=True)
class _Band:
    """What one target does: its fused sums, if it has any; c, if it is added after them; the result."""

    name: str
    computes: str
    sums: tuple[FusedSum, ...]
    last: float | None
    result: str
    #: On the ordinary cores: the products that are not zero, and c unless it is zero, in the order of addition.
    chain: tuple[tuple[str, float], ...] = ()


def _band(instruction: Instruction, name: str, a: list[int], b: list[int], c: int) -> _Band:
    """What one target does."""
    target = target_named(name)
    model, forms = instruction.arithmetic(target).model, dict(instruction.types)
    result = dot(model, a, b, c, forms, dict(instruction.operation(target).qualifiers))
    d = forms["d"]
    says = f"{value(d.decode(result).item())} ({hexadecimal(result, d.container)})"
    if not isinstance(model, FusedSums):
        if not isinstance(model, FmaGroups):
            return _Band(name, in_words(model, len(a)), (), None, says)
        products = (forms["a"].decode(a) * forms["b"].decode(b)).tolist()
        terms = [(f"k {k}", product) for k, product in enumerate(products)]
        terms.append(("c", float(forms["c"].decode(c).item())))
        shown = tuple((term, float(number)) for term, number in terms if number)
        return _Band(name, in_words(model, len(a)), (), None, says, shown)
    last = float(forms["c"].decode(c).item()) if model.addend == "last" else None
    return _Band(name, in_words(model, len(a)), fused_sums(model, a, b, c, forms), last, says)


def _short(number: float, wide: float) -> str:
    """A number for a cell, if it has room for one."""
    most = int((wide - 5) / (svg.MONO * svg.SMALL))
    if wide < _ROOM:
        return ""
    full, rounded = neat(number), compact(number, most)
    mantissa, exponent = math.frexp(number)
    scaled = f"{value(2 * mantissa)}·{power(exponent - 1)}"  # superscripts are narrow
    fits = [text for text, room in ((full, max(most, len(rounded))), (scaled, most + 1)) if len(text) <= room]
    return fits[0] if fits else rounded


def _terms(steps: FusedSum) -> list[Term]:
    """The terms that are not zero, the addend first."""
    return sorted((term for term in steps.terms if term.significand), key=lambda term: term.k is not None)


def _cells_in(steps: FusedSum) -> int:
    return max(2, len(_terms(steps)))


def _cells_of(band: _Band) -> int:
    return max(1, sum(map(_cells_in, band.sums)) + (band.last is not None) + len(band.chain))


def _gaps(band: _Band) -> float:
    return _GAP * max(0, len(band.sums) - 1 + (band.last is not None))


def _drawn(y: float, band: _Band, wide: float, right: float) -> Iterator[Drawing]:
    """One target: its name, the cells of each sum, what it cuts, and the result."""
    yield svg.text(16, y + 32, band.name, "b"), svg.text(16, y + 82, band.computes, "s")
    x: float = _LEFT
    for number, steps in enumerate(band.sums):
        yield svg.arrow(x - _GAP + 8, y + 28, x - 8, y + 28) if number else ""
        yield _cells(x, y, wide, steps, carried=number > 0)
        x += wide * _cells_in(steps) + _GAP
    if band.last is not None:
        yield svg.text(x - _GAP / 2, y + 33, "+", "b", "middle")
        yield _cell(Box(x, y + 16, wide, _CELL), "c", band.last, cut=False)
        x += wide + _GAP
    for place, (term, product) in enumerate(band.chain):
        yield _cell(Box(x + place * wide, y + 16, wide, _CELL), term, product, cut=False)
    if band.chain:
        yield Box(x, y + 16, len(band.chain) * wide, _CELL).bracket(2, 4)
        yield svg.text(x + 2, y + 64, "rounded after every step", "s")
        x += wide * len(band.chain) + _GAP
    yield svg.arrow(x - _GAP + 8 if band.sums or band.chain else _LEFT, y + 28, right - 4, y + 28)
    yield svg.text(right + 4, y + 32, band.result, "b")


def _cell(box: Box, name: str, number: float, *, cut: bool) -> Drawing:
    fill = [box.rect("p"), box.inset(1).hatch(step=4)] if cut else box.rect("fb")
    return box.above(name, "s t"), fill, box.label(_short(number, box.wide), "n clear" if cut else "n")


def _cells(x: float, y: float, wide: float, steps: FusedSum, *, carried: bool) -> Iterator[Drawing]:
    """The terms of one sum; the addend of a later sum is the result of the one before."""
    terms = _terms(steps)
    front, back = ("k ", "sum") if wide >= _ROOM else ("", "Σ")
    for place, term in enumerate(terms):
        name = f"{front}{term.k}" if term.k is not None else back if carried else "c"
        number = float(term.significand * 2.0 ** (term.exponent - term.point))
        yield _cell(Box(x + place * wide, y + 16, wide, _CELL), name, number, cut=term.cut)
    if steps.special or not terms:
        yield svg.text(x, y + 32, steps.special or "only zeros", "s")
    else:
        yield Box(x, y + 16, len(terms) * wide, _CELL).bracket(2, 4)
        yield svg.text(x + 2, y + 64, f"cut below {power(steps.largest - steps.fraction)}", "s")


def _in_words(band: _Band) -> str:
    """The text alternative."""
    lines = [f"{band.name}: {band.computes}, gives {band.result}."]
    for number, steps in enumerate(band.sums, 1):
        cut = [f"k {term.k}" if term.k is not None else "the addend" for term in _terms(steps) if term.cut]
        if steps.special:
            lines.append(f"Sum {number}: {steps.special}.")
        elif _terms(steps):
            lost = f", which truncates {', '.join(cut)}" if cut else ", which truncates nothing"
            lines.append(f"Sum {number} is cut below {power(steps.largest - steps.fraction)}{lost}.")
    return " ".join(lines)


_EDGE, _UPPER, _RECIPE, _PART, _SPACE, _PARTS = 24, 40, 132, 118, 10, 7


@dataclass(frozen=True)
class ElementSums:
    """A recipe's sums of one element: the k of each and its value, then the total and the element as it is stored.

    >>> from tcemu.show import ElementSums
    >>> ElementSums("one chain", (("k 0-15", 1.5),), 1.5, 1.5, "0x3fc00000", True).agrees
    True
    """

    name: str
    #: Each part that is summed separately ("k 0-63"), and its sum, in the order of addition.
    parts: tuple[tuple[str, float], ...]
    total: float
    #: The element's value and bits.
    result: float
    bits: str
    #: Whether these are the bits in question.
    agrees: bool


@explained
def element_sums(bands: Sequence[ElementSums], title: str, asked: str) -> Picture:
    """A band for each recipe; `asked` is the element in question, value and bits.

    Sums that a recipe shares with the first one, to the bit, are plain; the others are marked. Raises OperandError
    without bands.

    >>> from tcemu.show import ElementSums, element_sums
    >>> whole = ElementSums("one chain", (("k 0-15", 1.5),), 1.5, 1.5, "0x3fc00000", True)
    >>> halves = ElementSums("2 splits", (("k 0-7", 1.0), ("k 8-15", 0.25)), 1.25, 1.25, "0x3fa00000", False)
    >>> drawn = element_sums([whole, halves], "D[0][0]", "1.5, 0x3fc00000")
    >>> drawn.description.partition(" 2 splits: ")[2]
    '1 (k 0-7) + 0.25 (k 8-15), in all 1.25, stored as 1.25 (0x3fa00000), which differs.'
    """
    if not bands:
        raise OperandError("a picture of an element's sums needs at least one recipe")
    most = min(_PARTS, max(len(band.parts) for band in bands))
    width = 2 * _EDGE + (most + 2) * (_PART + _SPACE) + 20
    known = set(bands[0].parts)
    rows = [_recipe(band, _UPPER + number * _RECIPE, known if number else set(band.parts))
            for number, band in enumerate(bands)]  # fmt: skip
    words = " ".join([f"Given: {asked}.", *map(_words, bands)])
    head = svg.text(_EDGE, 24, f"given: {asked}", "m")
    return picture(title, words, width, _UPPER + len(bands) * _RECIPE + 8, (head, rows))


def _recipe(band: ElementSums, top: float, known: set[tuple[str, float]]) -> Iterator[Drawing]:
    yield svg.text(_EDGE, top + 16, band.name, "n")
    shown = _fitting(band.parts)
    for place, part in enumerate(shown):
        box = Box(_EDGE + place * (_PART + _SPACE), top + 30, _PART, 44)
        if part is None:
            yield box.label("…", "m")
        else:
            yield _two_lines(box, "p" if part in known else "fo", part[0], f"{part[1]:.9g}", bold=part not in known)
    x, y = _EDGE + len(shown) * (_PART + _SPACE) + 10, top + 30
    yield svg.arrow(x - 12, y + 22, x, y + 22)
    verdict, box = f"{band.bits} {'agrees' if band.agrees else 'differs'}", Box(x + 4, y, 2 * _PART, 44)
    yield _two_lines(box, "fg" if band.agrees else "fo", f"in all {band.total:.9g}", verdict, bold=True)


def _two_lines(box: Box, tone: str, first: str, second: str, *, bold: bool) -> Drawing:
    """A box with two lines."""
    return box.rect(tone), box.lines([(first, "s"), (second, "n b" if bold else "n")], 6, 16, 18)


def _fitting(parts: Sequence[tuple[str, float]]) -> list[tuple[str, float] | None]:
    """The parts that fit: if there are many, the first ones and the last."""
    return list(parts) if len(parts) <= _PARTS else [*parts[: _PARTS - 2], None, parts[-1]]


def _words(band: ElementSums) -> str:
    parts = _fitting(band.parts)
    terms = " + ".join("..." if part is None else f"{part[1]:.9g} ({part[0]})" for part in parts)
    how = "which agrees" if band.agrees else "which differs"
    return f"{band.name}: {terms}, in all {band.total:.9g}, stored as {band.result:.9g} ({band.bits}), {how}."
