"""Kernels on Tensor Memory that the hardware stops, or that never end: each with its twin.

The numbers are those of the mistakes in the issues of well-known libraries; the others are the traps of the checker
that NVIDIA's assembler builds into kernels (`-g-tmem-access-check`).
"""

from kernels_tcgen05 import both

from tcemu.layouts import instruction_descriptor
from tcemu.sanitizer.rules.tcgen05 import BAR, IDESC, SLOT, A, B, commit, free, mma, ready, wait

SPARSE = instruction_descriptor(128, 8, sparse=True)
ONE = {"block": 32}


def columns(warp, count, group=1):
    """The address of so many columns."""
    warp.tcgen05_alloc(SLOT, count, cta_group=group)
    warp.bar_warp_sync()
    d = int(warp.ld_shared(SLOT)[0, 0])
    warp.bar_warp_sync()
    return d


# ------------------------------------------------------------------------------------------------ columns


@both("deadlock", **ONE)
def four_allocations_of_608_columns(warp, g, right):
    """9: two accumulators, the scale factors and one more: no SM has so many columns."""
    sizes = (256, 128, 64, 32) if right else (256, 256, 64, 32)
    held = [(columns(warp, size), size) for size in sizes]  # <- reported
    for d, size in held:
        warp.tcgen05_dealloc(d, size)


@both("tcgen05-allocation", **ONE)
def columns_for_three_accumulators(warp, g, right):
    """10: three times 32 columns are not a power of two."""
    count = 128 if right else 96
    d = columns(warp, count)  # <- reported
    warp.tcgen05_dealloc(d, count)


@both("tcgen05-allocation", **ONE)
def fewer_columns_than_32(warp, g, right):
    """Trap: an accumulator of 8 columns still takes an allocation of 32."""
    count = 32 if right else 8
    d = columns(warp, count)  # <- reported
    warp.tcgen05_dealloc(d, count)


@both("tcgen05-allocation", **ONE)
def a_larger_allocation_after_a_smaller_one(warp, g, right):
    """Sizes must not grow; the assembler does not see it."""
    for count in (64, 32) if right else (32, 64):
        d = columns(warp, count)  # <- reported
        warp.tcgen05_dealloc(d, count)


@both("tcgen05-allocation", **ONE)
def an_allocation_after_the_permit_is_gone(warp, g, right):
    """Trap: the block has told others that it needs no more columns."""
    first = columns(warp, 32)
    if not right:
        warp.tcgen05_relinquish_alloc_permit()
    second = columns(warp, 32)  # <- reported
    if right:
        warp.tcgen05_relinquish_alloc_permit()
    for d in (first, second):
        warp.tcgen05_dealloc(d, 32)


@both("tcgen05-allocation", **ONE)
def half_of_an_allocation_is_freed(warp, g, right):
    """Trap: what is freed is what one tcgen05.alloc has returned, all of it."""
    d = columns(warp, 64)
    for first, count in ((0, 64),) if right else ((0, 32), (32, 32)):
        warp.tcgen05_dealloc(d + first, count)  # <- reported


@both("tcgen05-allocation", **ONE)
def columns_are_freed_twice(warp, g, right):
    """Trap: by the warp that needed them, and once more at the end."""
    d = columns(warp, 32)
    warp.tcgen05_dealloc(d, 32)
    if not right:
        warp.tcgen05_dealloc(d, 32)  # <- reported


@both("tcgen05-allocation", **ONE)
def the_block_exits_with_its_columns(warp, g, right):
    """An early return that forgets tcgen05.dealloc: later blocks wait for ever."""
    warp.tcgen05_alloc(SLOT, 32)  # <- reported
    warp.bar_warp_sync()
    if right:
        warp.tcgen05_dealloc(int(warp.ld_shared(SLOT)[0, 0]), 32)


@both("tcgen05-columns", **ONE)
def a_load_after_the_columns_are_freed(warp, g, right):
    """Trap: the epilogue is later than tcgen05.dealloc."""
    d = columns(warp, 32)
    warp.tcgen05_st(d, 0, "32x32b.x8")
    warp.tcgen05_wait_st()
    if not right:
        warp.tcgen05_dealloc(d, 32)
    warp.tcgen05_ld(d, "32x32b.x8")  # <- reported
    warp.tcgen05_wait_ld()
    if right:
        warp.tcgen05_dealloc(d, 32)


@both("tcgen05-columns")
def the_second_accumulator_has_no_columns(warp, g, right):
    """Trap: allocated for one accumulator, used for two."""
    d = ready(warp)
    mma(warp, d)
    mma(warp, d + (24 if right else 32))  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)


@both("tcgen05-columns", **ONE)
def columns_beyond_the_last(warp, g, right):
    """Trap: out of bounds."""
    d = columns(warp, 512)
    warp.tcgen05_st(d + (504 if right else 508), 0, "32x32b.x8")  # <- reported
    warp.tcgen05_wait_st()
    warp.tcgen05_dealloc(d, 512)


# ------------------------------------------------------------------------------------------------ lanes


@both("tcgen05-lanes")
def the_lane_is_missing_in_the_address(warp, g, right):
    """20: each warp loads from the address that tcgen05.alloc returned. Release builds seem to take the warp's own."""
    d = ready(warp)
    mma(warp, d)
    commit(warp)
    wait(warp)
    found = warp.tcgen05_ld(d + (32 * warp.warpid << 16 if right else 0), "32x32b.x8")  # <- reported
    warp.tcgen05_wait_ld()
    warp.st_global(g + 16 * warp.threads, found[:, :4], "v4.b32")
    free(warp, d)


@both("misaligned")
def an_accumulator_of_128_rows_begins_at_lane_32(warp, g, right):
    """Trap: lane misaligned. Each warp passes the address of its own quarter, and so does the one that multiplies."""
    d = ready(warp)
    mma(warp, d + (0 if right else 32 << 16))  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)


# ------------------------------------------------------------------------------------------------ descriptors


@both("tcgen05-descriptor")
def a_sparse_descriptor_for_a_dense_opcode(warp, g, right):
    """Trap: the sparsity bit of the instruction descriptor against the opcode."""
    d = ready(warp)
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16", d, A, B, IDESC if right else SPARSE, 0)  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)


@both("tcgen05-descriptor")
def a_sparse_product_of_256_columns_with_ws(warp, g, right):
    """Trap: sparsity that the instruction does not have. With .ws, a sparse A has at most 128 columns of B."""
    d = ready(warp)
    if right:
        mma(warp, d)
    elif warp.warpid == 0:
        bits = instruction_descriptor(128, 256, sparse=True)
        with warp.only(warp.laneid == 0):
            warp.run("tcgen05.mma.ws.sp.cta_group::1.kind::f16", d, A, B, d + 16, bits, 0)  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)


@both("tcgen05-descriptor")
def n_counts_bytes(warp, g, right):
    """N beyond what an instruction has: the field holds it, and the hardware stops."""
    d = ready(warp)
    bits = IDESC if right else IDESC | 63 << 17
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_mma("f16", d, A, B, bits, 0)  # <- reported
    commit(warp)
    wait(warp)
    free(warp, d)


# ------------------------------------------------------------------------------------------------ groups


@both("tcgen05-pair")
def a_commit_of_another_group(warp, g, right):
    """8: the products are those of one block, and the commit is that of a pair."""
    d = ready(warp)
    mma(warp, d)
    if warp.warpid == 0:
        with warp.only(warp.laneid == 0):
            warp.tcgen05_commit(BAR, cta_group=1 if right else 2)  # <- reported
    wait(warp)
    free(warp, d)


@both("tcgen05-pair", **ONE)
def a_pair_without_a_cluster(warp, g, right):
    """The kernel is that of a pair, and the launch has no clusters."""
    group = 1 if right else 2
    d = columns(warp, 32, group)  # <- reported
    warp.tcgen05_dealloc(d, 32, cta_group=group)
