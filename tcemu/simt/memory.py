"""Loads and stores that the executor carries out itself: local memory, parameters, and generic addresses of both.

Everything else is the machine's, which checks, reports to observers, and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, cast

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, AddressKind, LaunchError
from tcemu.instructions import Instruction, parse
from tcemu.instructions.facts import Space
from tcemu.machine.addresses import LOCAL, PARAM
from tcemu.machine.masks import bits_of, lanes_of
from tcemu.simt import values
from tcemu.simt.register_file import Slot
from tcemu.simt.steps import Access

if TYPE_CHECKING:
    from tcemu.simt.frames import Frame

Array = npt.NDArray[Any]
_BOUNDS: AddressKind = "bounds"


def addresses_of(frame: Frame, step: Access) -> Array:
    """The addresses of an access, int64 (32,): in a register of 32 bits, the sum has 32 bits too."""
    addresses = values.value(frame, step.address)
    if step.offset:
        addresses = addresses + addresses.dtype.type(step.offset & (1 << step.address.bits) - 1)
    addresses = addresses.astype(np.uint64).view(np.int64)
    return addresses if step.origin is None else addresses - values.value(frame, step.origin).view(np.int64)


def stored(frame: Frame, step: Access) -> Array:
    """The bytes (32, size) that a store writes."""
    kind = f"u{step.bits // 8}"
    columns = [values.value(frame, each).astype(kind) for each in step.registers if each is not None]
    return np.stack(columns, axis=1).view(np.uint8)


def loaded(frame: Frame, step: Access, data: Array, lanes: int) -> None:
    """Put the bytes (32, size) of a load into its registers, in the lanes of a mask."""
    kind = f"{'i' if step.signed else 'u'}{step.bits // 8}"
    elements = np.ascontiguousarray(data).view(kind)
    for number, slot in enumerate(step.registers):
        if isinstance(slot, Slot):
            wide = elements[:, number].astype(f"{kind[0]}{slot.bits // 8}").view(f"u{slot.bits // 8}")
            values.put(frame, slot, wide, lanes)


def carry_out(frame: Frame, step: Access) -> None:
    """An access to local memory or parameters, in the lanes that are active."""
    _within(frame, step, addresses_of(frame, step), step.space, frame.run.bits)


def _within(frame: Frame, step: Access, addresses: Array, space: str, mask: int) -> None:
    """The same for addresses within the space, and some of the lanes."""
    run, lanes = frame.run, lanes_of(mask)
    if space == "unset":
        found = run.local.marks(addresses, step.size, lanes, stored(frame, step) if step.writes else None)
        if not step.writes:
            loaded(frame, step, found, mask)
        return
    if space == "local":
        _check(frame, step, space, addresses, lanes, run.local.size)
        if step.writes:
            run.local.write(addresses, stored(frame, step)[lanes], lanes)
            return
        content = run.local.read(addresses, step.size, lanes)
    else:
        memory = run.core.grid.memory.bytes if space == "const" else run.parameters
        size = len(memory) if space == "const" else run.program.layout.parameter_bytes
        _check(frame, step, space, addresses, lanes, size)
        content = memory[addresses[lanes, None] + np.arange(step.size, dtype=np.int64)]
    data = np.zeros((32, step.size), np.uint8)
    data[lanes] = content
    loaded(frame, step, data, mask)


def _check(frame: Frame, step: Access, space: str, addresses: Array, lanes: Array, size: int) -> None:
    """End the launch unless the lanes may access these addresses."""
    low, high = addresses < 0, addresses > size - step.size
    wrong = lanes & (low | high | (addresses % step.size != 0) | (step.writes and space != "local"))
    if not wrong.any():
        if space == "const":
            _check_constants(frame, step, addresses, lanes)
        return
    lane = int(wrong.argmax())
    address, kind = int(addresses[lane]), _BOUNDS
    local = frame.run.local
    owner = local.owner(address + int(local.window[lane])) if space == "local" and (low | high)[lane] else ""
    opcode = frame.program.opcode(step.number)
    if owner:
        where = f"the address lies in the local memory of {owner}; a pointer to a local variable is for its own thread"
        _fault(frame, step, AddressError(f"{opcode}: lane {lane}: {where}", "owner"), space)
    if low[lane] or high[lane]:
        why = f"lies outside {space} memory, which has {size} bytes here"
    elif address % step.size:
        why, kind = f"is not a multiple of {step.size}", "alignment"
    else:
        why = f"is in {space} memory, which kernels cannot write"
    _fault(
        frame, step, AddressError(f"{opcode}: lane {lane}: address {address}, {step.size} bytes, {why}", kind), space
    )


def _check_constants(frame: Frame, step: Access, addresses: Array, lanes: Array) -> None:
    """End the launch unless the lanes read variables: constants lie among the arrays of the launch."""
    core = frame.run.core
    instruction = parse(frame.program.opcode(step.number), core.target)
    try:
        core.grid.memory.check(instruction, addresses[lanes], step.size, step.size, lanes)
    except AddressError as error:
        _fault(frame, step, error, "const")


def _fault(frame: Frame, step: Access, error: AddressError, space: str) -> NoReturn:
    """End the launch at an access; observers hear of it first."""
    core = frame.run.core
    by = core.by()._replace(site=frame.program.sites[step.number])
    core.fault(by, parse(frame.program.opcode(step.number), core.target), cast(Space, space), error)


def fail(frame: Frame, step: Access, addresses: Array) -> NoReturn:
    """End the launch: native code has found an address among these where the active lanes may not access memory."""
    core = frame.run.core
    if step.space in ("global", "shared"):
        instruction = parse(frame.program.opcode(step.number), core.target)
        nothing = [np.zeros((32, step.count), np.uint64 if step.bits == 64 else np.uint32)] if step.writes else []
        core.execute(instruction, addresses, *nothing)
    else:
        _within(frame, step, addresses, step.space, frame.run.bits)
    raise LaunchError(f"{frame.program.opcode(step.number)} at {core.at}: native code and the machine disagree")


def operation(step: Access, instruction: Instruction) -> Callable[[Frame], None]:
    """An access to global or shared memory, or by generic addresses, as an operation."""
    generic = step.space == "generic"

    def act(frame: Frame) -> None:
        run = frame.run
        addresses = addresses_of(frame, step)
        mine = run.bits
        if generic:
            lanes = lanes_of(mine)
            for space, low, high, first in (
                ("local", LOCAL, PARAM, run.local.window),
                ("param", PARAM, 1 << 62, PARAM),
            ):
                inside = bits_of(lanes & (addresses >= low) & (addresses < high))
                if inside:
                    _within(frame, step, addresses - first, space, inside)
                    mine &= ~inside
            if not mine:
                return
        run.core.bits = mine
        if step.writes:
            run.core.execute(instruction, addresses, _values(frame, step))
            return
        loaded = run.core.execute(instruction, addresses).bits
        for number, slot in enumerate(step.registers):
            if isinstance(slot, Slot):
                values.put(frame, slot, _fit(loaded[:, number], slot, step), mine)

    return act


def _values(frame: Frame, step: Access) -> Array:
    """What a store writes, as the machine takes it: (32, count) of the width of its registers."""
    kind = np.uint64 if step.bits == 64 else np.uint32
    return np.stack([values.value(frame, each).astype(kind) for each in step.registers if each is not None], axis=1)


def _fit(values: Array, slot: Slot, step: Access) -> Array:
    """A loaded element in a register of another width; the machine has extended it to 32 or 64 bits."""
    if slot.bits > 8 * values.itemsize and step.signed:
        return values.view(np.int32).astype(np.int64).view(np.uint64)
    return values.astype(f"u{slot.bits // 8}")
