"""What orders wgmma.mma_async, its registers and the memory that it reads (PTX ISA 9.1, 9.7.15.7 and 9.7.13.4).

    wgmma.fence.sync.aligned            registers, between the warpgroup and its wgmma.mma_async
    wgmma.commit_group.sync.aligned     the wgmma.mma_async so far become a group
    wgmma.wait_group.sync.aligned N     until at most N groups are under way
    fence.proxy.async                   memory, between ld and st and what reads it asynchronously

None of them has registers or computes anything, and alone none means anything: tcemu.run refuses them. In a kernel
the machine executes them; their facts say how many lanes execute one together, and which spaces a proxy fence orders.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcemu.instructions.facts import Facts
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.rows import Rows, vocabulary
from tcemu.instructions.spelling import Spelling, Words


def _family(name: str, rest: str, section: str, rows: list[Rows], **told: Any) -> Family:
    """The family of `name`, whose first word is the mnemonic and whose second tells it from others."""
    mnemonic, mark, *_ = name.split(".")

    def make(words: Words, row: Rows, opcode: str) -> Instruction:
        return Instruction(opcode, name, section, Shape(), row.gate, {}, {}, words, row.facts)

    told = {"mnemonic": mnemonic, "marks": frozenset({mark}), **told}
    return Family(name, section, Spelling(name + rest, vocabulary(rows)), tuple(rows), make, **told)


_WARPGROUP, _THREAD = Facts(lanes=128), Facts(lanes=1)

FENCE = _family(
    "wgmma.fence",
    ".sync.aligned",
    "9.7.15.7.1",
    [Rows({}, "8.0", "sm_90a", _WARPGROUP)],
    signature="=",
    about="registers ordered between a warpgroup and its wgmma.mma_async",
    rules=(
        "All four warps of the warpgroup execute it before their first wgmma.mma_async.",
        "So they do between any access to registers and a wgmma.mma_async that takes them as D or as A.",
        "Between wgmma.mma_async of one shape that add to the same D it is not needed.",
    ),
)
COMMIT = _family(
    "wgmma.commit_group",
    ".sync.aligned",
    "9.7.15.7.2",
    [Rows({}, "8.0", "sm_90a", _WARPGROUP)],
    signature="=",
    about="the wgmma.mma_async of a warpgroup since its last group become a group",
    rules=("A group may be empty. wgmma.wait_group counts groups from the latest on.",),
)
WAIT = _family(
    "wgmma.wait_group",
    ".sync.aligned",
    "9.7.15.7.3",
    [Rows({}, "8.0", "sm_90a", _WARPGROUP)],
    signature="= N",
    about="waits until at most N groups of a warpgroup are under way",
    rules=(
        "The latest N groups may go on; all before them have ended. With N = 0 all have.",
        "Until a wait covers a wgmma.mma_async, its registers of D and A are neither read nor written.",
        "Nor are its tiles in shared memory written before that.",
    ),
)
PROXY = _family(
    "fence.proxy.async",
    "[.{space}]",
    "9.7.13.4",
    [
        Rows({"space": ("",)}, "8.0", "sm_90", replace(_THREAD, spaces=("shared", "global"))),
        Rows({"space": ("shared::cta", "shared::cluster")}, "8.0", "sm_90", replace(_THREAD, spaces=("shared",))),
        Rows({"space": ("global",)}, "8.0", "sm_90", replace(_THREAD, spaces=("global",))),
    ],
    stems=("fence.proxy",),
    marks=frozenset({"async"}),
    signature="=",
    about="a thread's memory accesses ordered between ld, st and their like and what is asynchronous",
    rules=(
        "wgmma.mma_async and bulk copies see what a thread wrote with st only after that thread's fence.",
        "Where another thread starts them, a barrier follows the fence.",
        "A space restricts it: .shared::cta to the block's shared memory, .shared::cluster to that of the cluster.",
    ),
)
