// Rung 2, wmma: a warp for each 16 x 16 of D.
#include <mma.h>

#include "ladder.h"

using namespace nvcuda;

constexpr int TILE_M = 32, TILE_N = 32, THREADS = 128;

__device__ int LAUNCH[] = {TILE_M, TILE_N, THREADS, 0};

extern "C" __global__ void kernel(const half* a, const half* b, float* d, int m, int n, int k) {
    int warp = threadIdx.x / 32;
    int row = TILE_M * blockIdx.y + 16 * (warp / 2), column = TILE_N * blockIdx.x + 16 * (warp % 2);
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int i = 0; i < k; i += 16) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> held_a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> held_b;
        wmma::load_matrix_sync(held_a, a + row * k + i, k);
        wmma::load_matrix_sync(held_b, b + column * k + i, k);
        wmma::mma_sync(c, held_a, held_b, c);
    }
    wmma::store_matrix_sync(d + row * n + column, c, n, wmma::mem_row_major);
}
