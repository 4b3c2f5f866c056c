// Rung 6, swizzle: the units of a row are permuted, so that the eight rows of a matrix are in different banks.
#include "ladder.h"

constexpr int TILE_M = 128, TILE_N = 128, TILE_K = 64, THREADS = 256, WARP_M = 64, WARP_N = 32;
constexpr int STAGES = 3, A_BYTES = TILE_M * TILE_K * 2, STAGE_BYTES = A_BYTES + TILE_N * TILE_K * 2;
constexpr int SHARED = STAGES * STAGE_BYTES;

__device__ int LAUNCH[] = {TILE_M, TILE_N, THREADS, SHARED};

extern __shared__ __align__(1024) unsigned char shared[];

__device__ u32 place(int row, int unit) { return 128 * row + 16 * (unit ^ row % 8); }

__device__ void copy_tile(u32 to, const half* matrix, int rows, int k, int first, int column) {
    for (int i = threadIdx.x; i < TILE_M * 8; i += THREADS) {
        int row = first + i / 8, x = column + i % 8 * 8;
        bool inside = row < rows && x < k;
        cp_async(to + place(i / 8, i % 8), inside ? matrix + row * k + x : matrix, inside ? 16 : 0);
    }
}

__device__ void copy_stage(const half* a, const half* b, int m, int n, int k, int step) {
    u32 tile = in_shared(shared) + step % STAGES * STAGE_BYTES;
    copy_tile(tile, a, m, k, TILE_M * blockIdx.y, TILE_K * step);
    copy_tile(tile + A_BYTES, b, n, k, TILE_N * blockIdx.x, TILE_K * step);
}

__device__ void multiply_stage(int step, float (&c)[4][4][4]) {
    u32 tile = in_shared(shared) + step % STAGES * STAGE_BYTES;
    int warp = threadIdx.x / 32, down = threadIdx.x % 16, along = threadIdx.x % 32 / 16;
    int row = WARP_M * (warp / 4), column = WARP_N * (warp % 4);
    for (int unit = 0; unit < TILE_K / 8; unit += 2) {
        u32 held_a[4][4], held_b[2][4];
        for (int i = 0; i < 4; ++i) ldmatrix(held_a[i], tile + place(row + 16 * i + down, unit + along));
        for (int j = 0; j < 2; ++j) ldmatrix(held_b[j], tile + A_BYTES + place(column + 16 * j + down, unit + along));
        for (int i = 0; i < 4; ++i)
            for (int j = 0; j < 4; ++j) mma(c[i][j], held_a[i], held_b[j / 2][j % 2], held_b[j / 2][j % 2 + 2]);
    }
}

__device__ void store(float* d, int m, int n, int row, int column, const float (&c)[4][4][4]) {
    row += threadIdx.x % 32 / 4, column += threadIdx.x % 4 * 2;
    for (int i = 0; i < 4; ++i)
        for (int half = 0; half < 2; ++half)
            for (int j = 0; j < 4; ++j) {
                int y = row + 16 * i + 8 * half, x = column + 8 * j;
                float2 pair = {c[i][j][2 * half], c[i][j][2 * half + 1]};
                if (y < m && x < n) *reinterpret_cast<float2*>(d + y * n + x) = pair;
            }
}

extern "C" __global__ void __launch_bounds__(THREADS)
kernel(const half* a, const half* b, float* d, int m, int n, int k) {
    int warp = threadIdx.x / 32;
    int row = TILE_M * blockIdx.y + WARP_M * (warp / 4), column = TILE_N * blockIdx.x + WARP_N * (warp % 4);
    float c[4][4][4] = {};
    int steps = (k + TILE_K - 1) / TILE_K;
    for (int step = 0; step < STAGES - 1; ++step) {
        if (step < steps) copy_stage(a, b, m, n, k, step);
        cp_async_commit_group();
    }
    for (int step = 0; step < steps; ++step) {
        cp_async_wait_group<STAGES - 2>();  // this thread's copies for this step have arrived
        __syncthreads();                    // all threads' have, and all have read the stage before, to be refilled
        if (step + STAGES - 1 < steps) copy_stage(a, b, m, n, k, step + STAGES - 1);
        cp_async_commit_group();  // an empty group too, so that the number to wait for stays the same
        multiply_stage(step, c);
    }
    store(d, m, n, row, column, c);
}
