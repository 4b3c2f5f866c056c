// Rung 9, cluster: two blocks, one below the other, multiply the same rows of B; each copies half of them to both.
#include "ladder.h"

constexpr int TILE_M = 128, TILE_N = 256, TILE_K = 64, CONSUMERS = 2, THREADS = 128 * CONSUMERS + 128;
constexpr int CLUSTER = 2, PART_N = TILE_N / CLUSTER, EVERYONE = (1 << CLUSTER) - 1;
constexpr int STAGES = 4, A_BYTES = TILE_M * TILE_K * 2, STAGE_BYTES = A_BYTES + TILE_N * TILE_K * 2;
constexpr int SHARED = STAGES * STAGE_BYTES + 16 * STAGES;

__device__ int LAUNCH[] = {TILE_M, TILE_N, THREADS, SHARED, TILE_M, PART_N};

extern __shared__ __align__(1024) unsigned char shared[];

__device__ u32 full(int stage) { return in_shared(shared) + STAGES * STAGE_BYTES + 8 * stage; }
__device__ u32 empty(int stage) { return full(STAGES + stage); }

__device__ void begin() {
    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full(stage), 1);
            mbarrier_init(empty(stage), 4 * CONSUMERS * CLUSTER);
        }
        fence_mbarrier_init();
    }
    __syncwarp();
    barrier_cluster();
}

__device__ void produce(const TensorMap& a, const TensorMap& b, int steps) {
    int part = PART_N * cluster_ctarank();
    for (int step = 0; step < steps; ++step) {
        int stage = step % STAGES, turn = step / STAGES;
        u32 tile = in_shared(shared) + stage * STAGE_BYTES;
        mbarrier_wait(empty(stage), (turn + 1) % 2);
        mbarrier_arrive_expect_tx(full(stage), STAGE_BYTES);  // the other block brings some of them
        cp_async_bulk_tensor(tile, a, TILE_K * step, TILE_M * blockIdx.y, full(stage));
        cp_async_bulk_tensor_multicast(tile + A_BYTES + 128 * part, b, TILE_K * step, TILE_N * blockIdx.x + part,
                                       full(stage), EVERYONE);
    }
}

__device__ void multiply_stage(int stage, float (&c)[TILE_N / 2], bool first) {
    u32 tile = in_shared(shared) + stage * STAGE_BYTES;
    u64 a = descriptor(tile + threadIdx.x / 128 * 64 * 128), b = descriptor(tile + A_BYTES);
    wgmma_fence();
    for (int at = 0; at < 128; at += 32) wgmma(c, a + at / 16, b + at / 16, at > 0 || !first);
    wgmma_commit_group();
}

__device__ void release(int stage) {
    int rank = threadIdx.x % 32;
    if (rank < CLUSTER) mbarrier_arrive_shared_cluster(mapa(empty(stage), rank));
}

__device__ void consume(float (&c)[TILE_N / 2], int steps) {
    for (int step = 0; step < steps; ++step) {
        int stage = step % STAGES, turn = step / STAGES;
        mbarrier_wait(full(stage), turn % 2);
        multiply_stage(stage, c, step == 0);
        wgmma_wait_group<1>();
        if (step > 0) release((step - 1) % STAGES);
    }
    wgmma_wait_group<0>();
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

extern "C" __global__ void __cluster_dims__(1, CLUSTER, 1) __launch_bounds__(THREADS, 1)
kernel(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b, float* d, int m, int n, int k) {
    int steps = (k + TILE_K - 1) / TILE_K;
    begin();
    if (threadIdx.x / 128 == CONSUMERS) {
        setmaxnreg_dec<40>();
        if (threadIdx.x == 128 * CONSUMERS) produce(a, b, steps);
    } else {
        setmaxnreg_inc<232>();
        float c[TILE_N / 2];
        consume(c, steps);
        store(d, m, n, TILE_M * blockIdx.y + threadIdx.x / 32 * 16, TILE_N * blockIdx.x, c);
    }
    __syncwarp();
    barrier_cluster();  // until then, the other block signals this one's mbarriers and copies into its memory
}
