"""Kernels whose tcgen05.mma reads more than A and B: scale factors, metadata, collector buffers; each with its twin.

The numbers are those of the mistakes in the issues of well-known libraries.
"""

from kernels_tcgen05 import SECOND, both, meet

from tcemu.layouts import Descriptor, instruction_descriptor, tcgen05_descriptor
from tcemu.sanitizer.rules.tcgen05 import IDESC, A, B, commit, free, load, ready, wait

KIND = "mxf8f6f4.block_scale.block32"
#: A (128 x 32) and B (8 x 32) of e4m3, and one scale for each row of A.
BYTES_A, BYTES_B = (
    tcgen05_descriptor(Descriptor.for_tile("e4m3", rows, 32, swizzle=0, start=start))
    for rows, start in ((128, 0), (8, 4096))
)
SCALED = instruction_descriptor(128, 8, kind="mxf8f6f4", a="e4m3", b="e4m3")
#: Scales in shared memory: 32 rows of 16 bytes.
HELD = 5120
SCALES = tcgen05_descriptor(Descriptor(HELD, lbo=16, sbo=128, swizzle=0))
#: In Tensor Memory, behind D: scales of A, scales of B, metadata.
SFA, SFB, META = 8, 12, 16
SPARSE = instruction_descriptor(128, 8, sparse=True)
#: B (8 x 32) of f16, for a sparse A.
WIDE_B = tcgen05_descriptor(Descriptor.for_tile("f16", 8, 32, swizzle=0, start=5120))


def scales_ready(warp):
    """The tiles, the scales in shared memory, and the address of 32 columns."""
    with warp.only(warp.threads < 32):
        warp.st_shared(HELD + 16 * warp.threads, 0x7F7F7F7F, "v4.b32")
    return ready(warp)


def copy_scales(warp, d, *places, by=0, to=None):
    """A thread copies the scales to columns."""
    if warp.warpid == by:
        with warp.only(warp.laneid == 0):
            for place in places:
                warp.tcgen05_cp(d + place, SCALES, "32x128b.warpx4")
            if to is not None:
                warp.tcgen05_commit(to)


def multiply(warp, d, sfa=SFA, sfb=SFB):
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma(KIND, d, BYTES_A, BYTES_B, SCALED, d + sfa, d + sfb, 0)


def store(warp, g, d):
    found = load(warp, d)
    warp.tcgen05_wait_ld()
    warp.st_global(g + 16 * warp.threads, found[:, :4], "v4.b32")
    free(warp, d)


# ------------------------------------------------------------------------------------------------ scale factors


@both("tcgen05-undefined")
def scales_of_b_are_never_copied(warp, g, right):
    """A has its scales; those of B are what the columns held before."""
    d = scales_ready(warp)
    copy_scales(warp, d, SFA, *([SFB] if right else []))
    multiply(warp, d)  # <- reported
    commit(warp)
    wait(warp)
    store(warp, g, d)


@both("tcgen05-unwaited")
def another_warp_copies_the_scales(warp, g, right):
    """A copy and a product are pipelined within one warp only; a barrier does not wait for the copy."""
    d = scales_ready(warp)
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(SECOND, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    copy_scales(warp, d, SFA, SFB, by=1, to=SECOND)
    if right:
        warp.mbarrier_wait(SECOND, 0)
    meet(warp)
    multiply(warp, d)  # <- reported
    commit(warp)
    warp.mbarrier_wait(SECOND, 0)
    wait(warp)
    store(warp, g, d)


@both("tma-unwaited")
def scales_are_copied_before_they_arrive(warp, g, right):
    """TMA still brings them to shared memory."""
    d = ready(warp)
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(SECOND, 1)
        warp.fence_mbarrier_init()
        warp.mbarrier_arrive_expect_tx(SECOND, 512)
        warp.cp_async_bulk_shared_global(HELD, g, 512, SECOND)
    warp.bar_sync()
    if right:
        warp.mbarrier_wait(SECOND, 0)
    copy_scales(warp, d, SFA, SFB)  # <- reported
    multiply(warp, d)
    commit(warp)
    warp.mbarrier_wait(SECOND, 0)
    wait(warp)
    store(warp, g, d)


@both("tcgen05-wait")
def stored_scales_are_used_before_the_wait(warp, g, right):
    """Scales may come from registers, too: by tcgen05.st, one copy for each quarter."""
    d = ready(warp)
    warp.tcgen05_st(d + SFA + (32 * warp.warpid << 16), 0x7F7F7F7F, "32x32b.x8")
    if right:
        warp.tcgen05_wait_st()
    meet(warp)
    multiply(warp, d)  # <- reported
    warp.tcgen05_wait_st()
    commit(warp)
    wait(warp)
    store(warp, g, d)


@both("tcgen05-alias")
def scales_in_the_columns_of_d(warp, g, right):
    """12: D of N = 8 has 8 columns, not 4."""
    d = scales_ready(warp)
    sfa = SFA if right else 4
    copy_scales(warp, d, sfa, SFB)
    multiply(warp, d, sfa)  # <- reported
    commit(warp)
    wait(warp)
    store(warp, g, d)


@both("tcgen05-unwaited")
def the_next_scales_overtake_the_product(warp, g, right):
    """Products read their scales late: another warp's copy must wait for them."""
    d = scales_ready(warp)
    with warp.only(warp.threads == 0):
        warp.mbarrier_init(SECOND, 1)
        warp.fence_mbarrier_init()
    warp.bar_sync()
    copy_scales(warp, d, SFA, SFB)
    multiply(warp, d)
    commit(warp)
    if right:
        wait(warp)
    meet(warp)
    copy_scales(warp, d, SFA, by=1, to=SECOND)  # <- reported
    wait(warp)
    warp.mbarrier_wait(SECOND, 0)
    store(warp, g, d)


# ------------------------------------------------------------------------------------------------ metadata


@both("tcgen05-undefined")
def metadata_that_nobody_wrote(warp, g, right):
    """The places of a sparse A's elements come from Tensor Memory, too."""
    d = ready(warp)
    with warp.only(warp.threads < 32):
        warp.st_shared(5120 + 16 * warp.threads, 0, "v4.b32")
    warp.fence_proxy_async()
    if right:
        warp.tcgen05_st(d + META + (32 * warp.warpid << 16), 0x44444444, "32x32b.x2")
        warp.tcgen05_wait_st()
    meet(warp)
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.run("tcgen05.mma.sp.cta_group::1.kind::f16", d, A, WIDE_B, d + META, SPARSE, 0)  # <- reported
    commit(warp)
    wait(warp)
    store(warp, g, d)


# ------------------------------------------------------------------------------------------------ collectors


@both("tcgen05-collector")
def the_collector_holds_another_a(warp, g, right):
    """The second A is used from the buffer that holds the first."""
    d = ready(warp)
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16.collector::a::fill", d, A, B, IDESC, 0)
            other = A if right else A + (2048 >> 4)
            warp.tcgen05_mma("f16.collector::a::use", d + 8, other, B, IDESC, 0)  # <- reported
    commit(warp)
    wait(warp)
    store(warp, g, d)


@both("tcgen05-collector")
def the_collector_is_given_up_in_between(warp, g, right):
    """A product without .collector discards what the buffer holds."""
    d = ready(warp)
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16.collector::a::fill", d, A, B, IDESC, 0)
            warp.tcgen05_mma("f16.collector::a::use" if right else "f16", d, A, B, IDESC, 1)
            warp.tcgen05_mma("f16.collector::a::lastuse", d, A, B, IDESC, 1)  # <- reported
    commit(warp)
    wait(warp)
    store(warp, g, d)


# ------------------------------------------------------------------------------------------------ rows of M = 64


@both("uninitialised-registers")
def rows_of_m_64_in_adjacent_lanes(warp, g, right):
    """23: the 64 rows are in lanes 0 to 15 of each quarter, not in lanes 0 to 63."""
    d = ready(warp)
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16", d, A, B, instruction_descriptor(64, 8), 0)
    commit(warp)
    wait(warp)
    found = warp.tcgen05_ld(d + (32 * warp.warpid << 16), "32x32b.x4")
    warp.tcgen05_wait_ld()
    with warp.only(warp.laneid < 16 if right else warp.threads < 64):
        warp.st_global(g + 16 * warp.threads, found, "v4.b32")  # <- reported
    free(warp, d)
