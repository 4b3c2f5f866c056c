// Rung 1, naive: a thread for each element of D.
#include "ladder.h"

constexpr int TILE_M = 16, TILE_N = 16, THREADS = 256;

__device__ int LAUNCH[] = {TILE_M, TILE_N, THREADS, 0};

extern "C" __global__ void kernel(const half* a, const half* b, float* d, int m, int n, int k) {
    int row = TILE_M * blockIdx.y + threadIdx.x / TILE_N, column = TILE_N * blockIdx.x + threadIdx.x % TILE_N;
    if (row < m && column < n) {
        float c = 0;
        for (int i = 0; i < k; ++i) {
            float left = a[row * k + i], right = b[column * k + i];
            c = fmaf(left, right, c);
        }
        d[row * n + column] = c;
    }
}
