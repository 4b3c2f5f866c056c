"""Where the blocks of a function lead: sets of blocks, a bit for each.

The blocks behind an operation are those where lanes certainly come after it and from where none gets back to it. Lanes
that are in such a block have left the operation out: others that wait for them there wait in vain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tcemu.simt.steps import Block, Branch, Leave

#: What follows a block, if lanes leave the function there.
_OUT = -1
#: Operations that may end the kernel for their lanes.
_LEAVING = ("call", "trap")


def behind(blocks: Sequence[Block], tables: Iterable[int]) -> list[int]:
    """By the number of a block: the blocks behind it, as bits. Those that do nothing but lead to the end do not count.

    `tables` are the blocks that indirect branches go to.
    """
    anywhere = tuple(tables)
    follows = [_follow(number, block, anywhere) for number, block in enumerate(blocks)]
    ends, reached, surely = _ends(follows), _reached(follows), _surely(follows)
    works = sum(1 << number for number, block in enumerate(blocks) if block.steps or block.operation)
    return [
        sum(
            1 << each
            for each in bits(surely[number] & works & ends & ~(1 << number))
            if not reached[each] >> number & 1
        )
        for number in range(len(blocks))
    ]


def endless(blocks: Sequence[Block], tables: Iterable[int]) -> int:
    """The blocks from which no lane leaves the function, by itself or in a function that it calls."""
    anywhere = tuple(tables)
    follows = [_follow(number, block, anywhere) for number, block in enumerate(blocks)]
    for number, block in enumerate(blocks):
        if block.operation is not None and block.operation.opcode.startswith(_LEAVING):
            follows[number] += (_OUT,)
    return (1 << len(blocks)) - 1 & ~_ends(follows)


def bits(mask: int) -> Iterable[int]:
    """The numbers of the bits that are set, in order."""
    while mask:
        least = mask & -mask
        yield least.bit_length() - 1
        mask ^= least


def _follow(number: int, block: Block, anywhere: tuple[int, ...]) -> tuple[int, ...]:
    """The blocks that may come next."""
    ending = block.ending
    if isinstance(ending, Branch):
        return (ending.target,) if ending.guard is None else (ending.target, number + 1)
    if isinstance(ending, Leave):
        return (_OUT,) if ending.guard is None else (_OUT, number + 1)
    if block.operation is not None and block.operation.opcode.startswith("brx"):
        return anywhere
    return (number + 1,)


def _ends(follows: Sequence[tuple[int, ...]]) -> int:
    """The blocks from which lanes can leave the function."""
    found, before = 0, -1
    while found != before:
        before = found
        for number in reversed(range(len(follows))):
            if any(each == _OUT or found >> each & 1 for each in follows[number]):
                found |= 1 << number
    return found


def _reached(follows: Sequence[tuple[int, ...]]) -> list[int]:
    """The blocks that lanes may come to from each block."""
    found, before = [0] * len(follows), [-1]
    while found != before:
        before = list(found)
        for number in reversed(range(len(follows))):
            for each in follows[number]:
                if each != _OUT:
                    found[number] |= 1 << each | found[each]
    return found


def _surely(follows: Sequence[tuple[int, ...]]) -> list[int]:
    """The blocks that lanes come to from each block, whichever way they go: its postdominators, and itself."""
    found, before = [(1 << len(follows)) - 1] * len(follows), [0]
    while found != before:
        before = list(found)
        for number in reversed(range(len(follows))):
            common = -1
            for each in follows[number]:
                common &= 0 if each == _OUT else found[each]
            found[number] = (common if follows[number] else 0) | 1 << number
    return found
