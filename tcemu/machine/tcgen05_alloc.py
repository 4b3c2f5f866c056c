"""Columns of Tensor Memory: tcgen05.alloc, dealloc and relinquish_alloc_permit (PTX ISA 9.1, 9.7.16.7).

With .cta_group::2, a warp of each block of a pair executes them, and both blocks get and free the same columns: each
warp waits for the other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from tcemu.errors import AddressError, counted, span
from tcemu.instructions import Instruction
from tcemu.layouts.tensor_memory import COLUMNS, tensor_memory_address
from tcemu.machine.addresses import generic
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import Accessed, By, TensorAllocated, TensorFreed, TensorRelinquished
from tcemu.machine.masks import LANES
from tcemu.machine.memory import Located
from tcemu.machine.pair import follows_pair, peer_of
from tcemu.machine.tensor_memory import Allocation, TensorMemory

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core

#: The numbers of columns that can be allocated.
_SIZES = (32, 64, 128, 256, 512)


class _Request:
    """A warp wants columns, or to free some: granted once its peer, if it needs one, wants the same."""

    def __init__(self, core: Core, by: By, instruction: Instruction, start: int, count: int) -> None:
        self.core, self.by, self.instruction, self.count = core, by, instruction, count
        #: the first column, from the beginning if it is to be freed, and -1 until it is allocated
        self.start = start
        self.granted = False


class Requests:
    """What warps of a block have asked for, in order, to be granted together with requests of its peer."""

    def __init__(self, block: Block) -> None:
        self.memory, self.waiting = block.state(TensorMemory), deque[_Request]()

    def ask(self, request: _Request) -> None:
        """Add a request."""
        self.waiting.append(request)


@executes("tcgen05.alloc")
def alloc(instruction: Instruction) -> Act:
    """tcgen05.alloc (9.7.16.7.1): waits for columns, and writes their address to shared memory."""

    def act(core: Core, destination: Any, n_columns: Any) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        memory = core.block.state(TensorMemory)
        count = _columns(core, by, instruction, n_columns)
        word = _word(core, by, instruction, destination)
        memory.grouped(core, by, instruction)
        _check_alloc(core, by, instruction, memory, count)
        request = _Request(core, by, instruction, -1, count)
        _wait(core, request, f"{count} free columns of Tensor Memory", partial(_allocated, request, word))

    return act


@executes("tcgen05.dealloc")
def dealloc(instruction: Instruction) -> Act:
    """tcgen05.dealloc: frees what one tcgen05.alloc has allocated."""

    def act(core: Core, taddr: Any, n_columns: Any) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        memory = core.block.state(TensorMemory)
        count, address = _columns(core, by, instruction, n_columns), _number(core, instruction, "taddr", taddr)
        memory.grouped(core, by, instruction)
        held = memory.allocations.get(address)
        if held is None or held.columns != count:
            column = address & 0xFFFF
            _misused(
                core, by, instruction,
                f"what is freed must be what one tcgen05.alloc has allocated; got {counted(count, 'column')} at "
                f"{address:#010x} (lane {address >> 16}, column {column}), but block {core.block.number} has "
                f"{memory.holders}",
            )  # fmt: skip
        request = _Request(core, by, instruction, address, count)
        _wait(core, request, "the peer block to free its columns", partial(_freed, request))

    return act


@executes("tcgen05.relinquish_alloc_permit")
def relinquish(instruction: Instruction) -> Act:
    """tcgen05.relinquish_alloc_permit: the block allocates no more."""

    def act(core: Core) -> None:
        by = core.begin(instruction)
        if by is not None:
            memory = core.block.state(TensorMemory)
            memory.grouped(core, by, instruction)
            memory.relinquished = True
            core.tell(TensorRelinquished, by)

    return act


# ---------------------------------------------------------------------------------------------------- requests


def _wait(core: Core, request: _Request, what: str, finish: Callable[[], None]) -> None:
    """Wait until a request is granted."""
    requests = core.block.state(Requests)
    requests.ask(request)
    both = [requests]
    if follows_pair(request.instruction):
        both.append(peer_of(core, request.by, request.instruction).state(Requests))

    def ready() -> bool:
        if not request.granted:
            _grant(both)
        return request.granted

    def description() -> str:
        if all(each.waiting for each in both):
            return f"{what}: {_owners(requests.memory)}"
        return f"{what}, and a warp of the peer block that executes {request.instruction} too"

    core.wait(request.by, "columns", request.count, ready, description, finish)


def _grant(both: list[Requests]) -> None:
    """Grant the first request of each block, if they ask for the same and there is room."""
    if not all(each.waiting for each in both):
        return
    first = [each.waiting[0] for each in both]
    one, other = first[0], first[-1]
    if (one.instruction.opcode, one.count) != (other.instruction.opcode, other.count):
        asked = [f"{each.instruction} of {counted(each.count, 'column')} ({each.by})" for each in (one, other)]
        _misused(
            one.core, one.by, one.instruction,
            f"a warp of each block of the pair executes the same instruction; got {asked[0]} and {asked[1]}",
        )  # fmt: skip
    if one.start < 0:
        free = set.intersection(*(each.memory.multiprocessor.free(one.count) for each in both))
        if not free:
            return
        for each in first:
            each.start = min(free)
    for requests, request in zip(both, first, strict=True):
        requests.waiting.popleft()
        request.granted = True
        memory = requests.memory
        if request.instruction.family == "tcgen05.alloc":
            memory.take(Allocation(request.start, request.count, request.by, request.instruction))
        else:
            memory.give_back(memory.allocations[request.start])


def _allocated(request: _Request, place: Located) -> None:
    """The warp continues with its columns: their address is in shared memory."""
    core, by, instruction, memory = request.core, request.by, request.instruction, request.core.block.shared
    data = np.full((1, 1), tensor_memory_address(0, request.start), np.uint32)
    units, extent, _ = place
    address = extent[0]
    if core.watched:
        at = np.array([address], np.int64)
        core.tell(Accessed, by, instruction, "shared", True, at, 4, extent, LANES[:1], False, "", data.view(np.uint8))
    memory.write(units, data)
    core.tell(TensorAllocated, by, instruction, request.start, request.count, address)


def _freed(request: _Request) -> None:
    request.core.tell(TensorFreed, request.by, request.instruction, request.start, request.count)


def _owners(memory: TensorMemory) -> str:
    """Who has the columns of an SM, in words."""
    owners = memory.multiprocessor.owners
    blocks = {each.number: owners.count(each) for each in owners if each is not None}
    held = ", ".join(f"block {number} has {counted(count, 'column')}" for number, count in sorted(blocks.items()))
    return f"of the {COLUMNS} of its SM, {held or 'none is taken'}"


# ---------------------------------------------------------------------------------------------------- checks


def _check_alloc(core: Core, by: By, instruction: Instruction, memory: TensorMemory, count: int) -> None:
    if memory.relinquished:
        _misused(core, by, instruction, "the block has executed tcgen05.relinquish_alloc_permit, and may not allocate")
    before = memory.latest
    if before is not None and count > before.columns:
        _misused(
            core, by, instruction,
            f"an allocation must not be larger than the block's last one; got {count} columns after "
            f"{before.columns} ({before.by})",
        )  # fmt: skip


def _columns(core: Core, by: By, instruction: Instruction, operand: Any) -> int:
    count = _number(core, instruction, "nCols", operand)
    if count not in _SIZES:
        _misused(
            core, by, instruction,
            f"the number of columns must be a power of two from {span(_SIZES[0], _SIZES[-1])}; got {count}",
        )  # fmt: skip
    return count


def _number(core: Core, instruction: Instruction, role: str, operand: Any) -> int:
    """One integer for the warp."""
    return int(operand) if type(operand) is int else int(core.integers(instruction, role, operand)[0])


def _word(core: Core, by: By, instruction: Instruction, operand: Any) -> Located:
    """The word of shared memory that the address is written to."""
    address = core.integers(instruction, "destination", operand)[:1]
    if not instruction.words.get("ss"):
        address = address - generic(0, core.block.slot)
    try:
        return core.block.shared.find(instruction, address, 4)
    except AddressError as error:
        core.fault(by, instruction, "shared", error)


def _misused(core: Core, by: By, instruction: Instruction, problem: str) -> NoReturn:
    error = AddressError(f"{instruction}: {problem} (PTX ISA {instruction.section})", "allocation", "tensor")
    core.fault(by, instruction, "tensor", error)
