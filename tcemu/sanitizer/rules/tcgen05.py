"""Rules for Tensor Memory and tcgen05, and the smallest kernel that breaks each."""

from __future__ import annotations

from typing import Any

from tcemu.layouts import Descriptor, instruction_descriptor, tcgen05_descriptor
from tcemu.sanitizer.rules import Rule, breaks, rules
from tcemu.sanitizer.rules.parts import barrier

rules(
    Rule(
        "tcgen05-unwaited",
        "Tensor Memory used before an mma or cp has ended",
        "9.7.16.6.2.1.1",
        "tcgen05.mma, tcgen05.cp and tcgen05.shift are asynchronous. They have ended when the mbarrier of a later "
        "tcgen05.commit of the same thread has completed its phase; only the pairs that the manual calls pipelined "
        "need no such wait, and only within a warp.",
        "Execute tcgen05.commit after the operation, in the thread that issued it, and wait for the mbarrier's phase "
        "before the use; then tcgen05.fence::after_thread_sync.",
    ),
    Rule(
        "tcgen05-commit",
        "a tcgen05.commit in another thread than the mma",
        "9.7.16.12.1",
        "tcgen05.commit makes the mbarrier track the operations of the thread that executes it, and no others.",
        "Execute tcgen05.commit in the thread that issued the operations: in the same block of warp.only, with the "
        "lane of one elect.sync.",
    ),
    Rule(
        "tcgen05-wait",
        "a tcgen05.ld or tcgen05.st without its tcgen05.wait",
        "9.7.16.6.2.1.2",
        "tcgen05.ld and tcgen05.st are asynchronous. Until a tcgen05.wait::ld of the same warp, the registers have no "
        "values and the cells must not be written; until a tcgen05.wait::st, no other operation may use the cells. "
        "Only other ld and st of the same warp come in order.",
        "Execute tcgen05.wait::ld after the last tcgen05.ld, or tcgen05.wait::st after the last tcgen05.st, before the "
        "registers are used and before the columns are released to others or freed.",
    ),
    Rule(
        "tcgen05-fence",
        "no tcgen05.fence where threads synchronise",
        "9.7.16.6.3",
        "Operations of tcgen05 are ordered between threads by tcgen05.fence::before_thread_sync, a synchronisation, "
        "and tcgen05.fence::after_thread_sync. tcgen05.commit implies the first. Whether the fences are needed beside "
        "a synchronisation that releases and acquires is disputed (CUTLASS, issue 2974).",
        "Execute tcgen05.fence::before_thread_sync before the barrier or the arrive in the thread that is done, and "
        "tcgen05.fence::after_thread_sync after the wait in the thread that goes on.",
        "warning",
    ),
    Rule(
        "tcgen05-race",
        "unordered operations on the same cells of Tensor Memory",
        "9.7.16.6.4.4",
        "If operations of two warps use the same cells, and one of them writes, the warps must synchronise in between.",
        "Let the one wait for the other: after tcgen05.commit on the mbarrier; after tcgen05.wait at a barrier, or on "
        "an mbarrier at which the other arrives. A tcgen05.fence stands on each side.",
    ),
    Rule(
        "tcgen05-elect",
        "more than one lane issues a tcgen05 operation",
        "9.7.16.5",
        "One thread issues tcgen05.mma, tcgen05.cp, tcgen05.shift and tcgen05.commit. If several lanes execute it, "
        "each issues the operation: the product is added as many times, and the mbarrier gets as many arrivals.",
        "Let one lane execute it: with warp.only(warp.elect_sync()).",
    ),
    Rule(
        "tcgen05-undefined",
        "tcgen05.mma reads cells that nothing has written",
        "9.7.16.10",
        "Columns are undefined after tcgen05.alloc. The first tcgen05.mma of a sum must not add to D, unless something "
        "has written it; A, scale factors and metadata in Tensor Memory must have been written, too.",
        "Pass enable_input_d = 0 to the first tcgen05.mma of each sum, or store zeros with tcgen05.st first.",
    ),
    Rule(
        "tcgen05-alias",
        "operands of a tcgen05.mma in the same cells",
        "9.7.16.10",
        "D must not share cells of Tensor Memory with A, with the scale factors or with the metadata of the same "
        "tcgen05.mma.",
        "Give each operand columns of its own, and allocate enough for all of them.",
    ),
    Rule(
        "tcgen05-collector",
        "a collector buffer used that does not hold the matrix",
        "9.7.16.10.9.1",
        ".collector::a::use and ::lastuse may take A from the buffer that an earlier tcgen05.mma with ::fill has "
        "filled. The same A must still be there: ::lastuse, ::discard and a product without .collector give the buffer "
        "up. With .ws, it is B, in one of four buffers.",
        "Execute the first product of each A with .collector::a::fill, and the following ones, with the same "
        "descriptor, with ::use; or leave .collector out.",
    ),
)

#: Descriptors of A (128 x 16) and B (8 x 16) of f16 in shared memory; the instruction descriptor; two addresses.
A, B = (tcgen05_descriptor(Descriptor.for_tile("f16", *rows, 16, swizzle=0, start=start))
          for rows, start in (((128,), 0), ((8,), 4096)))  # fmt: skip
IDESC = instruction_descriptor(128, 8)
BAR, SLOT = 4352, 4360


def ready(warp: Any) -> int:
    """Both tiles and an mbarrier, and the address of 32 columns."""
    for half in (0, 2048):
        warp.st_shared(16 * warp.threads + half, 0, "v4.b32")
    with warp.only(warp.threads < 16):
        warp.st_shared(4096 + 16 * warp.threads, 0, "v4.b32")
    warp.fence_proxy_async()
    if warp.warpid == 0:
        warp.tcgen05_alloc(SLOT, 32)
    barrier(warp, BAR)
    return int(warp.ld_shared(SLOT)[0, 0])


def mma(warp: Any, d: int, adds: int = 0) -> None:
    """Lane 0 of warp 0 multiplies."""
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16", d, A, B, IDESC, adds)


def commit(warp: Any, lane: int = 0) -> None:
    """A lane of warp 0 commits."""
    if warp.warpid == 0:
        with warp.only(warp.laneid == lane):
            warp.tcgen05_commit(BAR)


def wait(warp: Any) -> None:
    """Wait for the products."""
    warp.mbarrier_wait(BAR, 0)
    warp.tcgen05_fence_after_thread_sync()


def load(warp: Any, d: int) -> Any:
    """Each warp loads its quarter of D."""
    return warp.tcgen05_ld(d + (32 * warp.warpid << 16), "32x32b.x8")


def free(warp: Any, d: int) -> None:
    """Free the columns after all warps."""
    warp.tcgen05_fence_before_thread_sync()
    warp.bar_sync()
    if warp.warpid == 0:
        warp.tcgen05_dealloc(d, 32)


@breaks("tcgen05-unwaited", target="sm_100a")
def sums_loaded_after_a_barrier_only(warp: Any, g: Any) -> None:
    d = ready(warp)
    mma(warp, d)
    commit(warp)
    warp.bar_sync()
    warp.tcgen05_fence_after_thread_sync()
    warp.tcgen05_ld(d + (32 * warp.warpid << 16), "32x32b.x8")  # <- reported
    warp.tcgen05_wait_ld()
    wait(warp)
    free(warp, d)


@breaks("tcgen05-commit", target="sm_100a")
def another_lane_commits(warp: Any, g: Any) -> None:
    d = ready(warp)
    mma(warp, d)
    warp.bar_warp_sync()
    commit(warp, lane=1)
    wait(warp)
    warp.tcgen05_ld(d + (32 * warp.warpid << 16), "32x32b.x8")  # <- reported
    warp.tcgen05_wait_ld()
    free(warp, d)


@breaks("tcgen05-wait", target="sm_100a")
def sums_stored_before_the_wait(warp: Any, g: Any) -> None:
    d = ready(warp)
    mma(warp, d)
    commit(warp)
    wait(warp)
    sums = load(warp, d)
    warp.st_global(g + 16 * warp.threads, sums[:, :4], "v4.b32")  # <- reported
    warp.tcgen05_wait_ld()
    free(warp, d)


@breaks("tcgen05-fence", target="sm_100a")
def no_fence_after_the_mbarrier(warp: Any, g: Any) -> None:
    d = ready(warp)
    mma(warp, d)
    commit(warp)
    warp.mbarrier_wait(BAR, 0)
    warp.tcgen05_ld(d + (32 * warp.warpid << 16), "32x32b.x8")  # <- reported
    warp.tcgen05_wait_ld()
    free(warp, d)


@breaks("tcgen05-race", target="sm_100a")
def zeros_stored_while_the_tensor_core_adds(warp: Any, g: Any) -> None:
    d = ready(warp)
    if warp.warpid == 1:
        warp.tcgen05_st(d + (32 << 16), 0, "32x32b.x8")  # <- reported
        warp.tcgen05_wait_st()
    if warp.warpid == 0:
        with warp.only(warp.elect_sync()):
            warp.tcgen05_mma("f16", d, A, B, IDESC, 0)  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)


@breaks("tcgen05-elect", target="sm_100a")
def every_lane_multiplies(warp: Any, g: Any) -> None:
    d = ready(warp)
    if warp.warpid == 0:
        warp.tcgen05_mma("f16", d, A, B, IDESC, 0)  # <- reported
        warp.mbarrier_init(BAR + 16, 32)
        warp.tcgen05_commit(BAR + 16)
        warp.mbarrier_wait(BAR + 16, 0)
    free(warp, d)


@breaks("tcgen05-undefined", target="sm_100a")
def the_first_product_adds(warp: Any, g: Any) -> None:
    d = ready(warp)
    if warp.warpid == 0:
        with warp.only(warp.elect_sync()):
            warp.tcgen05_mma("f16", d, A, B, IDESC, 1)  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)


@breaks("tcgen05-alias", target="sm_100a")
def a_lies_in_the_columns_of_d(warp: Any, g: Any) -> None:
    d = ready(warp)
    if warp.warpid == 0:
        warp.tcgen05_st(d, 0, "32x32b.x32")
    warp.tcgen05_wait_st()
    if warp.warpid == 0:
        with warp.only(warp.elect_sync()):
            warp.tcgen05_mma("f16", d, d, B, IDESC, 0)  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)


@breaks("tcgen05-collector", target="sm_100a")
def a_is_used_that_nothing_filled(warp: Any, g: Any) -> None:
    d = ready(warp)
    if warp.warpid == 0:
        with warp.only(warp.elect_sync()):
            warp.tcgen05_mma("f16.collector::a::use", d, A, B, IDESC, 0)  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)
