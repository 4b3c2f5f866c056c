"""Rules for what the hardware refuses: columns, lanes and descriptors of tcgen05, and pairs of blocks."""

from __future__ import annotations

from typing import Any

from tcemu.sanitizer.rules import Rule, breaks, rules
from tcemu.sanitizer.rules.tcgen05 import BAR, IDESC, SLOT, A, B, commit, free, ready

rules(
    Rule(
        "tcgen05-allocation",
        "columns of Tensor Memory allocated or freed against the rules",
        "9.7.16.7.1",
        "A block allocates a power of two of columns at a time, from 32 to 512, never more than the time before, and "
        "none after tcgen05.relinquish_alloc_permit. It frees exactly what each tcgen05.alloc gave it, once, before it "
        "exits.",
        "Round the number of columns up to a power of two from 32 to 512, and allocate the most first, before "
        "tcgen05.relinquish_alloc_permit. Free each allocation once, with its address and its number of columns, "
        "before the block exits.",
    ),
    Rule(
        "tcgen05-columns",
        "columns of Tensor Memory that the block has not allocated",
        "9.7.16.1.2",
        "A block may use the columns that it has allocated, until it frees them, and no others.",
        "Allocate columns for all operands: D of f32 takes N, A of 16 bits in Tensor Memory takes K/2. Use them before "
        "tcgen05.dealloc.",
    ),
    Rule(
        "tcgen05-lanes",
        "a warp uses lanes of Tensor Memory that it does not reach",
        "9.7.16.8.1",
        "With tcgen05.ld and tcgen05.st, warp w reaches the 32 lanes from 32 (w % 4) on. The lane is in bits 31:16 of "
        "the address; tcgen05.alloc returns lane 0.",
        "Add (32 * (warp % 4)) << 16 to the address, and give each warp its own quarter of the rows.",
    ),
    Rule(
        "tcgen05-descriptor",
        "a descriptor that the tcgen05 instruction does not take",
        "9.7.16.4",
        "The instruction descriptor must have the sparsity, the types and the shape of the opcode, and a matrix "
        "descriptor has 001 in bits 48:46, which tells it from one of wgmma. The assembler sees neither; the hardware "
        "stops the kernel.",
        "Build the one with tcemu.layouts.instruction_descriptor, for the same kind, and the other with "
        "tcemu.layouts.tcgen05_descriptor.",
    ),
    Rule(
        "tcgen05-pair",
        "an instruction of a pair of blocks without its peer",
        "9.7.16.5.1",
        "With .cta_group::2, both blocks of a pair must be there: both allocate and free the same columns, and neither "
        "may do so before the other runs or after it may have exited. The leader, the block with the even rank, issues "
        "mma, cp and shift for both. All tcgen05 instructions of a kernel have the same .cta_group.",
        "Launch a cluster, let both blocks meet at barrier.cluster before tcgen05.alloc and before tcgen05.dealloc, "
        "let only the leader issue the operations, and give all of them the same .cta_group.",
    ),
)


@breaks("tcgen05-allocation", target="sm_100a", block=32)
def columns_that_are_not_a_power_of_two(warp: Any, g: Any) -> None:
    warp.tcgen05_alloc(SLOT, 48)  # <- reported
    warp.bar_warp_sync()
    warp.tcgen05_dealloc(int(warp.ld_shared(SLOT)[0, 0]), 48)


@breaks("tcgen05-columns", target="sm_100a", block=32)
def a_load_past_the_allocated_columns(warp: Any, g: Any) -> None:
    warp.tcgen05_alloc(SLOT, 32)
    warp.bar_warp_sync()
    d = int(warp.ld_shared(SLOT)[0, 0])
    warp.tcgen05_ld(d + 32, "32x32b.x8")  # <- reported
    warp.tcgen05_wait_ld()
    warp.tcgen05_dealloc(d, 32)


@breaks("tcgen05-lanes", target="sm_100a")
def every_warp_stores_to_lane_0(warp: Any, g: Any) -> None:
    d = ready(warp)
    warp.tcgen05_st(d, 0, "32x32b.x8")  # <- reported
    warp.tcgen05_wait_st()
    free(warp, d)


@breaks("tcgen05-descriptor", target="sm_100a")
def a_descriptor_of_wgmma(warp: Any, g: Any) -> None:
    d = ready(warp)
    if warp.warpid == 0:
        with warp.only(warp.elect_sync()):
            warp.tcgen05_mma("f16", d, A & ~(1 << 46), B, IDESC, 0)  # <- reported
    commit(warp)
    warp.mbarrier_wait(BAR, 0)
    free(warp, d)


@breaks("tcgen05-pair", target="sm_100a", grid=2, block=32, cluster=2)
def the_follower_copies(warp: Any, g: Any) -> None:
    both_run(warp)
    warp.tcgen05_alloc(SLOT, 32, cta_group=2)
    both_run(warp)
    d = int(warp.ld_shared(SLOT)[0, 0])
    with warp.only((warp.laneid == 0) & (warp.cluster_ctarank == 1)):
        warp.tcgen05_cp(d, A, "128x256b", cta_group=2)  # <- reported
    both_run(warp)
    warp.tcgen05_dealloc(d, 32, cta_group=2)


def both_run(warp: Any) -> None:
    """All threads of the cluster meet."""
    warp.tcgen05_fence_before_thread_sync()
    warp.barrier_cluster_arrive()
    warp.barrier_cluster_wait()
    warp.tcgen05_fence_after_thread_sync()
