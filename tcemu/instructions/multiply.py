"""D = A B + C on fragments: code that mma, wmma and their sparse and scaled forms share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tcemu.arithmetic import Operation, compute_registers
from tcemu.arithmetic.registers import FewWarps, shares_warps
from tcemu.backend import on_all_cores
from tcemu.errors import OperandError
from tcemu.formats import Container, Format, lookup
from tcemu.instructions.instruction import Instruction
from tcemu.instructions.spelling import Words
from tcemu.kernels.host.threads import cores

Array = npt.NDArray[Any]
#: Takes some warps' part of an operand: registers (warps, lanes * registers), or (warps, ...) of another kind.
Take = Callable[[slice], Array]

#: Warps that are computed at a time, at least: enough to hide the calls, few enough to share among cores.
CHUNK = 1024
#: Parts for each core, if there are more warps: enough to balance the cores if they do other work too.
_PARTS = 4

#: The lowest bit of a pattern in a container that is wider: e2m1 is in bits 5:2 of its byte (9.7.14.5.14).
_SHIFT_IN_BYTE = {"e2m1": 2}


@cache
def container(form: Format, width: int | None) -> Container:
    """The container of an operand's elements: `width` bits if the row says so, otherwise the format's own."""
    if width is None or width == form.container:
        return Container(form, form.container)
    return Container(form, width, _SHIFT_IN_BYTE.get(form.name, 0))


def types_of(words: Words, default: str = "f16") -> dict[str, Format]:
    """The formats by role; types that the spelling leaves out are `default`."""
    return {role: lookup(words.get(f"{role}type", default)) for role in "dabc"}


def registers(instruction: Instruction, arrays: Mapping[str, npt.ArrayLike]) -> dict[str, Array]:
    """Register operands by role, checked against their fragments."""
    return {role: instruction.fragments[role].check(array) for role, array in arrays.items()}


def broadcast(instruction: Instruction, shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """The warps: the leading axes of all operands, broadcast. Raises OperandError if they do not broadcast."""
    first, *rest = shapes.values()
    if all(shape == first for shape in rest):
        return first
    try:
        return np.broadcast_shapes(*shapes.values())
    except ValueError:
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise OperandError(f"{instruction}: the leading axes, which count warps, do not broadcast: {listed}") from None


def take(array: Array, own: tuple[int, ...], warps: tuple[int, ...]) -> Take:
    """A function from a slice of the broadcast warps to their part of `array` (own + rest), flat."""
    rest = array.shape[len(own) :]
    flat = (prod(rest),) if rest else ()
    if own == warps and (array.flags.c_contiguous or len(own) == 1):
        return lambda some: array.reshape(prod(own), *rest)[some].reshape(-1, *flat)
    leading = warps or (1,)
    spread, numbers = np.broadcast_to(array, (*leading, *rest)), range(prod(leading))
    return lambda some: spread[np.unravel_index(numbers[some], leading)].reshape(-1, *flat)


def room(instruction: Instruction, warps: int) -> Array:
    """Uninitialised flat registers of D, (warps, lanes * registers). Raises OperandError if they do not fit memory."""
    fragment = instruction.fragments["d"]
    width, dtype = fragment.lanes * fragment.registers, fragment.container.register_dtype
    try:
        return np.empty((warps, width), dtype)
    except (MemoryError, ValueError):
        size = warps * width * dtype.itemsize
        raise OperandError(f"{instruction}: D of {warps} warps takes {size} bytes: too much memory") from None


def execute(
    instruction: Instruction, operation: Operation, operands: Sequence[npt.ArrayLike], memories: Mapping[str, Any]
) -> Array:
    """D of A, B and C: registers (..., 32, registers) each; the leading axes are warps and broadcast."""
    if len(operands) != 3:
        raise OperandError(f"{instruction} takes registers of A, B and C, and returns D; got {len(operands)} operands")
    fragments = instruction.fragments
    few = instruction.plans.get(operation)
    if few is None:
        few = instruction.plans[operation] = FewWarps(operation, fragments, CHUNK)
    result: Array | None = few(*operands)
    if result is not None:
        return result
    arrays = registers(instruction, dict(zip("abc", operands, strict=True)))

    def run(parts: dict[str, Array], _: int, d: Array) -> None:
        # read by layout, compute by the arithmetic row, write by layout
        compute_registers(operation, fragments, parts["a"], parts["b"], parts["c"], out=d)

    return in_chunks(instruction, arrays, {}, run, lambda warps: shares_warps(operation, fragments, warps))


def in_chunks(
    instruction: Instruction,
    registers: Mapping[str, Array],
    others: Mapping[str, tuple[Array, tuple[int, ...]]],
    run: Callable[[dict[str, Array], int, Array], None],
    shares: Callable[[int], bool] = lambda _: False,
) -> Array:
    """D of all warps, a chunk at a time; or at once, if `run` shares so many among cores, and all operands are whole.

    `run` gets `registers` flattened, parts of `others` (array, own warps), the number of its first warp, and the flat
    registers of D that it fills.
    """
    shapes = {role: array.shape[:-2] for role, array in registers.items()}
    arrays = dict(registers)
    for name, (array, own) in others.items():
        shapes[name], arrays[name] = own, array
    warps = broadcast(instruction, shapes)
    count, target = prod(warps), instruction.fragments["d"]
    d = room(instruction, count)
    whole = all(own == warps for own in shapes.values())
    contiguous = all(array.flags.c_contiguous for array in arrays.values())
    if whole and (count <= CHUNK or (contiguous and shares(count))):
        run({name: array.reshape(count, prod(array.shape[len(warps) :])) for name, array in arrays.items()}, 0, d)
        return d.reshape(*warps, target.lanes, target.registers)
    takes = {name: take(array, shapes[name], warps) for name, array in arrays.items()}

    size = max(CHUNK, -(-count // (_PARTS * cores())))

    def chunk(start: int) -> None:
        some = slice(start, start + size)
        run({name: part(some) for name, part in takes.items()}, start, d[some])

    on_all_cores(chunk, range(0, count, size))
    return d.reshape(*warps, target.lanes, target.registers)
