"""Where the warps of a launch are that has stopped before its end, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from tcemu.errors import ranges
from tcemu.machine.events import Waiting
from tcemu.machine.registers import WARP
from tcemu.machine.sites import callers_of

if TYPE_CHECKING:
    from tcemu.machine.block import Block
    from tcemu.machine.core import Core
    from tcemu.machine.scheduler import Left


def alike(blocks: Iterable[tuple[Block, Sequence[str]]], what: str) -> Iterator[Sequence[str]]:
    """Lines about blocks, once for all blocks with the same lines; `what` says what they do."""
    groups: dict[tuple[str, ...], list[Block]] = {}
    for block, description in blocks:
        groups.setdefault(tuple(description), []).append(block)
    for lines, (first, *others) in groups.items():
        who = f"block {first.index}" if not others else f"{len(others) + 1} blocks, {first.index} among them,"
        yield [f"{who} {what}:", *lines]


def came(cores: Sequence[Core], left: Iterable[Left]) -> Iterator[str]:
    """Lines about the warps of a block that run: how far they have come."""
    warps: dict[str, list[int]] = {}
    for each in left:
        if not each.waits:
            how = f"came to {cores[each.warp].latest}" if each.begun else "had not begun"
            warps.setdefault(how, []).append(each.warp)
    for how, numbers in warps.items():
        yield f"  {named(numbers)} {how}"


def named(warps: Sequence[int]) -> str:
    """``warps 0 to 3``."""
    return f"warp{'s' * (len(warps) > 1)} {ranges(warps)}"


def gone(block: Block) -> Iterator[str]:
    """A line about the warps of a block that have exited."""
    if block.exited:
        yield f"  {named(sorted(block.exited))} reached the end of the kernel"


def waiting(waits: Iterable[Waiting]) -> Iterator[str]:
    """Lines about the warps of a block that wait, and about groups of lanes of a warp."""
    alike: dict[tuple[str, str], list[int]] = {}
    several = list(waits)
    groups = Counter(each.by.warp for each in several)
    for each in several:
        lines = [each.by.site, *callers_of(each.by)]
        line = ", called at ".join(map(str, lines)) + "," * (len(lines) > 1)
        if groups[each.by.warp] > 1:
            lanes = tuple(lane for lane in range(WARP) if each.by.active >> lane & 1)
            one = len(lanes) == 1
            who = f"warp {each.by.warp}, lane{'s' * (not one)} {ranges(lanes)},"
            yield f"  {who} wait{'s' * one} since {line} for {each.what}"
        else:
            alike.setdefault((each.what, line), []).append(each.by.warp)
    for (what, line), numbers in alike.items():
        yield f"  {named(numbers)} wait{'s' * (len(numbers) == 1)} since {line} for {what}"
