"""Faulty kernels in the wild, on Hopper: wgmma, its registers and tiles; setmaxnreg."""

import numpy as np
from kernels_wild_correct_wgmma import LDMATRIX, STMATRIX, TILE, WGMMA, box, init, multiply, store, swizzled, tile
from kernels_wild_faulty_hopper import GEMM, end, loaded
from kernels_wild_table import bits, faulty, floats, leader, one, words

SPARSE = "wgmma.mma_async.sp.sync.aligned.m64n64k32.f32.f16.f16"


# ------------------------------------------------------------------------------------------------ wgmma


@faulty("wgmma-unwaited", GEMM, shared=2 * TILE + 8)
def the_next_a_fragment_is_loaded_too_early(warp, a, b, d):
    """DeepGEMM's tf32 prenorm: A of the next step into the same registers, the wait only behind that."""
    loaded(warp, a, b)
    c, held = warp.registers(32, fill=0), warp.registers(4, fill=0)
    row = 16 * warp.warpid + warp.laneid % 16
    for k in range(4):
        held[...] = np.asarray(warp.run(LDMATRIX, swizzled(row, 2 * k + warp.laneid // 16)))  # <- reported
        if k:
            warp.wgmma_wait_group(0)
        warp.wgmma_fence()
        warp.run(WGMMA, c, held, tile(TILE).step(32 * k), True, 1, 1, 0)
        warp.wgmma_commit_group()
    warp.wgmma_wait_group(0)


@faulty("wgmma-fence-touched", GEMM, shared=2 * TILE + 8)
def the_accumulator_is_cleared_behind_the_fence(warp, a, b, d):
    """The order of two lines: warpgroup_arrive, then the loop that sets the registers to zero."""
    loaded(warp, a, b)
    c = warp.registers(32)
    warp.wgmma_fence()
    c[...] = 0
    warp.run(WGMMA, c, tile(0), tile(TILE), True, 1, 1, 0, 0)  # <- reported
    end(warp)


@faulty("wgmma-fence-touched", GEMM, shared=2 * TILE + 8)
def attention_rescales_without_a_fence(warp, a, b, d):
    """The output is scaled by the softmax between two products, and warpgroup_arrive is only before the loop."""
    loaded(warp, a, b)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    for _ in range(2):
        warp.run(WGMMA, c, tile(0), tile(TILE), True, 1, 1, 0, 0)  # <- reported
        end(warp)
        c[...] = bits(floats(c) * np.float32(0.5))


@faulty("wgmma-wait-weak", GEMM, shared=2 * TILE + 8)
def the_epilogue_behind_wait_group_1(warp, a, b, d):
    """The loop ends with wait_group(1), and nothing waits for the last group."""
    loaded(warp, a, b)
    c = warp.registers(32, fill=0)
    for k in range(4):
        warp.wgmma_fence()
        warp.run(WGMMA, c, tile(0).step(32 * k), tile(TILE).step(32 * k), True, 1, 1, 0, 0)
        warp.wgmma_commit_group()
        warp.wgmma_wait_group(1)
    warp.st_global(d.at(warp.threads // 2, 0), c[:, 0])  # <- reported


@faulty("wgmma-unwaited", GEMM, shared=2 * TILE + 8)
def the_epilogue_without_any_wait(warp, a, b, d):
    loaded(warp, a, b)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    multiply(warp, c, 0, TILE)
    warp.wgmma_commit_group()
    warp.st_global(d.at(warp.threads // 2, 0), c[:, 0])  # <- reported


@faulty("wgmma-uncommitted", GEMM, shared=2 * TILE + 8)
def waited_for_and_never_committed(warp, a, b, d):
    loaded(warp, a, b)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    warp.run(WGMMA, c, tile(0), tile(TILE), True, 1, 1, 0, 0)
    warp.wgmma_wait_group(0)
    warp.st_global(d.at(warp.threads // 2, 0), c[:, 0])  # <- reported


@faulty("wgmma-fence-first", GEMM, shared=2 * TILE + 8)
def wgmma_without_warpgroup_arrive(warp, a, b, d):
    loaded(warp, a, b)
    c = warp.registers(32, fill=0)
    warp.run(WGMMA, c, tile(0), tile(TILE), True, 1, 1, 0, 0)  # <- reported
    end(warp)


@faulty("wgmma-descriptors", GEMM, shared=2 * TILE + 8)
def each_warp_starts_at_its_own_rows(warp, a, b, d):
    """Habit from mma.sync: A's address moves with the warp."""
    loaded(warp, a, b)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    warp.run(WGMMA, c, tile(0).step(2048 * warp.warpid), tile(TILE), True, 1, 1, 0, 0)  # <- reported
    end(warp)


@faulty(("warpgroup-start", "warpgroup-divergent"), GEMM, block=160, shared=2 * TILE + 8)
def the_producer_is_warp_0(warp, a, b, d):
    """Warps 1 to 4 multiply: four in a row, and no warpgroup."""
    loaded(warp, a, b)
    if warp.warpid == 0:
        return
    warp.wgmma_fence()  # <- reported
    warp.run(WGMMA, warp.registers(32, fill=0), tile(0), tile(TILE), True, 1, 1, 0, 0)  # <- reported
    end(warp)


@faulty(("warpgroup-divergent", "exited-threads"), GEMM, shared=2 * TILE + 8)
def a_warp_without_rows_leaves_before_wgmma(warp, a, b, d):
    """The last 16 rows lie outside of the matrix, so their warp returns."""
    loaded(warp, a, b)
    if warp.warpid == 3:
        return
    warp.wgmma_fence()  # <- reported
    warp.run(WGMMA, warp.registers(32, fill=0), tile(0), tile(TILE), True, 1, 1, 0, 0)
    end(warp)


@faulty("uninitialised-registers", GEMM, shared=2 * TILE + 8)
def the_first_mma_adds_to_what_was_there(warp, a, b, d):
    """scale_d is 1 from the beginning, tiled_mma.accumulate_ was not set to Zero."""
    loaded(warp, a, b)
    c = warp.registers(32)
    warp.wgmma_fence()
    warp.run(WGMMA, c, tile(0), tile(TILE), True, 1, 1, 0, 0)  # <- reported
    end(warp)


@faulty(("out-of-range", "uninitialised-shared"), GEMM, shared=2 * TILE + 16)
def a_descriptor_of_one_stage_too_far(warp, a, b, d):
    loaded(warp, a, b)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    warp.run(WGMMA, c, tile(TILE), tile(2 * TILE), True, 1, 1, 0, 0)  # <- reported
    end(warp)


@faulty("proxy-fence-missing", GEMM, shared=2 * TILE + 8)
def sparse_wgmma_without_the_proxy_fence(warp, a, b, d):
    """TileLang's gemm_sp: the dense path emits fence.proxy.async, the sparse one does not."""
    for part in range(8):
        warp.st_shared(2048 * part + 16 * warp.threads, 0, "v4.b32")
    warp.bar_sync()
    c, metadata = warp.registers(32, fill=0), np.full(32, 0x44444444, np.uint32)
    warp.wgmma_fence()
    warp.run(SPARSE, c, tile(0), tile(TILE), metadata, 0, True, 1, 1, 0, 0)  # <- reported
    end(warp)


@faulty("proxy-fence-missing", GEMM, shared=2 * TILE + 8)
def cp_async_fills_a_tile_of_wgmma(warp, a, b, d):
    """The loader of Ampere in front of the multiplier of Hopper."""
    for part, matrix in enumerate((a, b)):
        for quarter in range(4):
            unit = warp.threads + 128 * quarter
            to = TILE * part + swizzled(unit // 8, unit % 8)
            warp.cp_async(to, matrix.at(unit // 8, 8 * (unit % 8)), 16, cache="cg")
    warp.cp_async_wait_all()
    warp.bar_sync()
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    warp.run(WGMMA, c, tile(0), tile(TILE), True, 1, 1, 0, 0)  # <- reported
    end(warp)


@faulty("proxy-fence-missing", GEMM, shared=3 * TILE + 8)
def probabilities_are_written_back_for_the_second_product(warp, a, b, d):
    """Backward attention stages dS in shared memory: stmatrix, a barrier, wgmma, and the fence was left out."""
    loaded(warp, a, b, bar=3 * TILE)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    multiply(warp, c, 0, TILE)
    end(warp)
    packed = floats(c).astype(np.float16).view(np.uint32)
    for part in range(4):
        row = 16 * warp.warpid + warp.laneid % 16
        warp.run(STMATRIX, 2 * TILE + swizzled(row, 2 * part + warp.laneid // 16), packed[:, 4 * part : 4 * part + 4])
    warp.bar_sync()
    warp.wgmma_fence()
    warp.run(WGMMA, c, tile(2 * TILE), tile(TILE), True, 1, 1, 0, 0)  # <- reported
    end(warp)


# ------------------------------------------------------------------------------------------------ registers, waiting


@faulty("deadlock", GEMM, block=384)
def more_registers_than_were_given_back(warp, a, b, d):
    """A report of CUTLASS's: 232 for two consumers, and the producer gives back less than they take."""
    if warp.warpgroup == 0:
        warp.setmaxnreg("dec", 80)
    else:
        warp.setmaxnreg("inc", 232)  # <- reported


@faulty("deadlock", GEMM, block=384)
def nobody_gives_registers_back(warp, a, b, d):
    """Helion's backward attention: compute warps ask for 240, no other warp has given any."""
    if warp.warpgroup:
        warp.setmaxnreg("inc", 240)  # <- reported


@faulty("aligned-divergent", GEMM, block=384)
def one_lane_gives_registers_back(warp, a, b, d):
    """setmaxnreg inside the branch of the elected thread."""
    if warp.warpid == 0:
        with one(warp):
            warp.setmaxnreg("dec", 40)  # <- reported


@faulty(("deadlock", "overwritten-early", "tma-unwaited"), words(4096), block=160, shared=4096 + 32)
def a_leader_arrives_before_its_warps_have_waited(warp, a):
    """Triton: one warp frees the buffer for all; the phase turns twice before a slow warp has looked."""
    init(warp, {4096: 1, 4104: 1})
    if warp.warpid == 4:
        with one(warp):
            for step in range(4):
                warp.mbarrier_wait(4104, (step + 1) % 2)
                warp.mbarrier_arrive_expect_tx(4096, 2048)
                warp.cp_async_bulk_shared_global(0, a + 2048 * step, 2048, 4096)  # <- reported
        return
    for step in range(4):
        warp.mbarrier_wait(4096, step % 2)  # <- reported
        warp.ld_shared(16 * warp.threads, "v4.b32")  # <- reported
        with leader(warp):
            warp.mbarrier_arrive(4104)


@faulty("out-of-range", GEMM, shared=TILE)
def a_stage_more_than_there_is_memory_for(warp, a, b, d):
    """The number of stages was raised, the dynamic shared memory was not."""
    init(warp, {0: 1})
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(0, TILE)
        warp.cp_async_bulk_tensor_shared_global(1024, box(a), (0, 0), 0)  # <- reported


@faulty("misaligned", GEMM, shared=2 * TILE)
def a_tile_behind_eight_bytes_of_mbarrier(warp, a, b, d):
    """The mbarrier comes first in the struct and pushes the tile off its boundary."""
    init(warp, {0: 1})
    with leader(warp):
        warp.mbarrier_arrive_expect_tx(0, TILE)
        warp.cp_async_bulk_tensor_shared_global(8, box(a), (0, 0), 0)  # <- reported


@faulty("warpgroup-divergent", GEMM, shared=2 * TILE + 8)
def one_warp_has_a_tile_more(warp, a, b, d):
    """The bound of the loop is of the warp and not of the warpgroup."""
    loaded(warp, a, b)
    c = warp.registers(32, fill=0)
    warp.wgmma_fence()
    for k in range(3 + (warp.warpid == 2)):
        warp.run(WGMMA, c, tile(0).step(32 * k), tile(TILE).step(32 * k), True, 1, 1, 0, 0)  # <- reported
    end(warp)  # <- reported


@faulty(("wgmma-fence-touched", "wgmma-unwaited"), GEMM, shared=2 * TILE + 8)
def two_products_share_their_a_registers(warp, a, b, d):
    """The next A is converted into the same registers between the commit and the wait, then the fence."""
    loaded(warp, a, b)
    c, held = warp.registers(32, fill=0), warp.registers(4, fill=0)
    warp.wgmma_fence()
    warp.run(WGMMA, c, held, tile(TILE), True, 1, 1, 0)
    warp.wgmma_commit_group()
    held[:, 1] = 7  # <- reported
    warp.wgmma_wait_group(0)
    store(warp, d, 0, 0, c)
