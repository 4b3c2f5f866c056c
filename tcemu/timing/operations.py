"""The operations of a launch's warps and their waits, which a `Recorder` records and a simulation lays out."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from tcemu.instructions import Instruction
from tcemu.machine.events import Site, Stretch

#: What an operation uses; "void": a GPU would not have repeated it as often, so it takes no time.
Kind = Literal["mma", "wgmma", "shared", "global", "copy", "bulk", "arithmetic", "plain", "void"]


class Token(NamedTuple):
    """Something that completes once."""

    kind: Literal["barrier", "mbarrier", "cp.async", "bulk", "wgmma", "cluster", "flag"]
    #: The warp, warpgroup, number of the barrier, address of the mbarrier or flag, or first block of the cluster.
    owner: int
    #: The group, the generation or the phase; of a flag, what was written to it.
    number: int
    #: How often the mbarrier's address has become an mbarrier.
    object: int = 0
    #: The block that owns it; -1 if no block does: a flag in global memory, the barrier of a cluster.
    block: int = -1


@dataclass(slots=True, eq=False)
class Op:
    """One operation of a warp."""

    kind: Kind
    #: The opcode; "arithmetic" for what the kernel writes into registers, by instructions that are not known.
    opcode: str
    site: Site
    instruction: Instruction | None = None
    #: Earlier operations of this warp whose results it reads, by number.
    reads: tuple[int, ...] = ()
    #: Wavefronts of shared memory, and how few they could be.
    wavefronts: int = 0
    least: int = 0
    #: Bytes from or to global memory, or of each copy; sectors of 32 bytes that the accesses touch.
    bytes: int = 0
    sectors: int = 0
    #: Of a store, lines of 128 bytes.
    lines: int = 0
    writes: bool = False
    #: Copies that it starts, usually one; 0 for all but the first of a multicast.
    copies: list[int] = field(default_factory=list)
    #: Of a tensor copy, the number of its tensor map; -1: it has none.
    map: int = -1
    waits: list[Token] = field(default_factory=list)
    gives: list[Token] = field(default_factory=list)
    #: The group that it commits.
    commits: Token | None = None
    #: Whether it waits until its warp's copies so far have ended before it contributes (cp.async.mbarrier.arrive).
    follows_copies: bool = False
    #: wgmma: how many its warp has issued before; arithmetic: the number of instructions.
    number: int = 0
    #: wgmma: where A is.
    a: Literal["shared", "registers"] = "shared"
    #: Arithmetic of a kernel in PTX: the instructions.
    stretch: Stretch | None = None
    #: Whether a loop has begun again before it; None: of a kernel in Python, which does not show it.
    again: bool | None = None
    #: The address of the flag that it reads or writes; -1 if none.
    flag: int = -1

    @property
    def known(self) -> Instruction:
        """The instruction: all operations have one but the kernel's own arithmetic."""
        assert self.instruction is not None  # noqa: S101 - only events with an instruction are asked for it
        return self.instruction


@dataclass(eq=False)
class BlockTrace:
    """The operations of one block's warps, in program order."""

    number: int
    threads: int
    shared: int
    warps: list[list[Op]]
    #: The blocks of its cluster; none if the launch has no clusters.
    cluster: tuple[int, ...] = ()
    #: Registers of a thread that hold values at the same time, in the warp with the most; 0 until the block has ended.
    alive: int = 0


@dataclass(eq=False)
class LaunchTrace:
    """All blocks, by number, and the tokens that their operations contribute to and wait for."""

    blocks: dict[int, BlockTrace] = field(default_factory=dict)
    #: How many contributions complete a token.
    expected: Counter[Token] = field(default_factory=Counter)
    #: The tokens that are complete only after another one, whose completion is one of their contributions.
    follows: defaultdict[Token, list[Token]] = field(default_factory=lambda: defaultdict(list))
