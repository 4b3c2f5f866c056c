// NVFP4 with tcgen05.mma: the twin of tcgen05_nvfp4.py, made as tcgen05_tma.cu is. Its stages have the scales, too.
#define BLOCKS (1 + COLUMNS / 128)
#define SCALES 2048
#define SCALE_BYTES (BLOCKS * SCALES)
#include "tcgen05_tma.cu"

// The scales of 128 rows for one product: bytes of shared memory, columns of Tensor Memory.
constexpr int SCALE_TILE = 512, SCALE_COLUMNS = 4, PRODUCTS = LINE / STEP;

__device__ void load_bytes(u32 to, const void* from, u32 size, u32 bar) {
    asm volatile("cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 ::"r"(to), "l"(from), "r"(size), "r"(bar) : "memory");
}

// The descriptor of 32 rows of 16 bytes without a swizzle: 8 rows follow each other, SBO is 128 bytes.
__device__ u64 of_scales(u32 tile) {
    return static_cast<u64>(tile & 0x3FFFF) >> 4 | SCALE_TILE >> 4 << 16 | 128ull >> 4 << 32 | 1ull << 46;
}

__device__ void copy_scales(u32 taddr, u32 tile) {
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(taddr), "l"(of_scales(tile)) : "memory");
}

__device__ void multiply_scaled(u32 d, u64 a, u64 b, u32 scales_a, u32 scales_b, bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0; "
                 "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X [%0], %1, %2, %3, [%4], [%5], p; }"
                 ::"r"(d), "l"(a), "l"(b), "r"(IDESC), "r"(scales_a), "r"(scales_b), "r"(static_cast<u32>(add))
                 : "memory");
}

__device__ void copy_scaled(const void* a, const unsigned char* scales_a, const void* b, const unsigned char* scales_b,
                            int across, int tiles, int steps) {
    Ring<STAGES> here;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
        for (int step = 0; step < steps; ++step, here.next()) {
            u32 to = first_stage() + here.stage * STAGE_BYTES, bar = full(here.stage);
            u32 scales = to + STAGE_BYTES - SCALE_BYTES;
            int y = tile / across, x = tile % across;
            mbarrier_wait(empty(here.stage), (here.turn + 1) % 2);
            mbarrier_arrive_expect_tx(bar, STAGE_BYTES);
            load_box(to, a, LINE * step, ROWS * y, bar);
            load_box(to + ROWS * LINE, b, LINE * step, COLUMNS * x, bar);
            load_bytes(scales, scales_a + static_cast<long long>(y * steps + step) * SCALES, SCALES, bar);
            for (int i = 1; i < BLOCKS; ++i) {
                long long row = (BLOCKS - 1) * x + i - 1;
                load_bytes(scales + i * SCALES, scales_b + (row * steps + step) * SCALES, SCALES, bar);
            }
        }
}

// Issue the products of a stage, each after the copies of its scales.
__device__ void multiply_stage(int stage, u32 taddr, u32 d, bool first) {
    u32 start = first_stage() + stage * STAGE_BYTES, scales = start + STAGE_BYTES - SCALE_BYTES;
    u32 to = taddr + ACCUMULATORS * COLUMNS;
    u64 a = for_tcgen05(k_major(start)), b = for_tcgen05(k_major(start + ROWS * LINE));
    for (int product = 0; product < PRODUCTS; ++product) {
        for (int i = 0; i < BLOCKS; ++i)
            copy_scales(to + i * SCALE_COLUMNS, scales + i * SCALES + product * SCALE_TILE);
        int at = STEP * product / 16;
        multiply_scaled(d, a + at, b + at, to, to + SCALE_COLUMNS, !first || product > 0);
    }
}

__device__ void multiply_tiles_scaled(u32 taddr, int tiles, int steps) {
    Ring<STAGES> here;
    Ring<ACCUMULATORS> sums;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, sums.next()) {
        mbarrier_wait(stored(sums.stage), (sums.turn + 1) % 2);
        after_thread_sync();
        for (int step = 0; step < steps; ++step, here.next()) {
            mbarrier_wait(full(here.stage), here.turn % 2);
            after_thread_sync();
            multiply_stage(here.stage, taddr, taddr + sums.stage * COLUMNS, step == 0);
            commit_to(empty(here.stage));
        }
        commit_to(summed(sums.stage));
    }
}

extern "C" __global__ void __launch_bounds__(32 * (MULTIPLIER + 1))
scaled(const void* a, const unsigned char* scales_a, const void* b, const unsigned char* scales_b, float* d, int m,
       int n, int steps) {
    int across = (n + COLUMNS - 1) / COLUMNS, tiles = (m + ROWS - 1) / ROWS * across;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 taddr = begin();
    if (warp == COPIER && lane == 0) copy_scaled(a, scales_a, b, scales_b, across, tiles, steps);
    if (warp == MULTIPLIER && lane == 0) multiply_tiles_scaled(taddr, tiles, steps);
    if (warp < STORERS) store_tiles(taddr, d, m, n, across, tiles);
    end(taddr);
}
