"""ldmatrix, stmatrix, movmatrix, wmma.load and wmma.store of one warp, as moves of whole elements, which most are.

tcemu.instructions defines what they do, for any number of warps and any operand, and their errors. This module
handles only the operands that kernels usually pass.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError
from tcemu.formats import Container
from tcemu.instructions import Instruction
from tcemu.instructions.elements import StateSpace, space_of
from tcemu.instructions.facts import Space
from tcemu.instructions.wmma import rule_of
from tcemu.layouts import Fragment
from tcemu.machine.addresses import BLOCK, SHARED
from tcemu.machine.events import Accessed, By
from tcemu.machine.memory import Bytes, Located
from tcemu.machine.registers import WARP, Origin, Registers

if TYPE_CHECKING:
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: Executes an instruction on its operands; NotImplemented if others must check them, or raise an error about them.
Move = Callable[["Core", By, Sequence[Any]], Any]
_INT64 = np.dtype(np.int64)


def move_of(instruction: Instruction) -> Move | None:
    """The function that moves whole elements for an instruction; None if it does anything else."""
    make, fragments = _MOVES.get(instruction.family), instruction.fragments.values()
    if make is None or not fragments or "src_fmt" in instruction.words or instruction.facts.all_lanes:
        return None
    return make(instruction) if all(_whole(each.container) for each in fragments) else None


def _whole(container: Container) -> bool:
    """Whether an element fills its part of a register."""
    form, bits = container.form, 8 * container.storage.itemsize
    return form.bits + form.padding == container.width == bits and not container.shift


def _origins(instruction: Instruction, role: str) -> Callable[[str], Origin]:
    """The origin of the instruction's results, by target: the same object each time, which observers rely on."""

    @cache
    def origin(target: str) -> Origin:
        return instruction, role, target

    return origin


def _load(instruction: Instruction) -> Move:
    fragment, row = instruction.fragments["d"], instruction.facts.row
    register, rows = fragment.container.register_dtype, prod(fragment.shape[:-1])
    kind, places = _in_words(fragment.layout.gather, fragment.container.storage, register)
    state, origin = space_of(instruction), _origins(instruction, "d")
    # kernels use the same addresses again and again
    elements = lru_cache(maxsize=1024)(partial(_elements, row, kind, places))

    def move(core: Core, by: By, operands: Sequence[Any]) -> Any:
        at = _rows_at(core, state, operands[0], rows)
        place = None if at is None else _locate(core, instruction, at, row)
        if place is None:
            return NotImplemented
        _, extent, named = place
        if core.watched:
            core.grid.tell(Accessed, by, instruction, "shared", False, at, row, extent, lanes_of_rows(rows), True)
        taken = core.block.shared.units[kind.itemsize][elements(named)]
        return core.made(taken if kind is register else taken.view(register), core.present, origin(core.target))

    return move


def _store(instruction: Instruction) -> Move:
    fragment, row = instruction.fragments["a"], instruction.facts.row
    rows, state = prod(fragment.shape[:-1]), space_of(instruction)
    scatter, register = fragment.layout.scatter.reshape(rows, -1), fragment.container.register_dtype
    kind, places = _in_words(scatter, fragment.container.storage, register)
    elements = partial(_elements, row, kind, places.ravel().argsort().reshape(WARP, -1))

    @lru_cache(maxsize=1024)
    def written(named: bytes) -> Array | None:
        """The elements that the registers are written to; None if rows lie at one address, and so must be equal."""
        return elements(named) if len(set(np.frombuffer(named, np.int64).tolist())) == rows else None

    def move(core: Core, by: By, operands: Sequence[Any]) -> Any:
        at = _rows_at(core, state, operands[0], rows)
        place = None if at is None else _locate(core, instruction, at, row)
        target = None if place is None or not _fit(operands[1], fragment) else written(place[2])
        if place is None or target is None:
            return NotImplemented
        held = _held(operands[1], kind)
        if core.watched:
            core.grid.tell(Accessed, by, instruction, "shared", True, at, row, place[1], lanes_of_rows(rows), True)
        core.block.shared.units[kind.itemsize][target] = held
        return None

    return move


def _transpose(instruction: Instruction) -> Move:
    source, target = instruction.fragments["a"], instruction.fragments["d"]
    places, storage = source.layout.scatter.ravel()[target.layout.gather], source.container.storage
    register, origin = target.container.register_dtype, _origins(instruction, "d")

    def move(core: Core, by: By, operands: Sequence[Any]) -> Any:
        if not _fit(operands[0], source):
            return NotImplemented
        taken = _held(operands[0], storage).reshape(-1)[places]
        return core.made(taken.view(register), core.present, origin(core.target))

    return move


class _Tile:
    """The matrix of a wmma.load or wmma.store, whose elements are moved in an order: numbers of them, row by row."""

    def __init__(self, instruction: Instruction, fragment: Fragment, order: Array) -> None:
        self.instruction, self.rule, self.state = instruction, rule_of(instruction), space_of(instruction)
        self.element, self._by_rows = fragment.container.storage.itemsize, instruction.words["layout"] == "row"
        self._order = order
        self._lanes, self._positions = lanes_of_rows(self.rule.lines), lru_cache(maxsize=64)(self._positions_with)

    def find(self, core: Core, pointer: Any, stride: Any) -> tuple[Bytes, Array, tuple[Any, ...]] | None:
        """The memory, where each element of the matrix is in it, and what an event says; None if others must check."""
        rule = self.rule
        if not isinstance(pointer, int) or isinstance(pointer, bool) or type(stride) is not int or stride < rule.length:
            return None
        space, at = self._where(core, int(pointer))
        step, memory = stride * self.element, core.memory(space)
        extent = at, at + step * (rule.lines - 1) + rule.bytes
        if at % rule.size or step % rule.align or not memory.holds(*extent):
            return None
        details: tuple[Any, ...] = ()
        if core.watched:
            lines = np.arange(at, at + step * rule.lines, step, dtype=np.int64)
            details = lines, rule.bytes, extent, self._lanes, True
        return memory, self._positions(stride) + at // self.element, (space, details)

    def _positions_with(self, stride: int) -> Array:
        """Where each element is, in elements after the first."""
        lines, elements = (np.arange(count, dtype=np.int64) for count in (self.rule.lines, self.rule.length))
        numbers = lines[:, None] * stride + elements
        return np.asarray((numbers if self._by_rows else numbers.T).ravel()[self._order])

    def _where(self, core: Core, pointer: int) -> tuple[Space, int]:
        """The state space that a pointer lies in, and the address there."""
        if self.state != "generic":
            return ("global" if self.state == "global" else "shared"), pointer
        return ("global", pointer) if pointer < SHARED else ("shared", pointer - SHARED - core.block.slot * BLOCK)


def _load_tile(instruction: Instruction) -> Move:
    role = instruction.words["matrix"]
    fragment, origin = instruction.fragments[role], _origins(instruction, role)
    tile, register = _Tile(instruction, fragment, fragment.layout.gather), fragment.container.register_dtype

    def move(core: Core, by: By, operands: Sequence[Any]) -> Any:
        place = tile.find(core, operands[0], operands[1] if len(operands) == 2 else tile.rule.length)
        if place is None:
            return NotImplemented
        memory, places, (space, details) = place
        if details:
            core.grid.tell(Accessed, by, instruction, space, False, *details)
        elements = memory.units[tile.element][places]
        return core.made(elements.view(register), core.present, origin(core.target))

    return move


def _store_tile(instruction: Instruction) -> Move:
    fragment = instruction.fragments[instruction.words["matrix"]]
    scatter, storage = fragment.layout.scatter.ravel(), fragment.container.storage
    tile = _Tile(instruction, fragment, np.arange(scatter.size, dtype=np.int64))

    def move(core: Core, by: By, operands: Sequence[Any]) -> Any:
        place = tile.find(core, operands[0], operands[2] if len(operands) == 3 else tile.rule.length)
        if place is None or not _fit(operands[1], fragment):
            return NotImplemented
        memory, places, (space, details) = place
        elements = _held(operands[1], storage).reshape(-1)[scatter]
        if details:
            core.grid.tell(Accessed, by, instruction, space, True, *details)
        memory.units[tile.element][places] = elements
        return None

    return move


_MOVES: dict[str, Callable[[Instruction], Move]] = {
    "ldmatrix": _load,
    "stmatrix": _store,
    "movmatrix": _transpose,
    "wmma.load": _load_tile,
    "wmma.store": _store_tile,
}


def _in_words(gather: Array, storage: np.dtype[Any], register: np.dtype[Any]) -> tuple[np.dtype[Any], Array]:
    """A dtype, and what to take of elements seen as that: whole registers if the elements of each lie side by side."""
    count = register.itemsize // storage.itemsize
    words = gather.reshape(len(gather), -1, count)
    first = words[..., 0]
    if (first % count).any() or (words != first[..., None] + np.arange(count, dtype=np.int64)).any():
        return storage, gather
    return register, first // count


def _elements(row: int, kind: np.dtype[Any], places: Array, named: bytes) -> Array:
    """The elements of memory at these places in rows of `row` bytes, whose addresses come as bytes."""
    at: Array = np.frombuffer(named, np.int64)[:, None] + np.arange(0, row, kind.itemsize, dtype=np.int64)
    return at.ravel()[places] // kind.itemsize


def _fit(operand: Any, fragment: Fragment) -> bool:
    """Whether an operand is a warp's registers of a fragment."""
    return (
        (isinstance(operand, Registers) or type(operand) is np.ndarray)
        and operand.dtype == fragment.container.register_dtype
        and operand.shape == (fragment.lanes, fragment.registers)
        and (isinstance(operand, Registers) or operand.flags.c_contiguous)
    )


def _held(operand: Any, kind: np.dtype[Any]) -> Array:
    """The content of registers that fit, read now, as elements of a dtype: to be taken from, not to be kept."""
    array: Array = operand.content() if isinstance(operand, Registers) else operand
    return array if array.dtype is kind else np.ascontiguousarray(array).view(kind)


def _rows_at(core: Core, state: StateSpace, addresses: Any, rows: int) -> Array | None:
    """The addresses of rows in the block's shared memory, (rows,); None if others must check the operand."""
    if not isinstance(addresses, np.ndarray) or addresses.dtype is not _INT64 or addresses.shape != (WARP,):
        return None
    if state != "generic":
        return np.asarray(addresses)[:rows]
    # all lanes must address one window, also those whose rows are not needed
    return np.asarray(addresses) - (SHARED + core.block.slot * BLOCK) if rows == WARP else None


def _locate(core: Core, instruction: Instruction, at: Array, row: int) -> Located | None:
    """What shared memory finds for the rows there; None if an address is wrong."""
    try:
        return core.block.shared.find(instruction, at, row)
    except AddressError:
        return None


@lru_cache(maxsize=64)
def lanes_of_rows(count: int) -> Array:
    """The lane of each of `count` addresses, as an instruction of a warp gives them, read-only."""
    lanes = np.arange(count, dtype=np.int64) % WARP
    lanes.flags.writeable = False
    return lanes
