"""What orders wgmma.mma_async, its registers and the memory that it reads (PTX ISA 9.1, 9.7.15.7 and 9.7.13.4).

    wgmma.fence.sync.aligned            registers, between the warpgroup and its wgmma.mma_async
    wgmma.commit_group.sync.aligned     the wgmma.mma_async so far become a group
    wgmma.wait_group.sync.aligned N     until at most N groups are under way
    fence.proxy.async                   memory, between ld and st and what reads it asynchronously

None of them has registers or computes anything, and alone none means anything: tcemu.run refuses them. In a kernel
they are the machine's business, to which `facts` tell what it needs: "lanes" that execute one together, "spaces" that a
proxy fence orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from tcemu.errors import OperandError, briefly, listing
from tcemu.instructions.family import Family
from tcemu.instructions.instruction import Instruction, Shape
from tcemu.instructions.rows import Rows, vocabulary
from tcemu.instructions.spelling import Spelling, Words

#: What ptxas takes for N: any number that is not negative, as a signed word of 64 bits.
_MOST = (1 << 63) - 1


def immediates(instruction: Instruction, operands: Sequence[Any]) -> tuple[int, ...]:
    """The immediates that it takes: (N,) of wgmma.wait_group, () of the others. Raises OperandError for anything else.

    N is an integer from 0 on: so many groups of the warpgroup may still be under way (PTX ISA 9.7.15.7.3).
    """
    names = instruction.facts.get("immediates", ())
    if len(operands) != len(names):
        told = f"one operand, {listing(names, 'and')}" if names else "no operands"
        raise OperandError(f"{instruction} takes {told}; got {len(operands)} (PTX ISA {instruction.section})")
    for name, given in zip(names, operands, strict=True):
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or not 0 <= given <= _MOST:
            raise OperandError(
                f"{instruction}: {name} is an immediate, an integer from 0 on; got {briefly(given)} "
                f"(PTX ISA {instruction.section})"
            )
    return tuple(int(given) for given in operands)


def execute(instruction: Instruction, _: Any, operands: Sequence[Any], __: Mapping[str, Any]) -> NoReturn:
    """Refuse it, after its operands: alone it orders nothing."""
    immediates(instruction, operands)
    raise OperandError(
        f"{instruction} orders the instructions around it, and tcemu.run executes one, which is complete when it "
        f"returns: there is nothing to order. It belongs in a kernel, which tcemu.launch runs "
        f"(PTX ISA {instruction.section})"
    )


def _family(name: str, rest: str, section: str, rows: list[Rows], **told: Any) -> Family:
    """The family of `name`, whose first word is the mnemonic and whose second tells it from others."""
    mnemonic, mark, *_ = name.split(".")

    def make(words: Words, row: Rows, opcode: str) -> Instruction:
        return Instruction(opcode, name, section, Shape(), row.gate, {}, {}, words, row.facts)

    told |= {"mnemonic": mnemonic, "marks": frozenset({mark}), "computes": False}
    return Family.of(name, section, Spelling(name + rest, vocabulary(rows)), rows, make, execute, **told)


_WARPGROUP, _THREAD = {"lanes": 128}, {"lanes": 1}

FENCE = _family(
    "wgmma.fence",
    ".sync.aligned",
    "9.7.15.7.1",
    [Rows({}, "8.0", "sm_90a", _WARPGROUP)],
    operands="=",
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
    operands="=",
    about="the wgmma.mma_async of a warpgroup since its last group become a group",
    rules=("A group may be empty. wgmma.wait_group counts groups from the latest on.",),
)
WAIT = _family(
    "wgmma.wait_group",
    ".sync.aligned",
    "9.7.15.7.3",
    [Rows({}, "8.0", "sm_90a", {**_WARPGROUP, "immediates": ("N",)})],
    operands="= N",
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
        Rows({"space": ("",)}, "8.0", "sm_90", {**_THREAD, "spaces": ("shared", "global")}),
        Rows({"space": ("shared::cta", "shared::cluster")}, "8.0", "sm_90", {**_THREAD, "spaces": ("shared",)}),
        Rows({"space": ("global",)}, "8.0", "sm_90", {**_THREAD, "spaces": ("global",)}),
    ],
    operands="=",
    about="a thread's memory accesses ordered between ld, st and their like and what is asynchronous",
    rules=(
        "wgmma.mma_async and bulk copies see what a thread wrote with st only after that thread's fence.",
        "Where another thread starts them, a barrier follows the fence.",
        "A space restricts it: .shared::cta to the block's shared memory, .shared::cluster to that of the cluster.",
    ),
)
