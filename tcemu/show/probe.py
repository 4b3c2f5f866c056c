"""A probe: a one in one element of one operand, and who answers. It needs no map, so it can find one."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arguments import explained
from tcemu.errors import OperandError, counted, listing, span
from tcemu.instructions import Instruction, parse, run
from tcemu.layouts import Fragment
from tcemu.show import svg
from tcemu.show.picture import Picture, picture
from tcemu.show.sheet import Grid
from tcemu.show.svg import Drawing

#: Corner of the grid of lanes, four to a row as in a fragment map; a lane's label and height.
_LEFT, _TOP, _LABEL, _HIGH = 16, 44, 30, 26
_ACROSS = 4
#: An element's place in its register, by how many share the register.
_HALVES = ("lo", "hi")
#: What is marked, for a reader of the words and of the drawing.
_ANSWERS = {
    "d": ("Not zero", "what is not zero"),
    "partner": ("The same k", "where a second one makes an output nonzero"),
}


@explained
def probe(
    instruction: str | Instruction,
    operand: str = "a",
    lane: int = 0,
    register: int = 0,
    element: int = 0,
    answers: str = "d",
    target: str = "sm_90a",
) -> Picture:
    """The registers that respond to a one in one element of A or B (`operand`), whose other elements are all zero.

    With `answers` "d", all elements of the other operand are one, and the registers of D that are not zero are marked:
    those in the one's row, or column. With `answers` "partner", the other operand has a single one too, in each of its
    elements in turn, and those are marked that make any output nonzero: the elements with the same k. Everything is
    computed by running the instruction on `target`; no fragment map is used.

    Raises OperandError for an operand, place or `answers` that does not exist, and for an instruction that does not
    multiply two matrices in registers.

    >>> mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
    >>> print(tcemu.show.probe(mma, "a", lane=13, register=2))
    A one in lane 13, register a2: lanes 12 to 15 answer
    Not zero: lane 12: d0, d1; lane 13: d0, d1; lane 14: d0, d1; lane 15: d0, d1.
    """
    mma = parse(instruction)
    _check(mma, operand, answers)
    fragments, other = mma.fragments, "b" if operand == "a" else "a"
    one = _one(fragments[operand], operand, lane, register, element)
    if answers == "d":
        registers = _run(mma, {operand: one, other: _ones(fragments[other])}, target)
        hit, names = registers != 0, [f"d{number}" for number in range(registers.shape[-1])]
    else:
        hit, names = _partners(mma, operand, one, other, target), _places(fragments[other], other)
    where = f"lane {lane}, register {operand}{register}" + (f", element {element}" if element else "")
    return _drawn(hit, names, where, answers)


def _check(mma: Instruction, operand: str, answers: str) -> None:
    """Raise OperandError unless the instruction can be probed, and in this way."""
    if set(mma.fragments) != {"a", "b", "c", "d"}:
        raise OperandError(f"a probe needs an instruction with A, B, C and D in registers; {mma.opcode} is not one")
    for what, name, known in (("operand", operand, ("a", "b")), ("answers", answers, ("d", "partner"))):
        if name not in known:
            raise OperandError(f"{what} must be {listing(map(repr, known))}; got {name!r}")


def _ones(fragment: Fragment) -> npt.NDArray[Any]:
    """Registers in which every element is one."""
    return fragment.pack(np.ones(fragment.shape, fragment.format.dtype))


def _one(fragment: Fragment, operand: str, lane: int, register: int, element: int) -> npt.NDArray[Any]:
    """Registers in which one element is one, the rest zero. Raises OperandError for a place that does not exist."""
    limits = {"lane": fragment.lanes, "register": fragment.registers, "element": fragment.elements_per_register}
    for (what, most), place in zip(limits.items(), (lane, register, element), strict=True):
        if not 0 <= place < most:
            raise OperandError(f"{what} {place}: operand {operand} has {what} {span(0, most - 1)}")
    registers: npt.NDArray[Any] = _single(fragment)[lane, register, element]
    return registers


@lru_cache(maxsize=8)  # up to 2 MB each
def _single(fragment: Fragment) -> npt.NDArray[Any]:
    """Registers for each place (lane, register, element), in which only the element there is one."""
    lanes, registers, elements = fragment.lanes, fragment.registers, fragment.elements_per_register
    ones, width = _ones(fragment), fragment.container.width
    masks = np.array([((1 << width) - 1) << width * element for element in range(elements)], ones.dtype)
    mma = np.zeros((lanes, registers, elements, lanes, registers), ones.dtype)
    lane, register = np.ogrid[:lanes, :registers]
    mma[lane, register, :, lane, register] = ones[..., None] & masks
    mma.flags.writeable = False  # all callers share it
    return mma


def _run(mma: Instruction, operands: dict[str, npt.NDArray[Any]], target: str) -> npt.NDArray[Any]:
    c = mma.fragments["c"]
    zero = c.pack(np.zeros(c.shape, c.format.dtype))
    registers: npt.NDArray[Any] = run(mma, operands["a"], operands["b"], zero, target=target)
    return registers


def _partners(mma: Instruction, operand: str, one: npt.NDArray[Any], other: str, target: str) -> npt.NDArray[np.bool_]:
    """Which elements of the other operand the one is multiplied by: bool (lanes, places)."""
    single = _single(mma.fragments[other])
    lanes, *places = single.shape[:3]
    many = _run(mma, {operand: one, other: single.reshape(-1, *single.shape[3:])}, target)  # a warp for each element
    met: npt.NDArray[np.bool_] = (many != 0).any(axis=(1, 2)).reshape(lanes, prod(places))
    return met


def _places(fragment: Fragment, role: str) -> list[str]:
    """The names of a lane's elements: b0.lo, b0.hi, b1.lo."""
    several = fragment.elements_per_register
    names = _HALVES if several == len(_HALVES) else tuple(map(str, range(several)))
    return [
        f"{role}{register}" + (f".{name}" if several > 1 else "")
        for register in range(fragment.registers)
        for name in names
    ]


def _drawn(hit: npt.NDArray[np.bool_], names: Sequence[str], where: str, answers: str) -> Picture:
    held = [f"lane {lane}: {', '.join(name for name, is_hit in zip(names, row, strict=True) if is_hit)}"
            for lane, row in enumerate(hit) if row.any()]  # fmt: skip
    place = 9 + 6.2 * max(map(len, names))
    grid = Grid(_LEFT, _TOP, _LABEL + place * len(names) + 12, _HIGH, -(-len(hit) // _ACROSS), _ACROSS)
    what, note = _ANSWERS[answers]
    lanes, quiet, marked, labels = list[Drawing](), list[Drawing](), list[Drawing](), list[str]()
    for lane, row in enumerate(hit):
        x, y, *_ = grid.at(*divmod(lane, _ACROSS))
        registers = Grid(x + _LABEL, y, place, _HIGH - 4, 1, len(names))
        lanes.append(registers.beside([lane], "n b" if row.any() else "n q"))
        for number, (name, is_hit) in enumerate(zip(names, row, strict=True)):
            box = registers.at(0, number)
            (marked if is_hit else quiet).append(box.marked() if is_hit else box.rect("p"))
            labels.append(box.label(name, "n b c halo t" if is_hit else "n q c t"))
    head = svg.text(_LEFT, _TOP - 16, f"Each line: four lanes and their registers; marked: {note}", "s")
    title = f"A one in {where}: {_who(np.flatnonzero(hit.any(axis=1)))}"
    words = f"{what}: {'; '.join(held)}." if held else "All outputs are zero."
    return picture(title, words, grid.right + _LEFT, grid.bottom + 16, (head, lanes, quiet, marked, labels))


def _who(lanes: npt.NDArray[np.intp]) -> str:
    if not lanes.size:
        return "no lane answers"
    if lanes.size == 1:
        return f"lane {lanes[0]} answers"
    if (np.diff(lanes) == 1).all():
        return f"lanes {lanes[0]} to {lanes[-1]} answer"
    if lanes.size <= 8:
        return f"lanes {listing(map(str, lanes), 'and')} answer"
    return f"{counted(len(lanes), 'lane')} answer"
