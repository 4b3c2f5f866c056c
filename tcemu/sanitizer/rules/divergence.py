"""Rules for warps that diverge or wait, and the smallest kernel that breaks each."""

from __future__ import annotations

from typing import Any

from tcemu.sanitizer.rules import Rule, breaks, rules
from tcemu.sanitizer.rules.parts import MMA, ORDINARY, TILES, barrier, ready

rules(
    Rule(
        "aligned-divergent",
        "an .aligned instruction in divergent code",
        "9.7.13.1",
        "All threads of a warp must execute an .aligned instruction together.",
        "Move the instruction out of the branch.",
    ),
    Rule(
        "absent-lanes",
        "lanes that a .sync instruction names or reads do not execute it",
        "9.7.9.6",
        "Every lane that executes a .sync instruction must be in its membermask, and every lane of the membermask must "
        "execute it. What shfl reads from a lane that does not execute it is undefined.",
        "Execute the instruction in all lanes that the membermask names, and in no others.",
    ),
    Rule(
        "warpgroup-divergent",
        "the warps of a warpgroup execute different instructions",
        "9.7.15.1",
        "The four warps of a warpgroup must execute the same wgmma instructions, and the same setmaxnreg, in the same "
        "order.",
        "Make the control flow around a wgmma instruction independent of the warp's number.",
    ),
    Rule(
        "barrier-threads",
        "the count of a barrier does not match the threads that arrive",
        "9.7.13.1",
        "Until a barrier completes, each warp may arrive there once, and every warp that arrives must give the same "
        "number of threads: as many as arrive, 32 for each warp.",
        "Give each barrier the same number everywhere, and use different barriers for groups that meet separately.",
    ),
    Rule(
        "barriers-parted",
        "lanes of one warp wait at different barriers",
        "9.7.13.1",
        "A barrier counts a warp once all of its lanes have arrived there. If some of them arrive at another barrier "
        "meanwhile, neither barrier can count the warp.",
        "Make all lanes of a warp arrive at the same barriers in the same order. Choose a barrier by the number of "
        "the warp, not of the lane.",
    ),
    Rule(
        "setmaxnreg-count",
        "setmaxnreg with an illegal number of registers",
        "9.7.19.5",
        "setmaxnreg.inc requests registers, and setmaxnreg.dec releases some. The operand is not the difference but "
        "the new number, a multiple of 8 from 24 to 256.",
        "Use .inc if the new number is greater than the one the warp has, and .dec if it is smaller.",
    ),
    Rule(
        "exited-threads",
        "waiting for threads that have exited",
        "9.7.13.1",
        "A thread that has exited cannot take part in a barrier or a warpgroup. The manual does not say what happens "
        "if others still need it. On an H100, a barrier with a thread count waits forever, and one without a count "
        "goes on without the thread, as the CUDA guide says of GPUs since Volta.",
        "Keep all threads running until the last barrier, or give the barrier the number of threads that still arrive.",
    ),
    Rule(
        "flag-never-set",
        "a loop waits for a value that no thread writes",
        "8.7",
        "A thread that polls a location continues only when another thread stores to it. If all others have exited or "
        "are waiting themselves, none will.",
        "Store the value that the loop waits for, in a thread that does not wait for this one.",
    ),
    Rule(
        "deadlock",
        "no warp can continue",
        "9.7.13",
        "A waiting warp continues only when what it waits for happens: as many threads must arrive as the barrier or "
        "the mbarrier expects.",
        "Compare the expected counts with the threads that arrive, and the parity of each wait with the phases that "
        "complete.",
    ),
)


@breaks("aligned-divergent", block=32)
def a_barrier_in_half_a_warp(warp: Any, g: Any) -> None:
    with warp.only(warp.laneid < 16):
        warp.bar_sync()  # <- reported


@breaks("absent-lanes", block=32)
def half_a_warp_reads_the_other_half(warp: Any, g: Any) -> None:
    with warp.only(warp.laneid < 16):
        x = warp.shfl_sync("down", warp.laneid, 16)  # <- reported
        warp.st_global(g + 4 * warp.laneid, x)


@breaks("warpgroup-divergent")
def one_warp_leaves_the_commit_out(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    if warp.warpid != 1:
        warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)  # <- reported


@breaks("barrier-threads")
def a_barrier_with_two_counts(warp: Any, g: Any) -> None:
    warp.bar_sync(1, 96 if warp.warpid == 3 else 128)  # <- reported


@breaks("barriers-parted", block=32)
def half_a_warp_at_each_barrier(warp: Any, g: Any) -> None:
    with warp.only(warp.laneid < 16):
        warp.run("barrier.arrive", 1, 32)
    with warp.only(warp.laneid >= 16):
        warp.run("barrier.arrive", 2, 32)  # <- reported


@breaks("setmaxnreg-count")
def the_wrong_word_for_more_registers(warp: Any, g: Any) -> None:
    warp.setmaxnreg("dec", 40)
    warp.setmaxnreg("dec", 232)  # <- reported


@breaks("exited-threads")
def a_warp_leaves_its_warpgroup(warp: Any, g: Any) -> None:
    if warp.warpid == 3:
        return
    warp.wgmma_fence()  # <- reported


@breaks("flag-never-set", block=64)
def a_flag_that_nobody_sets(warp: Any, g: Any) -> None:
    if warp.warpid == 1:
        while (warp.ld_global(g, order="acquire")[:, 0] == 0).all():  # <- reported
            warp.nanosleep(20)


@breaks("deadlock", block=32)
def an_mbarrier_for_more_than_arrive(warp: Any, g: Any) -> None:
    barrier(warp, 0, count=33)
    warp.mbarrier_arrive(0)
    warp.mbarrier_wait(0, 0)  # <- reported
