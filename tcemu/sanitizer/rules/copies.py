"""Rules for asynchronous copies, and the smallest kernel that breaks each."""

from __future__ import annotations

from typing import Any

from tcemu.sanitizer.rules import Rule, breaks, rules
from tcemu.sanitizer.rules.parts import MMA, ORDINARY, TILES, barrier, ready

rules(
    Rule(
        "overwritten-early",
        "shared memory overwritten while it is still in use",
        "8.9",
        "Before a thread overwrites bytes, it must know that every operation that reads or fills them has ended. It "
        "learns that of a wgmma from wgmma.wait_group, of a bulk copy out of the bytes from "
        "cp.async.bulk.wait_group.read, of a copy into them from its mbarrier or wait_group, and of a load from a "
        "barrier after the load.",
        "Wait until the reader has ended, then notify the writer with a barrier or an arrive on the stage's empty "
        "mbarrier.",
    ),
    Rule(
        "tma-unwaited",
        "data of a bulk copy used before its mbarrier phase completed",
        "9.7.9.25.2",
        "A bulk copy into shared memory is complete when the phase of its mbarrier completes. A thread that uses the "
        "bytes must wait for that phase, or synchronise at a barrier with a thread that has waited.",
        "Wait on the mbarrier with the parity of the copy's phase before using the bytes.",
    ),
    Rule(
        "expect-tx",
        "the bytes of expect_tx and of the phase's copies differ",
        "9.7.13.15",
        "expect_tx must announce exactly the bytes of the bulk copies that complete on the mbarrier in this phase. If "
        "it announces too few, the phase completes too early; if it announces too many, the phase never completes.",
        "Expect the sum of the bytes of all copies of the phase.",
    ),
    Rule(
        "cp-async-unwaited",
        "data of cp.async used before a wait",
        "9.7.9.25.3",
        "The thread that executed cp.async may use the copied bytes after a cp.async.wait_group or cp.async.wait_all "
        "that covers the copy. Other threads may use them after a barrier that follows that wait, or once the mbarrier "
        "of cp.async.mbarrier.arrive completes its phase.",
        "Before the barrier, execute cp.async.wait_all in the threads that copy; or cp.async.commit_group and then "
        "cp.async.wait_group, with an N that leaves only younger groups pending.",
    ),
    Rule(
        "cp-async-src-size",
        "the src-size of cp.async is greater than its cp-size",
        "9.7.9.25.3",
        "cp.async writes cp-size bytes: src-size bytes from the source, then zeros. A src-size that is greater than "
        "cp-size is undefined.",
        "Limit src-size to cp-size. It counts bytes and has no sign, so clamp it to 0 at an edge before you pass it.",
    ),
    Rule(
        "not-a-tensor-map",
        "a tensor copy with bytes that are not a tensor map",
        "9.7.9.27.1.2",
        "The address of a tensor map is that of 128 bytes which the host has encoded and the kernel may have changed, "
        "field by field. With any other bytes, the copy is undefined: a GPU may end the launch with an illegal "
        "instruction, or copy something else.",
        "Copy a whole map to this place before the first copy uses it: tensormap.replace changes single fields of a "
        "map, and does not make one. If each group has its own map, check the index of the group.",
    ),
)

LDMATRIX = "ldmatrix.sync.aligned.m8n8.x4.shared.b16"


@breaks("overwritten-early")
def the_tile_is_stored_before_the_wait(warp: Any, g: Any) -> None:
    ready(warp)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(MMA, d, *TILES, *ORDINARY)
    warp.wgmma_commit_group()
    warp.st_shared(16 * warp.threads, 1, "v4.b32")  # <- reported
    warp.wgmma_wait_group(0)


@breaks("tma-unwaited", block=32)
def one_lane_waits_for_its_warp(warp: Any, g: Any) -> None:
    barrier(warp, 1024)
    with warp.only(warp.laneid == 0):
        warp.mbarrier_arrive_expect_tx(1024, 512)
        warp.cp_async_bulk_shared_global(0, g, 512, 1024)
    with warp.only(warp.laneid == 0):
        warp.mbarrier_wait(1024, 0)
    warp.ld_shared(16 * warp.laneid, "v4.b32")  # <- reported


@breaks("expect-tx", block=32)
def too_many_bytes_expected(warp: Any, g: Any) -> None:
    barrier(warp, 1024)
    with warp.only(warp.laneid == 0):
        warp.mbarrier_arrive_expect_tx(1024, 1024)  # <- reported
        warp.cp_async_bulk_shared_global(0, g, 512, 1024)
    warp.mbarrier_wait(1024, 0)


@breaks("cp-async-unwaited")
def rows_of_all_warps_behind_a_late_wait(warp: Any, g: Any) -> None:
    warp.cp_async(16 * warp.threads, g + 16 * warp.threads, 16)
    warp.bar_sync()
    warp.cp_async_wait_all()
    warp.run(LDMATRIX, 64 * warp.laneid + 16 * warp.warpid)  # <- reported


@breaks("not-a-tensor-map", block=32)
def a_map_of_the_group_after_the_last(warp: Any, g: Any) -> None:
    barrier(warp, 1024)
    with warp.only(warp.laneid == 0):
        warp.mbarrier_arrive_expect_tx(1024, 128)
        warp.cp_async_bulk_tensor_shared_global(0, g, (0,), 1024)  # <- reported
    warp.mbarrier_wait(1024, 0)


@breaks("cp-async-src-size", block=32)
def more_of_the_source_than_is_copied(warp: Any, g: Any) -> None:
    left = 20  # bytes to the end of the row
    warp.cp_async(16 * warp.laneid, g + 16 * warp.laneid, 16, left - 16 * warp.laneid)  # <- reported
    warp.cp_async_wait_all()
