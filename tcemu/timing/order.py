"""The order in which a warp's operations issue: a compiler moves loads from shared memory ahead of products.

A kernel may load an operand right before the product that needs it. nvcc does not leave it there: between one
synchronization, copy or store and the next, it issues loads from shared memory as early as it can, ahead of products
and arithmetic that they do not depend on. Everything else stays in the kernel's order; so do loads from global memory,
which nvcc leaves in their iteration of a loop over K. A kernel in PTX shows where an iteration begins, so there they go
ahead of its arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence

from tcemu.timing.operations import Op

#: A warp has six scoreboards, and each tracks one load's result: no more loads than that are ahead.
SCOREBOARDS = 6


def issue_order(ops: Sequence[Op]) -> list[int]:
    """The numbers of a warp's operations, in issue order."""
    order: list[int] = []
    first = 0
    for number, op in enumerate(ops):
        if not (_loads(op) or op.kind in ("mma", "arithmetic")):
            order += [*_ahead(ops, range(first, number)), number]
            first = number + 1
    return order + _ahead(ops, range(first, len(ops)))


def _loads(op: Op) -> bool:
    """Whether this is a load into registers that orders nothing: from shared memory, or in a known iteration."""
    known = op.kind == "shared" or (op.kind == "global" and op.again is not None and op.flag < 0)
    return known and not (op.writes or op.gives or op.waits)


def _ahead(ops: Sequence[Op], region: range) -> list[int]:
    """The operations of a region without synchronization: each load where it can issue first."""
    loads = [number for number in region if _loads(ops[number])]
    place = dict.fromkeys(loads, region.start - 1)
    if not loads or loads[-1] - region.start < len(loads):  # none, or nothing before them
        return list(region)
    used: dict[int, int] = {}  # by load, the first operation that needs its result
    floors: dict[int, int] = {}  # by load from global memory, the operation that it has to follow
    floor = region.start - 1
    for number in region:
        for read in ops[number].reads:
            used.setdefault(read, number)
        floor = number if ops[number].kind == "mma" else number - 1 if ops[number].again else floor
        if ops[number].kind == "global":
            floors[number] = floor
    for count, number in enumerate(loads):
        freed = used.get(loads[count - SCOREBOARDS], -1) if count >= SCOREBOARDS else -1
        after = max((place.get(read, read) for read in ops[number].reads), default=-1)
        place[number] = min(max(floors.get(number, region.start - 1), freed, after), number)
    # a load follows the operation at its place, and loads there keep their order
    return sorted(region, key=lambda number: (place.get(number, number), number in place, number))
