// tcgen05.mma fed by TMA: the twin of tcgen05_tma.py. The compiler's options define Accumulator, KIND (of tcgen05.mma),
// IDESC (the instruction descriptor), COLUMNS, STAGES, ACCUMULATORS, GROUP (blocks that work on a tile together) and
// DEPTH (elements in 128 bytes).
#include "tcgen05.h"

constexpr int LINE = 128, STEP = 32, ROWS = 128, LOADED = 16;
constexpr int TILE_ROWS = GROUP * ROWS, PART = COLUMNS / GROUP, LEADER = 0;
#ifndef SCALE_BYTES  // of tcgen05_nvfp4.cu
#define SCALE_BYTES 0
#endif
constexpr int STAGE_BYTES = (ROWS + PART) * LINE + SCALE_BYTES;
constexpr int STORERS = 4, COPIER = 4, MULTIPLIER = 5;
// Columns of Tensor Memory: a power of two, at least 32.
constexpr int NEEDED = ACCUMULATORS * COLUMNS + SCALE_BYTES / 512;
constexpr int TENSOR_COLUMNS = NEEDED > 256 ? 512 : NEEDED > 128 ? 256 : NEEDED > 64 ? 128 : NEEDED > 32 ? 64 : 32;

extern __shared__ unsigned char dynamic[];

// The 128-byte swizzle repeats every 1,024 bytes: the stages start at a multiple of that.
__device__ u32 first_stage() { return (in_shared(dynamic) + 1023) / 1024 * 1024; }
__device__ u32 full(int stage) { return first_stage() + STAGES * STAGE_BYTES + 8 * stage; }
__device__ u32 empty(int stage) { return full(STAGES + stage); }
__device__ u32 summed(int accumulator) { return empty(STAGES + accumulator); }
__device__ u32 stored(int accumulator) { return summed(ACCUMULATORS + accumulator); }
__device__ u32 slot() { return stored(ACCUMULATORS); }

__device__ void multiply(u32 d, u64 a, u64 b, bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma" CTA_GROUP ".kind::" KIND " [%0], %1, %2, %3, p; }"
                 ::"r"(d), "l"(a), "l"(b), "r"(IDESC), "r"(static_cast<u32>(add)) : "memory");
}

// As load_box, but the mbarrier may be the leader's.
__device__ void load_part(u32 to, const void* map, int x, int y, u32 bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes" CTA_GROUP
                 " [%0], [%1, {%2, %3}], [%4];" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}

__device__ void arrive_at_leader(u32 bar) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mapa(bar, LEADER)) : "memory");
}

__device__ void copy_tiles(const void* a, const void* b, int across, int tiles, int steps) {
    Ring<STAGES> here;
    for (int tile = blockIdx.x / GROUP; tile < tiles; tile += gridDim.x / GROUP)
        for (int step = 0; step < steps; ++step, here.next()) {
            u32 to = first_stage() + here.stage * STAGE_BYTES;
            mbarrier_wait(empty(here.stage), (here.turn + 1) % 2);
            if (rank() == LEADER) mbarrier_arrive_expect_tx(full(here.stage), GROUP * STAGE_BYTES);
            u32 arrived = mapa(full(here.stage), LEADER);
            load_part(to, a, DEPTH * step, TILE_ROWS * (tile / across) + ROWS * rank(), arrived);
            load_part(to + ROWS * LINE, b, DEPTH * step, COLUMNS * (tile % across) + PART * rank(), arrived);
        }
    for (int stage = 0; stage < STAGES; ++stage, here.next()) mbarrier_wait(empty(here.stage), (here.turn + 1) % 2);
}

__device__ void multiply_tiles(u32 taddr, int tiles, int steps) {
    Ring<STAGES> here;
    Ring<ACCUMULATORS> sums;
    for (int tile = blockIdx.x / GROUP; tile < tiles; tile += gridDim.x / GROUP, sums.next()) {
        u32 d = taddr + sums.stage * COLUMNS;
        mbarrier_wait(stored(sums.stage), (sums.turn + 1) % 2);
        after_thread_sync();
        for (int step = 0; step < steps; ++step, here.next()) {
            mbarrier_wait(full(here.stage), here.turn % 2);
            after_thread_sync();
            u32 start = first_stage() + here.stage * STAGE_BYTES;
            u64 a = for_tcgen05(k_major(start)), b = for_tcgen05(k_major(start + ROWS * LINE));
            for (int at = 0; at < LINE; at += STEP) multiply(d, a + at / 16, b + at / 16, step > 0 || at > 0);
            commit_to(empty(here.stage));
        }
        commit_to(summed(sums.stage));
    }
}

__device__ void store_tile(u32 taddr, Accumulator* d, int m, int n, int down, int right) {
    int quarter = threadIdx.x / 32 * 32, row = down + ROWS * rank() + threadIdx.x;
    after_thread_sync();
    for (int at = 0; at < COLUMNS; at += LOADED) {
        Accumulator c[LOADED];
        load(c, taddr + (quarter << 16) + at);
        for (int i = 0; i < LOADED; ++i) {
            int column = right + at + i;
            if (column < n && row < m) d[static_cast<long long>(row) * n + column] = c[i];
        }
    }
    before_thread_sync();
}

__device__ void store_tiles(u32 taddr, Accumulator* d, int m, int n, int across, int tiles) {
    Ring<ACCUMULATORS> sums;
    for (int tile = blockIdx.x / GROUP; tile < tiles; tile += gridDim.x / GROUP, sums.next()) {
        mbarrier_wait(summed(sums.stage), sums.turn % 2);
        store_tile(taddr + sums.stage * COLUMNS, d, m, n, TILE_ROWS * (tile / across), COLUMNS * (tile % across));
        __syncwarp();
        if (threadIdx.x % 32 == 0) arrive_at_leader(stored(sums.stage));
    }
}

// Initialises the mbarriers and allocates the columns; returns their address.
__device__ u32 begin() {
    int warp = threadIdx.x / 32;
    if (threadIdx.x == 32 * COPIER) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full(stage), 1);
            mbarrier_init(empty(stage), 1);
        }
        for (int accumulator = 0; accumulator < ACCUMULATORS; ++accumulator) {
            mbarrier_init(summed(accumulator), 1);
            mbarrier_init(stored(accumulator), GROUP * STORERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
    meet();  // the peer has to run before columns are allocated in both
    if (warp == MULTIPLIER) allocate<TENSOR_COLUMNS>(slot());
    meet();
    return allocated(slot());
}

// Frees the columns when everybody has done with them.
__device__ void end(u32 taddr) {
    __syncwarp();
    meet();
    if (threadIdx.x / 32 == MULTIPLIER) deallocate<TENSOR_COLUMNS>(taddr);
}

extern "C" __global__ void __cluster_dims__(GROUP, 1, 1) __launch_bounds__(32 * (MULTIPLIER + 1))
kernel(const void* a, const void* b, Accumulator* d, int m, int n, int k) {
    int across = (n + COLUMNS - 1) / COLUMNS, tiles = (m + TILE_ROWS - 1) / TILE_ROWS * across;
    int steps = (k + DEPTH - 1) / DEPTH, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 taddr = begin();
    if (warp == COPIER && lane == 0) copy_tiles(a, b, across, tiles, steps);
    if (warp == MULTIPLIER && lane == 0 && rank() == LEADER) multiply_tiles(taddr, tiles, steps);
    if (warp < STORERS) store_tiles(taddr, d, m, n, across, tiles);
    end(taddr);
}
