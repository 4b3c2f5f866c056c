"""Faults: what the hardware or the assembler does not execute, as the rule that it breaks."""

from __future__ import annotations

from typing import NamedTuple

from tcemu.errors import counted
from tcemu.machine.events import By, Faulted
from tcemu.machine.meeting import WARPGROUP
from tcemu.sanitizer.block import Block, Handlers
from tcemu.sanitizer.report import many


class _Fault(NamedTuple):
    """The rule that a fault breaks, what it concerns if not the memory, and another fix than the rule's."""

    rule: str
    concerns: str = ""
    remedy: str = ""


_TENSOR = "Tensor Memory"
#: By kind. warpgroup: see below; operands, arrivals and bytes: mbarriers.py, which knows their causes; map: likewise
#: tensor_maps.py.
_FAULTS = {
    "bounds": _Fault("out-of-range"),
    "alignment": _Fault("misaligned"),
    "freed": _Fault(
        "out-of-range",
        remedy="Free memory after the last access to it: __syncthreads(), and then free in one thread.",
    ),
    "owner": _Fault(
        "out-of-range",
        remedy="Put what others need into memory that they reach: shared memory for threads of the block, global "
        "memory for other blocks. Give them the address of that, or pass the value itself, as __shfl_sync does.",
    ),
    "lanes": _Fault("absent-lanes", "the membermask"),
    "cluster": _Fault(
        "barrier-threads",
        "the barrier of the cluster",
        "In every phase, each thread must execute barrier.cluster.arrive once and then barrier.cluster.wait.",
    ),
    "registers": _Fault("setmaxnreg-count", "registers", "Name a multiple of 8 from 24 to 256."),
    "exited": _Fault(
        "out-of-range",
        remedy="Make all blocks of the cluster wait at barrier.cluster after they last use each other's shared memory.",
    ),
    "rank": _Fault(
        "out-of-range",
        remedy="Ranks are below the number of blocks in the cluster. In a ring, the next one is (rank + 1) % blocks.",
    ),
    "apart": _Fault(
        "out-of-range",
        remedy=("Map both addresses with mapa, to the rank of the same block: the mbarrier lies where the data go."),
    ),
    "overlap": _Fault("lanes-disagree", remedy="Give each lane the address of its own row of 16 bytes."),
    "quarter": _Fault("tcgen05-lanes", _TENSOR),
    "columns": _Fault("tcgen05-columns", _TENSOR),
    "allocation": _Fault("tcgen05-allocation", _TENSOR),
    "idesc": _Fault("tcgen05-descriptor", "the instruction descriptor"),
    "descriptor": _Fault("tcgen05-descriptor", "the descriptor of a tile in shared memory"),
    "pair": _Fault("tcgen05-pair", _TENSOR),
}
#: By kind, of Tensor Memory: other rules than of other memories.
_OF_TENSOR_MEMORY = {
    "bounds": _Fault("tcgen05-columns", _TENSOR),
    "alignment": _Fault(
        "misaligned",
        _TENSOR,
        "Put a lane into bits 31:16 of the address that the operand may begin in: 0, if it has 128 rows.",
    ),
}


class Faults:
    """Reports the faults of a block."""

    def __init__(self, block: Block) -> None:
        self._block = block
        self.handlers: Handlers = {Faulted: self._faulted}

    def _faulted(self, event: Faulted) -> None:
        if event.kind == "warpgroup":
            self._start(event.by, event.instruction.opcode)
        special = _OF_TENSOR_MEMORY if event.space == "tensor" else {}
        fault = special.get(event.kind) or _FAULTS.get(event.kind)
        if fault is not None:
            what = fault.concerns or f"{event.space} memory"
            self._block.report(fault.rule, event.by, event.message, what=what, remedy=fault.remedy)

    def _start(self, by: By, opcode: str) -> None:
        first, warps = by.warp // WARPGROUP * WARPGROUP, self._block.warps
        message = (
            f"{opcode}: warp {by.warp} belongs to the warpgroup of warps {first} to {first + WARPGROUP - 1}, but the "
            f"block has only {counted(warps, 'warp')}"
        )
        self._block.report("warpgroup-start", by, message, what=many("warp", tuple(range(first, warps))))
