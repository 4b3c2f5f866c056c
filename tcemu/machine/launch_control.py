"""Cluster launch control: try_cancel and query_cancel (PTX ISA 9.1, 9.7.13.17 and 9.7.13.18).

The manual calls the response opaque. Here its words are x, y and z of the first %ctaid, and a word that says whether a
cluster was cancelled; that a query of anything else is undefined, the sanitizer says.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tcemu.errors import AddressError, OperandError
from tcemu.instructions import Instruction
from tcemu.instructions.elements import space_of
from tcemu.machine.addresses import BLOCK, SHARED, window_of
from tcemu.machine.asynchronous_copy import Region, check
from tcemu.machine.bulk_copy import UNIT, begin_counted, each_lane
from tcemu.machine.dispatch import Act, executes
from tcemu.machine.events import By, CancelAsked, CancelQueried, Copy
from tcemu.machine.lanes import lanes
from tcemu.machine.masks import LANES
from tcemu.machine.registers import POISON, WARP

if TYPE_CHECKING:
    from tcemu.machine.block import Block, Index3
    from tcemu.machine.core import Core

Array = npt.NDArray[Any]
#: The last word of a response: a cluster was cancelled, and none was.
CANCELLED, FAILED = 0x0C1C0001, 0x0C1C0000
_NOTHING: Region = ("global", np.zeros(0, np.int64), UNIT)


def response_of(first: Index3 | None) -> Array:
    """The 16 bytes of a response, from the first %ctaid of the cluster that was cancelled; None: there was none."""
    words = (0, 0, 0, FAILED) if first is None else (*first, CANCELLED)
    return np.array(words, "<u4").view(np.uint8)


@executes("clusterlaunchcontrol.try_cancel")
def try_cancel(instruction: Instruction) -> Act:
    """Each active lane asks to cancel a cluster of the grid that has not started; an mbarrier counts the 16 bytes."""
    everywhere, generic = "multicast" in instruction.words, space_of(instruction) == "generic"

    def act(core: Core, destination: npt.ArrayLike, mbarrier: npt.ArrayLike) -> None:
        by = core.begin(instruction)
        if by is None:
            return
        operands = {"destination": destination, "mbarrier": mbarrier}
        for places in each_lane(core, instruction, operands):
            to, barrier = (_inside(core, by, instruction, at) if generic else at for at in places)
            check(core, by, instruction, "shared", np.array([to], np.int64), UNIT, UNIT)
            core.tell(CancelAsked, by)
            data = response_of(core.block.grid.cancel())
            blocks = core.block.cluster.blocks if everywhere else [core.block]
            for number, block in enumerate(blocks):
                phase = block.mbarriers.expect_more(core, by, instruction, barrier, 0)
                writes: Region = ("shared", np.array([to], np.int64), UNIT)
                copy = Copy("bulk", instruction, by, _NOTHING, writes, UNIT, mbarrier=barrier, phase=phase)
                copy.number, copy.owner = number, core.owner(block)
                begin_counted(core, copy, block, partial(_write, block, to, data))

    return act


def _write(block: Block, to: int, data: Array) -> None:
    block.shared.bytes[to : to + UNIT] = data


def _inside(core: Core, by: By, instruction: Instruction, address: int) -> int:
    """The place in the block's own shared memory that a generic address means. Ends the launch if it means another."""
    if window_of(address) != "shared":
        message = f"{instruction}: the generic address {address:#x} does not lie in shared memory"
        core.fault(by, instruction, "shared", AddressError(f"{message} (PTX ISA {instruction.section})", "bounds"))
    return int((address - SHARED) % BLOCK)


def _words(core: Core, instruction: Instruction, response: npt.ArrayLike) -> Array:
    """The four words (32, 4) of a register of 128 bits for each lane: (32, 2) of uint64, or (32, 4) of uint32."""
    array = np.ascontiguousarray(core.values(response))
    if array.ndim == 1 and array.nbytes == UNIT:
        array = np.broadcast_to(array, (WARP, len(array)))
    if array.dtype.kind not in "iu" or array.ndim != 2 or len(array) != WARP or array.nbytes != UNIT * WARP:
        raise OperandError(
            f"{instruction}: the response is a register of 128 bits, as ld.shared.b128 loads it: uint64 (32, 2) or "
            f"uint32 (32, 4); got {array.dtype} {array.shape} (PTX ISA {instruction.section})"
        )
    return np.ascontiguousarray(array).view("<u4")


@executes("clusterlaunchcontrol.is_canceled")
def is_canceled(instruction: Instruction) -> Act:
    """Whether the request cancelled a cluster, a predicate of each lane."""

    def act(core: Core, response: npt.ArrayLike) -> Any:
        by = core.begin(instruction)
        words = _words(core, instruction, response)
        if by is not None:
            core.tell(CancelQueried, by, "is_canceled", _kinds(core, words))
        return lanes(words[:, 3] == CANCELLED)

    return act


@executes("clusterlaunchcontrol.first_ctaid")
def get_first_ctaid(instruction: Instruction) -> Act:
    """%ctaid of the first block of the cancelled cluster: x, y, z and an unspecified register, or one of them."""
    axis = "xyz".find(instruction.words["what"][-1]) if "::" in instruction.words["what"] else -1

    def act(core: Core, response: npt.ArrayLike) -> Any:
        by = core.begin(instruction)
        words = _words(core, instruction, response)
        if by is None:
            return core.blank(1 if axis >= 0 else 4)
        core.tell(CancelQueried, by, "get_first_ctaid", _kinds(core, words))
        ids = words[:, axis : axis + 1].copy() if axis >= 0 else words.copy()
        if axis < 0:
            ids[:, 3] = POISON
        return core.made(ids.astype(np.uint32), core.bits)

    return act


def _kinds(core: Core, words: Array) -> tuple[str, ...]:
    """What the active lanes hold: "cancelled", "failed" or, if no try_cancel has written it, "none"."""
    known = {CANCELLED: "cancelled", FAILED: "failed"}
    return tuple(dict.fromkeys(known.get(int(words[lane, 3]), "none") for lane in LANES[core.active].tolist()))
