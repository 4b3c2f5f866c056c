"""Lanes that take no part, registers that move, operands that change. Each faulty kernel precedes its twin."""

import numpy as np
from kernels_table import correct, faulty, finish, mma, one, ready, tiles

FROM_REGISTERS = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16"


def total(warp, values, first=16):
    """The sum over the lanes, in lane 0."""
    while first:
        values = values + warp.shfl_sync("down", values, first)
        first //= 2
    return values


# ------------------------------------------------------------------------------------------------ shfl


@faulty("absent-lanes", block=32)
def a_reduction_in_a_part_of_a_warp(warp, g):
    """20 lanes reduce as if they were 32: lane 0 gets what lane 4 got from lane 20."""
    with warp.only(warp.laneid < 20):
        values = warp.laneid
        for distance in (16, 8, 4, 2, 1):
            values = values + warp.shfl_sync("down", values, distance)  # <- reported
    with one(warp):
        warp.st_global(g, values)


@correct(block=32)
def a_reduction_with_zeros(warp, g):
    values = total(warp, np.where(warp.laneid < 20, warp.laneid, 0))
    with one(warp):
        warp.st_global(g, values)


@correct(block=32)
def a_reduction_of_half_a_warp(warp, g):
    with warp.only(warp.laneid < 16):
        values = total(warp, warp.laneid, 8)
        maximum = total(warp, 2 * warp.laneid, 8)
    with one(warp):
        warp.st_global(g, values + maximum)


@faulty("absent-lanes", block=32)
def a_broadcast_from_a_lane_outside(warp, g):
    with warp.only(warp.laneid >= 8):
        x = warp.shfl_sync("idx", warp.laneid, 0)  # <- reported
        warp.st_global(g + 4 * warp.laneid, x)


@correct(block=32)
def a_broadcast_from_the_first_lane_inside(warp, g):
    with warp.only(warp.laneid >= 8):
        x = warp.shfl_sync("idx", warp.laneid, 8)
        warp.st_global(g + 4 * warp.laneid, x)


@faulty("absent-lanes", block=64)
def the_last_warp_has_left_early(warp, g):
    """Threads past the end return, and the rest of their warp reduces over all lanes."""
    with warp.only(warp.threads >= 50):
        warp.exit()
    values = warp.laneid
    for distance in (16, 8, 4, 2, 1):
        values = values + warp.shfl_sync("bfly", values, distance)  # <- reported
    warp.st_global(g + 4 * warp.threads, values)


@correct(block=32)
def a_scan_in_the_first_lanes(warp, g):
    with warp.only(warp.laneid < 24):
        values = warp.laneid
        for distance in (1, 2, 4, 8, 16):
            below = warp.shfl_sync("up", values, distance)
            values = np.where(warp.laneid >= distance, values + below, values)
        warp.st_global(g + 4 * warp.laneid, values)


@faulty("absent-lanes", block=32)
def a_ballot_that_names_too_many(warp, g):
    with warp.only(warp.laneid < 16):
        warp.run("vote.sync.ballot.b32", warp.laneid < 4, 0xFFFFFFFF)  # <- reported


@correct(block=32)
def a_shuffle_that_names_lanes_elsewhere(warp, g):
    """Each half reads its own half, as the hardware allows with a mask that names both."""
    for half in (warp.laneid < 16, warp.laneid >= 16):
        with warp.only(half):
            x = warp.run("shfl.sync.bfly.b32", warp.laneid, 1, 0x1F, 0xFFFFFFFF)
            warp.st_global(g + 4 * warp.laneid, x)


@faulty("absent-lanes", block=64)
def a_reduction_by_half_a_warp_that_names_all_of_it(warp, g):
    """__shfl_down_sync(0xffffffff, ...) under if (lane < 16): the others wait for it at __syncthreads."""
    x = warp.laneid
    with warp.only(warp.laneid < 16):
        for distance in (8, 4, 2, 1):
            x = x + warp.run("shfl.sync.bfly.b32", x, distance, 0x1F, 0xFFFFFFFF)  # <- reported
    warp.bar_sync()
    warp.st_global(g + 4 * warp.threads, x)


@faulty("absent-lanes", block=32)
def one_half_shuffles_once_more(warp, g):
    """The loops of two branches have different lengths, so one shuffle finds no partner."""
    for half, times in ((warp.laneid < 16, 3), (warp.laneid >= 16, 2)):
        with warp.only(half):
            for distance in range(1, times + 1):
                warp.run("shfl.sync.bfly.b32", warp.laneid, distance, 0x1F, 0xFFFFFFFF)  # <- reported
    warp.bar_warp_sync()


@correct(block=64)
def a_shuffle_that_names_lanes_that_have_exited(warp, g):
    """It waits for all lanes of its membermask that have not exited."""
    with warp.only(warp.laneid >= 24):
        warp.exit()
    with warp.only(warp.laneid < 24):
        x = warp.run("shfl.sync.idx.b32", warp.laneid, 3, 0x1F, 0xFFFFFFFF)
        warp.bar_warp_sync()
        warp.st_global(g + 4 * warp.threads, x)


# ------------------------------------------------------------------------------------------------ setmaxnreg


@faulty("warpgroup-divergent", block=256)
def one_warp_gives_registers_back(warp, g):
    if warp.warpid == 0:
        warp.setmaxnreg("dec", 40)  # <- reported
    warp.bar_sync()


@faulty("warpgroup-divergent", block=256)
def one_elected_warp_takes_them(warp, g):
    if warp.warpgroup == 0:
        warp.setmaxnreg("dec", 40)
    elif warp.warpid == 4:
        warp.setmaxnreg("inc", 248)  # <- reported


@faulty("deadlock", block=384)
def more_than_there_are(warp, g):
    """3 warpgroups of 168 registers are 504; 40 + 2 * 240 are 520."""
    if warp.warpgroup == 0:
        warp.setmaxnreg("dec", 40)
    else:
        warp.setmaxnreg("inc", 240)  # <- reported


@correct(block=384)
def as_many_as_there_are(warp, g):
    if warp.warpgroup == 0:
        warp.setmaxnreg("dec", 24)
    else:
        warp.setmaxnreg("inc", 240)


@faulty("setmaxnreg-count")
def inc_to_fewer_than_before(warp, g):
    warp.setmaxnreg("dec", 40)
    warp.setmaxnreg("inc", 24)  # <- reported


@faulty("setmaxnreg-count")
def a_number_that_no_assembler_takes(warp, g):
    warp.setmaxnreg("dec", 44)  # <- reported


@correct()
def back_to_as_many_as_before(warp, g):
    """To ask for as many as there are changes nothing, in either direction."""
    warp.setmaxnreg("dec", 40)
    warp.setmaxnreg("dec", 40)
    warp.setmaxnreg("inc", 40)
    warp.setmaxnreg("inc", 104)


# ------------------------------------------------------------------------------------------------ halves of a warp


@faulty("barriers-parted", block=64)
def each_half_of_a_warp_at_its_own_barrier(warp, g):
    for number, half in enumerate((warp.laneid < 16, warp.laneid >= 16)):
        with warp.only(half):
            warp.run("barrier.arrive", 1 + number, 64)  # <- reported


@correct(block=64)
def both_halves_of_a_warp_at_both_barriers(warp, g):
    for number in (1, 2):
        for half in (warp.laneid < 16, warp.laneid >= 16):
            with warp.only(half):
                warp.run("barrier.arrive", number, 64)


# ------------------------------------------------------------------------------------------------ operands


@faulty("wgmma-unwaited")
def a_plain_array_changes_too_early(warp, g):
    ready(warp)
    a = np.zeros((32, 4), np.uint32)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(FROM_REGISTERS, d, a, tiles()[1], 1, 1, 1, 0)  # <- reported
    warp.wgmma_commit_group()
    a[...] = 1
    warp.wgmma_wait_group(0)


@correct()
def a_plain_array_changes_after_the_wait(warp, g):
    ready(warp)
    a = np.zeros((32, 4), np.uint32)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(FROM_REGISTERS, d, a, tiles()[1], 1, 1, 1, 0)
    finish(warp)
    a[...] = 1


@faulty("wgmma-unwaited")
def a_view_of_registers_changes_too_early(warp, g):
    ready(warp)
    bank = warp.registers(8, fill=0).bank
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(FROM_REGISTERS, d, bank.view([6, 4, 2, 0]), tiles()[1], 1, 1, 1, 0)
    warp.wgmma_commit_group()
    bank.view([1, 2])[...] = 1  # <- reported
    warp.wgmma_wait_group(0)


@faulty("warpgroup-divergent")
def the_warps_wait_for_different_groups(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d)
    warp.wgmma_commit_group()
    warp.wgmma_wait_group(warp.warpid % 2)  # <- reported


@faulty("warpgroup-divergent")
def the_warps_scale_d_differently(warp, g):
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    mma(warp, d, scale_d=int(warp.warpid > 0))  # <- reported
    finish(warp)


# ------------------------------------------------------------------------------------------------ flags


@faulty("flag-never-set", block=64)
def a_flag_at_another_place(warp, g):
    if warp.warpid == 0:
        warp.st_global(g + 4, 1, order="release")
    else:
        while not (warp.ld_global(g, order="acquire")[:, 0] == 1).all():  # <- reported
            pass


@correct(block=64)
def a_flag_at_its_place(warp, g):
    if warp.warpid == 0:
        with one(warp):
            warp.st_global(g, 1, order="release")
    else:
        while not (warp.ld_global(g, order="acquire")[:, 0] == 1).all():
            pass


# ------------------------------------------------------------------------------------------------ counts of barriers


@faulty("barrier-threads", block=160)
def a_named_barrier_for_more_than_use_it(warp, g):
    """The four warps that multiply use a barrier that counts another warpgroup, too."""
    if warp.warpid == 4:
        return
    if warp.warpid < 2:
        warp.bar_sync(1, 128)  # <- reported


@correct(block=160)
def a_named_barrier_for_those_that_use_it(warp, g):
    if warp.warpid == 4:
        return
    if warp.warpid < 2:
        warp.bar_sync(1, 64)


@faulty("barrier-threads", block=96)
def a_producer_that_arrives_three_times_in_one_phase(warp, g):
    """Its three arrivals stand for the consumers', who then wait for more."""
    for _ in range(3):
        if warp.warpid == 0:
            warp.bar_arrive(1, 96)  # <- reported
        else:
            warp.bar_sync(1, 96)


@correct(block=96)
def a_producer_that_waits_before_it_arrives_again(warp, g):
    for _ in range(3):
        if warp.warpid == 0:
            warp.bar_arrive(1, 96)
            warp.bar_sync(2, 96)
        else:
            warp.bar_sync(1, 96)
            warp.bar_arrive(2, 96)


@faulty("flag-never-set", block=64)
def two_warps_wait_for_each_other_s_flags(warp, g):
    """Each sets its flag after it has seen the other's."""
    mine, other = g + 4 * warp.warpid, g + 4 * (1 - warp.warpid)
    while not (warp.ld_global(other, order="acquire")[:, 0] == 1).all():  # <- reported
        pass
    warp.st_global(mine, 1, order="release")


# ------------------------------------------------------------------------------------------------ stores that disagree


@faulty("lanes-disagree", block=32)
def a_histogram_of_a_warp_by_stores(warp, g):
    """Two lanes with the same digit store their own numbers."""
    warp.st_shared(4 * (warp.laneid % 16), 100 + warp.laneid)  # <- reported


@correct(block=32)
def a_flag_that_all_lanes_set(warp, g):
    warp.st_shared(4 * (warp.laneid % 16), 1)
