// Rung 3, mma.sync: a warp for each 64 x 32 of D, whose lanes load their own elements of the fragments.
#include "ladder.h"

constexpr int TILE_M = 128, TILE_N = 128, THREADS = 256, WARP_M = 64, WARP_N = 32;

__device__ int LAUNCH[] = {TILE_M, TILE_N, THREADS, 0};

__device__ u32 load_pair(const half* matrix, int rows, int k, int row, int column) {
    u32 pair = 0;
    if (row < rows && column < k) pair = *reinterpret_cast<const u32*>(matrix + row * k + column);
    return pair;
}

__device__ void multiply(const half* a, const half* b, int m, int n, int k, int row, int column, int step,
                         float (&c)[4][4][4]) {
    int down = threadIdx.x % 32 / 4, along = 16 * step + threadIdx.x % 4 * 2;
    u32 held_a[4][4], held_b[4][2];
    for (int i = 0; i < 4; ++i)
        for (int r = 0; r < 4; ++r)
            held_a[i][r] = load_pair(a, m, k, row + 16 * i + down + 8 * (r % 2), along + 8 * (r / 2));
    for (int j = 0; j < 4; ++j)
        for (int r = 0; r < 2; ++r) held_b[j][r] = load_pair(b, n, k, column + 8 * j + down, along + 8 * r);
    for (int i = 0; i < 4; ++i)
        for (int j = 0; j < 4; ++j) mma(c[i][j], held_a[i], held_b[j][0], held_b[j][1]);
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
    for (int step = 0; step < (k + 15) / 16; ++step) multiply(a, b, m, n, k, row, column, step, c);
    store(d, m, n, row, column, c);
}
