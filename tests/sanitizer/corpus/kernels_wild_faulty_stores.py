"""Faulty kernels in the wild, on Hopper: data that bulk stores are still reading, and data that overwrites it."""

from kernels_wild_correct_wgmma import TILE, box, init, multiply
from kernels_wild_faulty_hopper import GEMM, end, loaded
from kernels_wild_table import faulty, leader

# ------------------------------------------------------------------------------------------------ stores


@faulty("proxy-fence-missing", GEMM, shared=16384)
def a_tensor_store_behind_a_barrier_alone(warp, a, b, d):
    """Asked in CUTLASS's tracker: is the barrier not enough? It is not."""
    for part in range(8):
        warp.st_shared(2048 * part + 16 * warp.threads, part, "v4.b32")
    warp.bar_sync()
    with leader(warp):
        warp.cp_async_bulk_global_shared(d + 0, 0, 16384)  # <- reported
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)


@faulty("proxy-fence-missing", GEMM, shared=16384)
def a_state_that_only_the_loop_fences(warp, a, b, d):
    """FlashKDA: for an empty sequence the loop, with its fence, does not run, and the cleared state is stored."""
    for part in range(8):
        warp.st_shared(2048 * part + 16 * warp.threads, 0, "v4.b32")
    for _ in range(0):
        warp.fence_proxy_async()
    warp.bar_sync()
    with leader(warp):
        warp.cp_async_bulk_global_shared(d + 0, 0, 16384)  # <- reported
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)


@faulty("proxy-fence-thread", GEMM, shared=16384)
def only_the_storing_thread_fences(warp, a, b, d):
    """fence_view_async_shared inside the branch of the elected thread."""
    for part in range(8):
        warp.st_shared(2048 * part + 16 * warp.threads, part, "v4.b32")
    warp.bar_sync()
    with leader(warp):
        warp.fence_proxy_async()
        warp.cp_async_bulk_global_shared(d + 0, 0, 16384)  # <- reported
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)


@faulty("proxy-fence-barrier", GEMM, shared=16384)
def the_storing_thread_does_not_wait_for_the_others(warp, a, b, d):
    for part in range(8):
        warp.st_shared(2048 * part + 16 * warp.threads, part, "v4.b32")
    warp.fence_proxy_async()
    with leader(warp, 127):
        warp.cp_async_bulk_global_shared(d + 0, 0, 16384)  # <- reported
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)


@faulty("overwritten-early", GEMM, shared=2048)
def the_output_buffer_of_the_next_tile(warp, a, b, d):
    """TileOPs' grouped GEMM: one buffer for every wave of a persistent block, and the store is still reading it."""
    for wave in range(3):
        warp.st_shared(16 * warp.threads, wave, "v4.b32")  # <- reported
        warp.fence_proxy_async()
        warp.bar_sync()
        with leader(warp):
            warp.cp_async_bulk_global_shared(d + 2048 * wave, 0, 2048)
            warp.cp_async_bulk_commit_group()
    with leader(warp):
        warp.cp_async_bulk_wait_group(0)


@faulty("overwritten-early", GEMM, shared=2048)
def all_but_the_storing_thread_run_ahead(warp, a, b, d):
    """The store is waited for, by the thread that made it: the others do not know, the barrier behind is missing."""
    for wave in range(2):
        warp.st_shared(16 * warp.threads, wave, "v4.b32")  # <- reported
        warp.fence_proxy_async()
        warp.bar_sync()
        with leader(warp):
            warp.cp_async_bulk_global_shared(d + 2048 * wave, 0, 2048)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0, read=True)


@faulty("overwritten-early", GEMM, shared=4096)
def two_buffers_and_a_wait_that_leaves_two(warp, a, b, d):
    """wait_group.read(2) where one may be left."""
    for wave in range(4):
        with leader(warp):
            warp.cp_async_bulk_wait_group(2, read=True)
        warp.bar_sync()
        warp.st_shared(2048 * (wave % 2) + 16 * warp.threads, wave, "v4.b32")  # <- reported
        warp.fence_proxy_async()
        warp.bar_sync()
        with leader(warp):
            warp.cp_async_bulk_global_shared(d + 2048 * wave, 2048 * (wave % 2), 2048)
            warp.cp_async_bulk_commit_group()
    with leader(warp):
        warp.cp_async_bulk_wait_group(0)


@faulty("overwritten-early", GEMM, shared=4096 + 8)
def a_stage_becomes_an_output_buffer_and_a_stage_again(warp, a, b, d):
    """mKernel's AllGather GEMM: C leaves from a stage, and the wait for that is not where the stage is filled again."""
    init(warp, {4096: 1})
    for task in range(2):
        with leader(warp):
            warp.mbarrier_arrive_expect_tx(4096, 2048)
            warp.cp_async_bulk_shared_global(0, a + 2048 * task, 2048, 4096)  # <- reported
        warp.mbarrier_wait(4096, task)
        held = warp.ld_shared(16 * warp.threads, "v4.b32")
        warp.bar_sync()
        warp.st_shared(16 * warp.threads, held, "v4.b32")
        warp.fence_proxy_async()
        warp.bar_sync()
        with leader(warp):
            warp.cp_async_bulk_global_shared(d + 2048 * task, 0, 2048)
            warp.cp_async_bulk_commit_group()
    with leader(warp):
        warp.cp_async_bulk_wait_group(0)


@faulty(("overwritten-early", "shared-race"), GEMM, shared=TILE + 8)
def a_bulk_load_over_what_others_still_load(warp, a, b, d):
    """The barrier between ld.shared of everybody and the next load is missing."""
    init(warp, {TILE: 1})
    for step in range(2):
        with leader(warp):
            warp.mbarrier_arrive_expect_tx(TILE, TILE)
            warp.cp_async_bulk_tensor_shared_global(0, box(a), (64 * step, 0), TILE)  # <- reported
        warp.mbarrier_wait(TILE, step)
        warp.ld_shared(16 * (127 - warp.threads), "v4.b32")


@faulty("overwritten-early", GEMM, block=256, shared=4 * TILE + 32)
def the_epilogue_writes_where_the_other_warpgroup_multiplies(warp, a, b, d):
    """Results are staged over A as soon as one's own wgmma has ended; the other warpgroup reads the same A."""
    loaded(warp, a, b, bar=4 * TILE)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    multiply(warp, c, 0, TILE)
    end(warp)
    if warp.warpgroup == 0:
        warp.st_shared(16 * warp.threads, c[:, :4], "v4.b32")  # <- reported
