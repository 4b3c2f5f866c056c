"""Orders wgmma.mma_async with accesses to its registers and memory (PTX ISA 9.1, 9.7.15.7 and 9.7.13.4).

    wgmma.fence.sync.aligned            orders accesses to registers by the warpgroup and by its wgmma.mma_async
    wgmma.commit_group.sync.aligned     commits the wgmma.mma_async so far as a group
    wgmma.wait_group.sync.aligned N     waits until at most N groups are pending
    fence.proxy.async                   orders ld and st with asynchronous accesses to memory

None of them has registers or computes anything, and none has a meaning outside a kernel, so tcemu.run rejects them. In
a kernel the machine executes them; their facts say how many lanes execute one together, and which spaces a proxy fence
orders.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tcemu.instructions.facts import Facts
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.rows import Rows, vocabulary
from tcemu.instructions.spelling import Spelling, Words


def _family(name: str, rest: str, section: str, rows: list[Rows], **fields: Any) -> Family:
    """The family called `name`: its first word is the mnemonic, its second distinguishes it from the others."""
    mnemonic, word, *_ = name.split(".")

    def make(words: Words, row: Rows, opcode: str) -> Instruction:
        return Instruction(opcode, name, section, Shape(), row.gate, {}, {}, words, row.facts)

    fields = {"mnemonic": mnemonic, "distinguishing": frozenset({word}), **fields}
    return Family(name, section, Spelling(name + rest, vocabulary(rows)), tuple(rows), make, **fields)


_WARPGROUP, _THREAD = Facts(lanes=128), Facts(lanes=1)

FENCE = _family(
    "wgmma.fence",
    ".sync.aligned",
    "9.7.15.7.1",
    [Rows({}, "8.0", "sm_90a", _WARPGROUP)],
    signature="=",
    about="orders accesses to registers by a warpgroup and by its wgmma.mma_async",
    rules=(
        "All four warps of the warpgroup execute it before their first wgmma.mma_async.",
        "They execute it again between any access to registers and a wgmma.mma_async that uses them as D or A.",
        "It is not needed between wgmma.mma_async of the same shape that add to the same D.",
    ),
)
COMMIT = _family(
    "wgmma.commit_group",
    ".sync.aligned",
    "9.7.15.7.2",
    [Rows({}, "8.0", "sm_90a", _WARPGROUP)],
    signature="=",
    about="commits a warpgroup's wgmma.mma_async since its last group as a new group",
    rules=("A group may be empty. wgmma.wait_group counts back from the latest group.",),
)
WAIT = _family(
    "wgmma.wait_group",
    ".sync.aligned",
    "9.7.15.7.3",
    [Rows({}, "8.0", "sm_90a", _WARPGROUP)],
    signature="= N",
    about="waits until at most N groups of a warpgroup are pending",
    rules=(
        "The latest N groups may still be pending; all earlier ones have completed. With N = 0, all have.",
        "Until a wait covers a wgmma.mma_async, its registers of D and A must not be read or written.",
        "Nor may its tiles in shared memory be written before that.",
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
    distinguishing=frozenset({"async"}),
    signature="=",
    about="orders a thread's ordinary accesses to memory with asynchronous ones",
    rules=(
        "wgmma.mma_async and bulk copies see what a thread wrote with st only after this fence in that thread.",
        "If another thread starts them, a barrier must follow the fence.",
        "A space restricts it: .shared::cta to the block's shared memory, .shared::cluster to that of the cluster.",
    ),
)
