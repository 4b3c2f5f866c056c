// tcgen05.mma fed by TMA: the twin of tcgen05_tma.py. The compiler's options define Accumulator, KIND (of tcgen05.mma),
// IDESC (the instruction descriptor), COLUMNS, STAGES, ACCUMULATORS and DEPTH (elements in 128 bytes).
#include "common.h"

constexpr int LINE = 128, STEP = 32, ROWS = 128, LOADED = 16;
constexpr int STAGE_BYTES = (ROWS + COLUMNS) * LINE;
constexpr int STORERS = 4, COPIER = 4, MULTIPLIER = 5;
// Columns of Tensor Memory: a power of two, at least 32.
constexpr int NEEDED = ACCUMULATORS * COLUMNS;
constexpr int TENSOR_COLUMNS = NEEDED > 256 ? 512 : NEEDED > 128 ? 256 : NEEDED > 64 ? 128 : NEEDED > 32 ? 64 : 32;

extern __shared__ unsigned char dynamic[];

// The 128-byte swizzle repeats every 1,024 bytes: the stages start at a multiple of that.
__device__ u32 first_stage() { return (in_shared(dynamic) + 1023) / 1024 * 1024; }
__device__ u32 full(int stage) { return first_stage() + STAGES * STAGE_BYTES + 8 * stage; }
__device__ u32 empty(int stage) { return full(STAGES + stage); }
__device__ u32 summed(int accumulator) { return empty(STAGES + accumulator); }
__device__ u32 stored(int accumulator) { return summed(ACCUMULATORS + accumulator); }
__device__ u32 slot() { return stored(ACCUMULATORS); }

__device__ void after_thread_sync() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
__device__ void before_thread_sync() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }

// A descriptor for tcgen05: as k_major, but bits 48 to 46 are 1, and the code of the swizzle is 2 in bits 63 to 61.
__device__ u64 tile_of(u32 tile) { return (k_major(tile) & ~(3ull << 62)) | 1ull << 46 | 2ull << 61; }

__device__ void multiply(u32 d, u64 a, u64 b, bool add) {
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::" KIND " [%0], %1, %2, %3, p; }"
                 ::"r"(d), "l"(a), "l"(b), "r"(IDESC), "r"(static_cast<u32>(add)) : "memory");
}

__device__ void commit_to(u32 bar) {
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
}

__device__ void load(Accumulator (&c)[LOADED], u32 from) {
    u32 held[LOADED];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
                 : "=r"(held[0]), "=r"(held[1]), "=r"(held[2]), "=r"(held[3]), "=r"(held[4]), "=r"(held[5]),
                   "=r"(held[6]), "=r"(held[7]), "=r"(held[8]), "=r"(held[9]), "=r"(held[10]), "=r"(held[11]),
                   "=r"(held[12]), "=r"(held[13]), "=r"(held[14]), "=r"(held[15]) : "r"(from));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    for (int i = 0; i < LOADED; ++i) c[i] = reinterpret_cast<Accumulator&>(held[i]);
}

__device__ void copy_tiles(const void* a, const void* b, int across, int tiles, int steps) {
    Ring<STAGES> here;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x)
        for (int step = 0; step < steps; ++step, here.next()) {
            u32 to = first_stage() + here.stage * STAGE_BYTES;
            mbarrier_wait(empty(here.stage), (here.turn + 1) % 2);
            mbarrier_arrive_expect_tx(full(here.stage), STAGE_BYTES);
            load_box(to, a, DEPTH * step, ROWS * (tile / across), full(here.stage));
            load_box(to + ROWS * LINE, b, DEPTH * step, COLUMNS * (tile % across), full(here.stage));
        }
}

__device__ void multiply_tiles(u32 taddr, int tiles, int steps) {
    Ring<STAGES> here;
    Ring<ACCUMULATORS> sums;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, sums.next()) {
        u32 d = taddr + sums.stage * COLUMNS;
        mbarrier_wait(stored(sums.stage), (sums.turn + 1) % 2);
        after_thread_sync();
        for (int step = 0; step < steps; ++step, here.next()) {
            mbarrier_wait(full(here.stage), here.turn % 2);
            after_thread_sync();
            u32 start = first_stage() + here.stage * STAGE_BYTES;
            u64 a = tile_of(start), b = tile_of(start + ROWS * LINE);
            for (int at = 0; at < LINE; at += STEP) multiply(d, a + at / 16, b + at / 16, step > 0 || at > 0);
            commit_to(empty(here.stage));
        }
        commit_to(summed(sums.stage));
    }
}

__device__ void store_tile(u32 taddr, Accumulator* d, int m, int n, int y, int x) {
    int quarter = threadIdx.x / 32 * 32, row = ROWS * y + threadIdx.x;
    after_thread_sync();
    for (int at = 0; at < COLUMNS; at += LOADED) {
        Accumulator c[LOADED];
        load(c, taddr + (quarter << 16) + at);
        for (int i = 0; i < LOADED; ++i) {
            int column = COLUMNS * x + at + i;
            if (column < n && row < m) d[static_cast<long long>(row) * n + column] = c[i];
        }
    }
    before_thread_sync();
}

__device__ void store_tiles(u32 taddr, Accumulator* d, int m, int n, int across, int tiles) {
    Ring<ACCUMULATORS> sums;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, sums.next()) {
        mbarrier_wait(summed(sums.stage), sums.turn % 2);
        store_tile(taddr + sums.stage * COLUMNS, d, m, n, tile / across, tile % across);
        __syncwarp();
        if (threadIdx.x % 32 == 0) mbarrier_arrive(stored(sums.stage));
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
            mbarrier_init(stored(accumulator), STORERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    if (warp == MULTIPLIER) {
        asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;"
                     ::"r"(slot()), "n"(TENSOR_COLUMNS) : "memory");
        asm volatile("tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;");
    }
    before_thread_sync();
    __syncthreads();
    after_thread_sync();
    u32 taddr;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(taddr) : "r"(slot()) : "memory");
    return taddr;
}

extern "C" __global__ void __launch_bounds__(32 * (MULTIPLIER + 1))
kernel(const void* a, const void* b, Accumulator* d, int m, int n, int k) {
    int across = (n + COLUMNS - 1) / COLUMNS, tiles = (m + ROWS - 1) / ROWS * across, steps = (k + DEPTH - 1) / DEPTH;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 taddr = begin();
    if (warp == COPIER && lane == 0) copy_tiles(a, b, across, tiles, steps);
    if (warp == MULTIPLIER && lane == 0) multiply_tiles(taddr, tiles, steps);
    if (warp < STORERS) store_tiles(taddr, d, m, n, across, tiles);
    before_thread_sync();
    __syncthreads();
    if (warp == MULTIPLIER) {
        after_thread_sync();
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(taddr), "n"(TENSOR_COLUMNS));
    }
}
