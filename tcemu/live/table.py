"""A table of families: how each runs on a GPU, and what it is given where it is recorded or verified."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from tcemu.instructions.instruction import Instruction
from tcemu.live import warpgroup
from tcemu.live.job import Array
from tcemu.live.makers import Ask, Call, moves, products

#: For an instruction, a class of inputs, a number of warps and a series: a name, operands and shared memory, of each
#: case.
Cases = Callable[[Instruction, str, int, str], Iterator[tuple[str, tuple[Any, ...], Array]]]


@dataclass(frozen=True)
class Maker:
    """How a family runs on a GPU."""

    #: The answer to a call, launched by `ask`.
    run: Callable[[Call, Ask], Any]
    #: Its cases; None where they follow from how the family spells its operands.
    cases: Cases | None = None
    #: Record one class of inputs of each instruction, drawn by its name: there are thousands of instructions.
    drawn: bool = False


#: Seen on an H200: it moves such rows as ldmatrix does.
_ROWS = (
    "In shared memory the GPU wants more of a wmma.load than the manual (PTX ISA 9.7.14.4.2): every line of the matrix "
    "starts at a multiple of 16 bytes, so the pointer and the stride are multiples of 16 bytes. tcemu.run follows the "
    "manual and answers."
)
_PRODUCTS, _MOVES = Maker(products), Maker(moves)
#: Families that run on a GPU.
MAKERS: Mapping[str, Maker] = {
    "mma": _PRODUCTS,
    "mma.sp": _PRODUCTS,
    "mma.block_scale": _PRODUCTS,
    "wmma.mma": _PRODUCTS,
    "wmma.load": Maker(partial(moves, misaligned=_ROWS)),
    "wmma.store": _MOVES,
    "ldmatrix": _MOVES,
    "stmatrix": _MOVES,
    "movmatrix": Maker(partial(products, scalars=frozenset({"a", "d"}))),  # written without braces
    "wgmma": Maker(warpgroup.run, warpgroup.cases, drawn=True),
}
