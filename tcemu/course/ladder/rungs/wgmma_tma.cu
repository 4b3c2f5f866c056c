// Rung 7, wgmma with TMA: one thread copies whole tiles, and warpgroups multiply them from shared memory.
#include "ladder.h"

constexpr int TILE_M = 128, TILE_N = 256, TILE_K = 64, THREADS = 256;
constexpr int STAGES = 4, A_BYTES = TILE_M * TILE_K * 2, STAGE_BYTES = A_BYTES + TILE_N * TILE_K * 2;
constexpr int SHARED = STAGES * STAGE_BYTES + 8 * STAGES;

__device__ int LAUNCH[] = {TILE_M, TILE_N, THREADS, SHARED, TILE_M, TILE_N};

extern __shared__ __align__(1024) unsigned char shared[];

__device__ u32 full(int stage) { return in_shared(shared) + STAGES * STAGE_BYTES + 8 * stage; }

__device__ void begin() {
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) mbarrier_init(full(stage), 1);
        fence_mbarrier_init();
    }
    __syncthreads();
}

__device__ void copy_stage(const TensorMap& a, const TensorMap& b, int step) {
    int stage = step % STAGES;
    u32 tile = in_shared(shared) + stage * STAGE_BYTES;
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(full(stage), STAGE_BYTES);
        cp_async_bulk_tensor(tile, a, TILE_K * step, TILE_M * blockIdx.y, full(stage));
        cp_async_bulk_tensor(tile + A_BYTES, b, TILE_K * step, TILE_N * blockIdx.x, full(stage));
    }
}

__device__ void multiply_stage(int stage, float (&c)[TILE_N / 2], bool first) {
    u32 tile = in_shared(shared) + stage * STAGE_BYTES;
    u64 a = descriptor(tile + threadIdx.x / 128 * 64 * 128), b = descriptor(tile + A_BYTES);
    wgmma_fence();
    for (int at = 0; at < 128; at += 32) wgmma(c, a + at / 16, b + at / 16, at > 0 || !first);
    wgmma_commit_group();
}

__device__ void store(float* d, int m, int n, int row, int column, const float (&c)[TILE_N / 2]) {
    row += threadIdx.x % 32 / 4, column += threadIdx.x % 4 * 2;
    for (int half = 0; half < 2; ++half)
        for (int j = 0; j < TILE_N / 8; ++j) {
            int y = row + 8 * half, x = column + 8 * j;
            float2 pair = {c[4 * j + 2 * half], c[4 * j + 2 * half + 1]};
            if (y < m && x < n) *reinterpret_cast<float2*>(d + y * n + x) = pair;
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
kernel(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* d, int m, int n, int k) {
    int steps = (k + TILE_K - 1) / TILE_K;
    float c[TILE_N / 2];
    begin();
    for (int step = 0; step < STAGES - 1; ++step)
        if (step < steps) copy_stage(a, b, step);
    for (int step = 0; step < steps; ++step) {
        int stage = step % STAGES, turn = step / STAGES;
        mbarrier_wait(full(stage), turn % 2);
        multiply_stage(stage, c, step == 0);
        wgmma_wait_group<1>();  // this warpgroup has read the stage before,
        __syncthreads();        // and so have all: it may be refilled
        if (step + STAGES - 1 < steps) copy_stage(a, b, step + STAGES - 1);
    }
    wgmma_wait_group<0>();
    store(d, m, n, TILE_M * blockIdx.y + threadIdx.x / 32 * 16, TILE_N * blockIdx.x, c);
}
