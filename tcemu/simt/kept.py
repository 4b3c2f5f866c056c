"""The results of shfl.sync that every lane stores which executes it: in straight code, with no condition in between.

What shfl.sync gives a lane may be undefined, and mostly that does no harm: a reduction uses the results of some lanes
only, behind a condition. Where there is none, all lanes store what they got, or what they have computed from it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tcemu.machine.sites import FrontSite
from tcemu.simt.behind import OUT
from tcemu.simt.dataflow import Part, parts_of

if TYPE_CHECKING:
    from tcemu.simt.program import Program

#: Instructions whose result comes from all their sources: a product with 0 does not, and selp leaves one out.
_WHOLE = ("add.", "sub.", "neg.", "mov.", "cvt.", "xor.", "shl.")
_STORING = ("st.", "red.", "atom.")


def kept(program: Program) -> dict[FrontSite, FrontSite]:
    """By the line of shfl.sync, the line of the store; not if another shfl.sync of the line has none."""
    found: dict[FrontSite, FrontSite | None] = {}
    for number, block in enumerate(program.blocks):
        operation = block.operation
        if operation is not None and operation.opcode.startswith("shfl.sync"):
            site, store = program.sites[operation.number], _store(program, number)
            before = found.get(site, store)
            found[site] = store if before is not None else None
    return {site: store for site, store in found.items() if store is not None}


def _store(program: Program, number: int) -> FrontSite | None:
    """The first store to global memory, in straight code, of what a shfl.sync gives or what comes from it."""
    first, *after = _straight(program, number)
    derived = set(first.writes)
    for part in after:
        opcode = program.opcode(part.number)
        uses = not part.guarded and not derived.isdisjoint(part.reads)
        if uses and opcode.startswith(_STORING) and ".global" in opcode:
            return program.sites[part.number]
        derived -= set(part.writes)
        if uses and not part.begins and opcode.startswith(_WHOLE):
            derived |= set(part.writes)
    return None


def _straight(program: Program, number: int) -> Iterator[Part]:
    """What the instructions of a block do with registers, and those that follow it whatever happens."""
    seen = set[int]()
    while number != OUT and number not in seen:
        seen.add(number)
        yield from parts_of(program, number)
        (number, *others) = program.ways.follows[number]
        if others:
            return
