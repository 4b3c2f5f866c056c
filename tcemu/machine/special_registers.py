"""PTX's special registers, under their names without the %: the attributes of a warp (PTX ISA 9.1, chapter 10)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from tcemu.machine.block import Index3
from tcemu.machine.core import Core
from tcemu.machine.lanes import Lanes, fixed, lanes
from tcemu.machine.masks import FULL, LANES
from tcemu.machine.registers import WARP

#: Shared memory is allocated in multiples of this, and the system reserves as much of it for each block: bytes.
_UNIT, _RESERVED = 128, 1024


class SpecialRegisters:
    """The registers with a warp's place in the grid, the size of its block's memory, and clocks.

    A register that is the same in all lanes is a number, or a tuple (x, y, z); any other is an array (32,). Where
    hardware leaves a value open, this machine returns one that hardware could return, and always the same.

    >>> def place(warp, out):
    ...     before = warp.clock64
    ...     below = warp.lanemask_lt & 0b1111  # which of the lanes 0 to 3 come before each lane
    ...     warp.st_global(out.at(warp.laneid), below)
    ...     assert before < warp.clock64
    ...     assert (warp.ctaid, warp.smid, warp.dynamic_smem_size) == ((0, 0, 0), 0, 64)
    >>> out = np.zeros(32, np.uint32)
    >>> _ = tcemu.launch(place, args=(out,), shared=64)
    >>> out[:5]
    array([ 0,  1,  3,  7, 15], dtype=uint32)
    """

    def __init__(self, core: Core) -> None:
        #: the warp as the machine and its front ends see it
        self.core = core

    # ------------------------------------------------------------------------------- the place in the grid

    @property
    def ctaid(self) -> Index3:
        """%ctaid: the position of the block in the grid, (x, y, z)."""
        return self.core.block.index

    @property
    def nctaid(self) -> Index3:
        """%nctaid: the number of blocks in the grid, (x, y, z)."""
        return self.core.block.shape.grid

    @property
    def ntid(self) -> Index3:
        """%ntid: the number of threads in a block, (x, y, z)."""
        return self.core.block.shape.block

    @property
    def tid(self) -> tuple[Lanes, Lanes, Lanes]:
        """%tid: the position of each lane in its block, three arrays x, y and z (32,)."""
        x, y, _ = self.ntid
        threads = self.threads
        return fixed(threads % x), fixed(threads // x % y), fixed(threads // (x * y))

    @property
    def laneid(self) -> Lanes:
        """%laneid: 0 to 31, (32,)."""
        return lanes(LANES)

    @property
    def warpid(self) -> int:
        """%warpid: the number of the warp in its block."""
        return self.core.index

    @property
    def nwarpid(self) -> int:
        """%nwarpid: the number of warps in the block; the last one may be only partly full."""
        return self.core.block.warps

    @property
    def cluster_ctarank(self) -> int:
        """%cluster_ctarank: the rank of the block in its cluster, with x as the fastest dimension, then y, then z."""
        return self.core.block.rank

    @property
    def cluster_nctarank(self) -> int:
        """%cluster_nctarank: the number of blocks in the cluster."""
        return self.core.block.shape.ranks

    @property
    def cluster_ctaid(self) -> Index3:
        """%cluster_ctaid: the position of the block in its cluster, (x, y, z)."""
        return self.core.block.cluster_ctaid

    @property
    def cluster_nctaid(self) -> Index3:
        """%cluster_nctaid: the number of blocks in a cluster, (x, y, z)."""
        return self.core.block.shape.cluster or (1, 1, 1)

    @property
    def clusterid(self) -> Index3:
        """%clusterid: the position of the cluster among those of the grid, (x, y, z)."""
        return self.core.block.cluster.index

    @property
    def nclusterid(self) -> Index3:
        """%nclusterid: the number of clusters in the grid, (x, y, z)."""
        return self.core.block.shape.clusters

    @property
    def is_explicit_cluster(self) -> bool:
        """%is_explicit_cluster: whether the launch has clusters; without them, each block is a cluster of its own."""
        return self.core.block.shape.cluster is not None

    @property
    def threads(self) -> Lanes:
        """The number of each lane in its block, (32,): %tid with x as the fastest dimension, then y, then z."""
        return _threads(self.core.index)

    @property
    def warpgroup(self) -> int:
        """The number of the warpgroup: four consecutive warps that start at a multiple of four."""
        return self.core.index // 4

    @property
    def gridid(self) -> int:
        """%gridid: the number of the launch in its stream, from 1 on; a launch outside a stream is the first."""
        return self.core.block.grid.launch + 1

    @property
    def current_graph_exec(self) -> int:
        """%current_graph_exec: 0, because no launch belongs to a graph."""
        return 0

    # ------------------------------------------------------------------------------- lanes

    @property
    def lanemask_eq(self) -> Lanes:
        """%lanemask_eq: the bit of each lane, uint32 (32,)."""
        return _BITS

    @property
    def lanemask_lt(self) -> Lanes:
        """%lanemask_lt: the bits of the lanes before each lane, uint32 (32,)."""
        return _BEFORE

    @property
    def lanemask_le(self) -> Lanes:
        """%lanemask_le: the bits of the lanes up to each lane, uint32 (32,)."""
        return fixed(_BEFORE | _BITS)

    @property
    def lanemask_gt(self) -> Lanes:
        """%lanemask_gt: the bits of the lanes after each lane, uint32 (32,)."""
        return fixed(~(_BEFORE | _BITS))

    @property
    def lanemask_ge(self) -> Lanes:
        """%lanemask_ge: the bits of the lanes from each lane on, uint32 (32,)."""
        return fixed(~_BEFORE)

    # ------------------------------------------------------------------------------- the multiprocessor

    @property
    def smid(self) -> int:
        """%smid: the number of the multiprocessor, 0 to %nsmid - 1.

        Hardware leaves it open, and may move a block. Here each block gets the next one, so that concurrent blocks
        are spread as widely as possible.
        """
        return self.core.block.number % self.nsmid

    @property
    def nsmid(self) -> int:
        """%nsmid: the number of multiprocessors: as many as there are blocks in flight (tcemu.launch, resident)."""
        return self.core.block.grid.resident

    @property
    def dynamic_smem_size(self) -> int:
        """%dynamic_smem_size: the bytes of shared memory that the launch gives to each block (tcemu.launch, shared)."""
        return self.core.block.shape.shared

    @property
    def total_smem_size(self) -> int:
        """%total_smem_size: the same, rounded up to the unit in which shared memory is allocated, 128 bytes."""
        return -(-self.dynamic_smem_size // _UNIT) * _UNIT

    @property
    def aggr_smem_size(self) -> int:
        """%aggr_smem_size: %total_smem_size and the 1024 bytes that the system reserves for each block."""
        return self.total_smem_size + _RESERVED

    # ------------------------------------------------------------------------------- clocks

    @property
    def clock64(self) -> int:
        """%clock64: a counter of cycles, one for the whole launch.

        Hardware says only that it grows. Here time does not pass: the counter grows by one with each instruction of
        any warp and with each reading of a clock. tcemu.timing estimates cycles.
        """
        return self.core.block.grid.clock()

    @property
    def clock(self) -> int:
        """%clock: the lower 32 bits of %clock64."""
        return self.clock64 & FULL

    @property
    def clock_hi(self) -> int:
        """%clock_hi: the upper 32 bits of %clock64."""
        return self.clock64 >> 32

    @property
    def globaltimer(self) -> int:
        """%globaltimer: nanoseconds, on hardware in steps that may be long; here it counts as %clock64 does."""
        return self.clock64

    @property
    def globaltimer_lo(self) -> int:
        """%globaltimer_lo: the lower 32 bits of %globaltimer."""
        return self.globaltimer & FULL

    @property
    def globaltimer_hi(self) -> int:
        """%globaltimer_hi: the upper 32 bits of %globaltimer."""
        return self.globaltimer >> 32


@lru_cache(maxsize=64)
def _threads(warp: int) -> Lanes:
    return fixed(LANES + WARP * warp)


_BITS = fixed(np.uint32(1) << LANES.astype(np.uint32))
_BEFORE = fixed(_BITS - np.uint32(1))
