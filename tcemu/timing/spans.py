"""What a timeline consists of: spans of warps and units, groups of asynchronous work, and what may be waited for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tcemu.machine.events import Site

#: What a warp, and so a tensor core, can wait for; "epilogue" is what comes after a tensor core's last product.
Cause = Literal[
    "copy", "barrier", "mbarrier", "cluster", "flag", "product", "shared memory", "global memory", "tensor core",
    "issue", "epilogue",
]  # fmt: skip
Unit = Literal["warp", "tensor core", "copy engine"]


class Span(NamedTuple):
    """Something that took time: an operation of a warp or a unit, or a wait of a warp.

    Times are in clock cycles since the launch began.

    >>> from tcemu.timing import Timeline
    >>> timeline = Timeline()
    >>> result = tcemu.launch(lambda warp: warp.bar_sync(), block=64, observers=[timeline])
    >>> [(span.number, span.what, span.waits) for span in timeline.spans]
    [(0, 'plain', False), (1, 'plain', False), (0, 'barrier', True), (1, 'barrier', True)]
    """

    unit: Unit
    #: Of the warp or of the tensor core's sub-partition; 0 for the copy engine.
    number: int
    start: float
    end: float
    #: The kind of operation or, if it `waits`, what was waited for: a Cause.
    what: str
    opcode: str
    site: Site
    block: int
    #: The warp that issued it.
    warp: int
    waits: bool = False
    #: Of a wait: the block and the warp that ended it, if a warp did.
    ender: tuple[int, int] | None = None

    @property
    def named(self) -> str:
        """What it did or waited for; of a wait that another block ended, with that block: "flag of block 3"."""
        return f"{self.what} of block {self.ender[0]}" if self.ender and self.ender[0] != self.block else self.what


class Group(NamedTuple):
    """A group of asynchronous work, or a phase of an mbarrier that copies end on; times in clock cycles.

    >>> from tcemu.timing import Timeline
    >>> def copying(warp, source):
    ...     warp.cp_async(16 * warp.laneid, source.at(4 * warp.laneid), 16)
    ...     warp.cp_async_commit_group()
    ...     warp.cp_async_wait_group(0)
    >>> timeline = Timeline()
    >>> result = tcemu.launch(copying, args=(np.zeros(128, np.float32),), shared=512, observers=[timeline])
    >>> (group,) = timeline.groups
    >>> group.kind, group.issued < group.committed < group.completed <= group.waited
    ('cp.async', True)
    """

    kind: Literal["cp.async", "bulk", "wgmma", "mbarrier", "barrier", "cluster", "flag"]
    #: The warp, for wgmma the warpgroup, for a phase the mbarrier's address.
    owner: int
    number: int
    block: int
    #: When its first operation was issued, and when it was committed (-1: it has no commit).
    issued: float
    committed: float
    #: When its last operation had ended, and when the first wait for it returned (-1: there was none).
    completed: float
    waited: float


@dataclass
class Laid:
    """What one SM did."""

    spans: list[Span] = field(default_factory=list)
    #: Start and end of each block, by its number.
    blocks: dict[int, tuple[float, float]] = field(default_factory=dict)
    end: float = 0.0
