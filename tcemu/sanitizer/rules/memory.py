"""Rules for memory, registers and mbarriers, and the smallest kernel that breaks each."""

from __future__ import annotations

from typing import Any

import numpy as np

from tcemu.sanitizer.rules import Rule, breaks, rules
from tcemu.sanitizer.rules.parts import barrier

rules(
    Rule(
        "shared-race",
        "a race in shared memory between warps",
        "8.7",
        "If two warps access the same bytes and at least one of them writes, there must be a barrier between the two "
        "accesses.",
        "Put bar.sync between the two accesses, or an mbarrier's arrive and wait.",
    ),
    Rule(
        "global-race",
        "a race in global memory",
        "8.7",
        "If two threads access the same bytes of global memory and at least one of them writes, one access must happen "
        "before the other. Blocks run in any order; only a release in one and an acquire in the other, at the same "
        "location and with a scope that reaches both, order their accesses.",
        "In the thread whose access comes first, execute fence.acq_rel.gpu (__threadfence) after it and then set a "
        "flag or a counter; in the other thread, wait for that in a loop, and then execute a fence. Or use "
        "st.release.gpu and ld.acquire.gpu.",
    ),
    Rule(
        "lane-race",
        "lanes of a warp exchange bytes without bar.warp.sync",
        "9.7.13.2",
        "The lanes of a warp do not run in step. A lane may use what another lane stored only after bar.warp.sync or a "
        "barrier.",
        "Put bar.warp.sync between the two accesses.",
    ),
    Rule(
        "ldmatrix-unsynced",
        "a matrix load reads bytes that were not synchronised",
        "9.7.14.5.15",
        "ldmatrix and wmma.load give each lane bytes that other lanes and warps stored. There must be a barrier "
        "between the stores and the load; within one warp, bar.warp.sync is enough. The .sync in the load's name does "
        "not order the stores.",
        "Put bar.sync before the load, or bar.warp.sync if only the warp's own lanes stored the bytes.",
    ),
    Rule(
        "uninitialised-shared",
        "shared memory read before it was written",
        "5.1.7",
        "The contents of shared memory are undefined when a block starts.",
        "Write all of the bytes before reading them, or do not read them.",
    ),
    Rule(
        "uninitialised-heap",
        "memory from malloc read before it was written",
        "5.1.4",
        "The contents of what malloc returns are undefined.",
        "Write the bytes first; memset(p, 0, bytes) makes zeros of all of them.",
    ),
    Rule(
        "uninitialised-registers",
        "registers read before they were written",
        "5.1.1",
        "The contents of a register are undefined until an instruction writes to it.",
        "Write the registers first. For the first mma_async of a sum, pass scale_d = 0 or an accumulator of zeros.",
    ),
    Rule(
        "out-of-range",
        "an access outside the memory",
        "6.4.1",
        "All bytes of an access must lie inside the memory that the instruction names.",
        "Check the addresses. At an edge, disable the lanes that are outside, or copy with a tensor map, which fills "
        "with zeros.",
    ),
    Rule(
        "stale-load",
        "a strong load that may miss a store, although a later store was seen",
        "8.9.5",
        "volatile and .relaxed order nothing. A thread that finds a flag may still load what another location held "
        "before the flag's thread stored there, unless that thread releases with the flag, or executes a fence between "
        "the two stores; and the reader acquires with its load, or executes a fence between the two loads.",
        "Execute a fence (__threadfence) between the two stores and another between the two loads, or store the flag "
        "with .release and load it with .acquire.",
    ),
    Rule(
        "misaligned",
        "a misaligned address",
        "6.4.1",
        "An address must be a multiple of the number of bytes that a lane accesses there; some instructions require "
        "more.",
        "Align the address, or use a narrower access.",
    ),
    Rule(
        "mbarrier-init",
        "an mbarrier is used before its mbarrier.init is visible",
        "9.7.13.15",
        "mbarrier.init creates an mbarrier object in shared memory. Other threads may use it only after a barrier that "
        "follows the mbarrier.init.",
        "After mbarrier.init, execute fence.mbarrier_init or fence.proxy.async in the same thread, then bar.sync in "
        "all threads, or barrier.cluster in all threads of the cluster if other blocks use the mbarrier.",
    ),
    Rule(
        "mbarrier-init-fence",
        "no fence between mbarrier.init and a bulk copy that completes on the mbarrier",
        "9.7.13.4",
        "mbarrier.init writes through the generic proxy, and bulk copies update the mbarrier through the async proxy. "
        "The thread that executes mbarrier.init must therefore execute fence.mbarrier_init or fence.proxy.async after "
        "it, before the barrier.",
        "After mbarrier.init, execute fence.mbarrier_init in the same thread.",
        "hint",
    ),
    Rule(
        "mbarrier-arrivals",
        "more threads arrive than the phase of an mbarrier expects",
        "9.7.13.15",
        "A phase of an mbarrier takes exactly as many arrivals as mbarrier.init specified. A thread may arrive for the "
        "next phase only when it knows that this one is complete.",
        "Compare the count of mbarrier.init with the threads that arrive, and wait for a phase before arriving again.",
    ),
    Rule(
        "mbarrier-object",
        "the bytes of an mbarrier are used as ordinary memory",
        "9.7.13.15",
        "From mbarrier.init to mbarrier.inval, only mbarrier operations may access the 8 bytes of the mbarrier, and "
        "mbarrier.init must not execute on them again.",
        "Give the mbarrier its own bytes, or execute mbarrier.inval before using them for something else.",
    ),
)

LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"


@breaks("shared-race", block=64)
def two_warps_write_the_same(warp: Any, g: Any) -> None:
    warp.st_shared(4 * warp.laneid, warp.warpid)  # <- reported
    warp.bar_sync()


@breaks("stale-load", grid=2, block=32)
def volatile_data_behind_a_volatile_flag(warp: Any, g: Any) -> None:
    with warp.only(warp.laneid == 0):
        if warp.ctaid[0] == 0:
            for step in range(3):
                warp.st_global(g + 4, step, order="volatile")
                warp.st_global(g, step, order="volatile")
        else:
            for step in range(3):
                while warp.ld_global(g, order="volatile")[0, 0] < step:
                    warp.nanosleep(20)
            warp.ld_global(g + 4, order="volatile")  # <- reported


@breaks("global-race", grid=2, block=32)
def a_block_reads_what_the_other_one_writes(warp: Any, g: Any) -> None:
    if warp.ctaid[0] == 0:
        warp.st_global(g + 4 * warp.laneid, 1)  # <- reported
    else:
        warp.ld_global(g + 4 * warp.laneid)  # <- reported


@breaks("lane-race", block=32)
def lanes_swap_without_a_sync(warp: Any, g: Any) -> None:
    warp.st_shared(4 * warp.laneid, warp.laneid)
    x = warp.ld_shared(4 * (31 - warp.laneid))  # <- reported
    warp.st_global(g + 4 * warp.laneid, x)


@breaks("ldmatrix-unsynced", block=32)
def ldmatrix_behind_a_store(warp: Any, g: Any) -> None:
    warp.st_shared(16 * warp.laneid, 1, "v4.b32")
    warp.run(LDMATRIX, 16 * warp.laneid)  # <- reported


@breaks("uninitialised-shared", block=32)
def a_load_before_any_store(warp: Any, g: Any) -> None:
    x = warp.ld_shared(4 * warp.laneid)  # <- reported
    warp.st_global(g + 4 * warp.laneid, x)


@breaks("uninitialised-registers", block=32)
def registers_never_written(warp: Any, g: Any) -> None:
    x = warp.registers(2)
    warp.st_global(g + 4 * warp.laneid, x[:, 0])  # <- reported


@breaks("out-of-range", block=32)
def past_the_end_of_an_array(warp: Any, g: Any) -> None:
    warp.ld_global(g + g.nbytes - 64 + 4 * warp.laneid)  # <- reported


@breaks("misaligned", block=32)
def a_wide_store_at_narrow_steps(warp: Any, g: Any) -> None:
    warp.st_shared(8 * warp.laneid, 0, "v4.b32")  # <- reported


@breaks("mbarrier-init", block=32)
def other_lanes_wait_on_a_new_mbarrier(warp: Any, g: Any) -> None:
    with warp.only(warp.laneid == 0):
        warp.mbarrier_init(0, 1)
        warp.mbarrier_arrive(0)
    warp.mbarrier_wait(0, 0)  # <- reported


@breaks("mbarrier-init-fence", block=64)
def an_init_that_copies_may_not_see(warp: Any, g: Any) -> None:
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.mbarrier_init(1024, 1)
    warp.bar_sync()
    if warp.warpid == 1:
        with warp.only(warp.laneid == 0):
            warp.mbarrier_arrive_expect_tx(1024, 512)
            warp.cp_async_bulk_shared_global(0, g, 512, 1024)  # <- reported
    warp.mbarrier_wait(1024, 0)


@breaks("mbarrier-arrivals", block=64)
def more_lanes_arrive_than_are_counted(warp: Any, g: Any) -> None:
    barrier(warp, 0, count=2)
    warp.mbarrier_arrive(0)  # <- reported


@breaks("mbarrier-object", block=32)
def a_store_over_an_mbarrier(warp: Any, g: Any) -> None:
    barrier(warp, 64)
    warp.st_shared(4 * warp.laneid, np.uint32(0))  # <- reported
