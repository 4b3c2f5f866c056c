// wmma from global memory: the twin of wmma_global.py, with nvcuda::wmma itself.
#include <mma.h>

using namespace nvcuda;

constexpr int TILE = 16, WARPS = 2;

extern "C" __global__ void kernel(const __half* a, const __half* b, float* d, int m, int n, int depth) {
    int warp = threadIdx.x / 32;
    int row = TILE * (WARPS * blockIdx.y + warp / WARPS), column = TILE * (WARPS * blockIdx.x + warp % WARPS);
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;
    wmma::fill_fragment(c, 0.0f);
    for (int k = 0; k < depth; k += TILE) {
        wmma::fragment<wmma::matrix_a, 16, 16, 16, __half, wmma::row_major> held_a;
        wmma::fragment<wmma::matrix_b, 16, 16, 16, __half, wmma::row_major> held_b;
        wmma::load_matrix_sync(held_a, a + row * depth + k, depth);
        wmma::load_matrix_sync(held_b, b + k * n + column, n);
        wmma::mma_sync(c, held_a, held_b, c);
    }
    wmma::store_matrix_sync(d + row * n + column, c, n, wmma::mem_row_major);
}
