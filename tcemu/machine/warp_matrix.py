"""Synchronous matrix instructions of one warp: mma, wmma, ldmatrix and the like (PTX ISA 9.1, 9.7.14).

tcemu.instructions computes them; this module connects them to a block's memory and a warp's registers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import Operation
from tcemu.errors import AddressError, OperandError
from tcemu.instructions import Instruction
from tcemu.instructions.elements import space_of
from tcemu.instructions.facts import Space
from tcemu.instructions.family import Family
from tcemu.instructions.memory import Observed, uniform
from tcemu.instructions.run import prepared
from tcemu.instructions.table import family_of
from tcemu.machine.addresses import BLOCK, parts
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import Accessed, By
from tcemu.machine.matrix_move import lanes_of_rows, move_of
from tcemu.machine.memory import extent_of
from tcemu.machine.registers import WARP, Registers

if TYPE_CHECKING:
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]

#: State spaces, and the arguments of tcemu.run that hold their bytes.
_ARGUMENTS: dict[Space, str] = {"shared": "shared", "global": "memory"}


@executes("*")
def matrix(instruction: Instruction) -> Act:
    """Any instruction that tcemu.run executes, for one warp and on the memory of its block."""
    family, sources = family_of(instruction), instruction.sources
    out = next((each for each in instruction.operands if each.written), None)
    roles, move = [each.role for each in sources], move_of(instruction)
    whole = [each.kind == "registers" for each in sources]

    @cache
    def ready(target: str) -> tuple[Operation | None, tuple[Instruction, str, str]]:
        """What it computes on a target, and the origin of its result."""
        return prepared(instruction, target)[2], (instruction, out.role if out else "", target)

    def act(core: Core, *operands: Any) -> Registers | None:
        by = core.begin(instruction, roles, operands)
        if by is None:  # if no lane executes it, its result is unwritten
            return (
                None
                if out is None or out.fragment is None
                else core.blank(out.registers, out.fragment.container.register_dtype)
            )
        if move is not None:
            moved = move(core, by, operands)
            if moved is not NotImplemented:
                return moved  # type: ignore[no-any-return]
        arguments: list[Any] = list(operands)
        for number, each in enumerate(operands):
            if isinstance(each, Registers):
                arguments[number] = each.content() if whole[number] else _content(each)
        operation, origin = ready(core.target)
        if family.memories:
            result = _in_memory(core, by, instruction, family, operation, arguments)
        else:
            result = family.execute(instruction, operation, arguments, {})  # type: ignore[misc]
        if result is None or out is None:
            return None
        if result.ndim != 2:
            raise OperandError(_warps(instruction, f"{result.shape[:-2]} warps"))
        return core.made(result, core.present, origin)

    return act


def _in_memory(
    core: Core, by: By, instruction: Instruction, family: Family, operation: Operation | None, operands: list[Any]
) -> Array | None:
    """Execute an instruction whose first operand is an address, on the memory of the block or the launch."""
    space = _locate(core, by, instruction, operands, "memory" in family.memories)
    memory = Observed(_bytes(core, space), _teller(core, by, instruction, space))
    try:
        result: Array | None = family.execute(  # type: ignore[misc]
            instruction, operation, operands, {_ARGUMENTS[space]: memory}
        )
    except AddressError as error:
        core.fault(by, instruction, space, error)
    return result


def _content(registers: Registers) -> Array:
    """An operand that is not a matrix, as tcemu.run takes it: one register of each lane is (32,)."""
    array = registers.content()
    return array[:, 0] if array.shape[1] == 1 else array


def _warps(instruction: Instruction, got: str) -> str:
    return f"{instruction}: in a kernel each warp gives its own 32 lanes; got {got} (PTX ISA {instruction.section})"


def _locate(core: Core, by: By, instruction: Instruction, operands: list[Any], pointed: bool) -> Space:
    """The state space of the first operand, an address, which is replaced by the address within it.

    Checks that the operands are those of one warp.
    """
    _check_one_warp(core, instruction, operands)
    addresses = core.values(operands[0])
    if addresses.dtype.kind not in "iu":
        raise OperandError(
            f"{instruction}: addresses must be integers; got dtype {addresses.dtype} (PTX ISA {instruction.section})"
        )
    state = space_of(instruction)
    if state != "generic":
        return "global" if state == "global" else "shared"
    space, inside = _within(core, by, instruction, np.atleast_1d(addresses).astype(np.int64), pointed)
    operands[0] = inside if addresses.ndim else inside[0]
    return space


def _check_one_warp(core: Core, instruction: Instruction, operands: list[Any]) -> None:
    """Check that operands are those of one warp; a pointer or stride in registers becomes one number."""
    for number, (role, each) in enumerate(zip_longest(instruction.sources, list(operands))):
        if role is None or each is None:
            continue
        array = core.values(each)
        if role.kind in ("pointer", "stride") and array.shape == (WARP,):
            operands[number] = array = uniform(instruction, f"the {role.role}", array)
        most = 2 if role.fragment is not None else 1 if role.kind in ("address", "pointer") else 0
        if array.ndim > most:
            raise OperandError(_warps(instruction, f"{role.role} of shape {np.shape(each)}"))


def _within(core: Core, by: By, instruction: Instruction, addresses: Array, pointed: bool) -> tuple[Space, Array]:
    """The state space of generic addresses (n,) and the addresses within it; `pointed`: it may be global memory."""
    pieces = parts(addresses)
    windows = {part.window for part in pieces}
    accepted = {"shared", "global"} if pointed else {"shared"}
    if len(windows) > 1 or not windows <= accepted:
        other = sorted(windows - accepted) or sorted(windows)
        message = (
            f"{instruction}: a generic address in {other[0]} memory; it must lie in {' or '.join(sorted(accepted))} "
            f"memory. Convert a shared address with warp.generic(address), or write .shared in the opcode and pass the "
            f"shared address itself (PTX ISA {instruction.section})"
        )
        core.fault(by, instruction, "shared", AddressError(message, "bounds"))
    inside = pieces[0].addresses
    if windows == {"shared"}:
        inside = inside - core.block.slot * BLOCK
        if (inside < 0).any() or (inside >= BLOCK).any():
            message = (
                f"{instruction}: a generic address in the shared memory of another block of the cluster; only ld, st, "
                f"atom and red reach there (PTX ISA {instruction.section})"
            )
            core.fault(by, instruction, "shared", AddressError(message, "bounds"))
    return "shared" if windows == {"shared"} else "global", inside


def _bytes(core: Core, space: Space) -> Array:
    if space == "shared":
        return core.block.shared.bytes[: core.block.shape.shared]
    return core.block.grid.memory.bytes


def _teller(core: Core, by: By, instruction: Instruction, space: Space) -> Callable[[bool, Array, int], None]:
    """A function that receives the accesses of an instruction and reports them as events."""

    def tell(writes: bool, addresses: Array, size: int) -> None:
        flat = addresses.reshape(-1).astype(np.int64)
        if space == "global":
            core.block.grid.memory.check(instruction, flat, size, 1)
        if core.watched:
            lanes = lanes_of_rows(flat.size)
            core.tell(Accessed, by, instruction, space, writes, flat, size, extent_of(flat, size), lanes, True)

    return tell
