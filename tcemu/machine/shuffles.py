"""shfl.sync: each lane reads a register of another lane of its warp (PTX ISA 9.1, 9.7.9.6)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import OperandError
from tcemu.instructions import Instruction
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import Shuffled
from tcemu.machine.lanes import lanes as per_lane
from tcemu.machine.masks import FULL, LANES, bits_of
from tcemu.machine.registers import POISON, WARP, Registers

if TYPE_CHECKING:
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]

#: By mode: the lane that each lane asks for, given (own lane, operand b, first lane of its segment, segment mask), and
#: whether that is inside the segment, given (that lane, the bound). If it is not, a lane reads its own value.
_SHUFFLES: dict[str, tuple[Callable[[Array, Array, Array, Array], Array], Callable[[Array, Array], Array]]] = {
    "idx": (lambda _, b, first, segment: first | b & ~segment, np.less_equal),
    "up": (lambda lane, b, _, __: lane - b, np.greater_equal),
    "down": (lambda lane, b, _, __: lane + b, np.less_equal),
    "bfly": (lambda lane, b, _, __: lane ^ b, np.less_equal),
}


@lru_cache(maxsize=1024)
def _sources(mode: str, *operands: int | bytes) -> tuple[Array, Array]:
    """The lane that each lane reads from, and whether the one that it asks for is inside its segment; both (32,).

    The operands b and c are one number for all lanes, or the bytes of one for each: kernels repeat their shuffles.
    """
    source, inside = _SHUFFLES[mode]
    numbers: list[Any] = [each if isinstance(each, int) else np.frombuffer(each, np.int64) for each in operands]
    b, c = numbers
    lane, segment = b & 31, c >> 8 & 31
    first, bound = LANES & segment, LANES & segment | c & 31 & ~segment
    asked = source(LANES, lane, first, segment)
    in_range = inside(asked, bound)
    return np.where(in_range, asked, LANES), in_range


def asked_lanes(mode: str, b: Array, c: Array) -> Array:
    """The lane (32,) that each lane reads from, of operands (32,) of shfl.sync."""
    return _sources(mode, *(each.astype(np.int64).tobytes() for each in (b & 0x1FFF, c & 0x1FFF)))[0].astype(np.intp)


@executes("shfl.sync")
def shfl(instruction: Instruction) -> tuple[Act, Act]:
    """shfl.sync d|p (9.7.9.6): each lane gets another lane's value; c: segment mask from bit 8 on, clamp value below.

    p, bool (32,), says which active lanes' sources are in their segment.
    """
    mode = instruction.words["mode"]

    def shuffled(core: Core, values: Any, b: npt.ArrayLike, c: npt.ArrayLike, *membermask: Any) -> tuple[Array, Array]:
        core.check_membermask(instruction, *membermask, elsewhere=True)
        by = core.begin(instruction)
        asked, in_range = _sources(mode, _operand(core, instruction, "b", b), _operand(core, instruction, "c", c))
        held = _read(core, values, asked) if core.watched else _content(core, values)
        if held.ndim not in (1, 2) or len(held) != WARP or held.dtype.kind not in "iuf" or held.dtype.itemsize > 8:
            raise OperandError(
                f"{instruction}: values must be numbers (32,) or (32, n); got {held.dtype} {held.shape} (PTX ISA "
                f"{instruction.section})"
            )
        native = held if held.dtype.isnative else held.astype(held.dtype.newbyteorder("="))
        moved = np.asarray(native.take(asked.astype(np.intp, copy=False), axis=0))
        if core.bits != FULL or by is None:
            taking = core.active & core.active[asked] & (by is not None)
            bits = moved.view(f"u{moved.itemsize}")
            bits[~taking] = POISON & np.iinfo(bits.dtype).max
            if by is not None:
                core.tell(Shuffled, by, instruction, asked, int(membermask[0]) & FULL if membermask else by.active)
        return moved, in_range

    def both(core: Core, *operands: Any) -> tuple[Array, Array]:
        moved, in_range = shuffled(core, *operands)
        return moved, per_lane(in_range.copy() if core.bits == FULL else in_range & core.active)

    return lambda core, *operands: shuffled(core, *operands)[0], both


def _operand(core: Core, instruction: Instruction, role: str, value: npt.ArrayLike) -> int | bytes:
    return value & 0x1FFF if type(value) is int else core.integers(instruction, role, value).tobytes()


def _content(core: Core, values: Any) -> Array:
    """The values where nobody listens; they are not kept, so registers need not be copied."""
    return values.content() if type(values) is Registers else core.values(values)


def _read(core: Core, values: Any, asked: Array) -> Array:
    """The values; those of lanes that no active lane asks for do not count as read."""
    before, needed = core.bits, np.zeros(WARP, bool)
    needed[asked[core.active]] = True
    core.bits = before & bits_of(needed)
    try:
        return core.values(values)
    finally:
        core.bits = before
