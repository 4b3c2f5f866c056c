// Rung 1, naive: a thread for each element of D.
#include "ladder.h"

constexpr int TILE_M = 16, TILE_N = 16, THREADS = 256;

// A block's tile, its threads, and its bytes of shared memory; every rung states them like this.
__device__ int LAUNCH[] = {TILE_M, TILE_N, THREADS, 0};

extern "C" __global__ void kernel(const half* a, const half* b, float* d, int m, int n, int k) {
    int row = TILE_M * blockIdx.y + threadIdx.x / TILE_N, column = TILE_N * blockIdx.x + threadIdx.x % TILE_N;
    float c = 0;
    // your lines: fmaf, and a check of row and column
}
