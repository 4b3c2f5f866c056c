// mma.sp on a pruned matrix: the twin of mma_sparse.py. tcemu.gemm.twins.inline makes `mma`.
#include <cuda_fp16.h>

#include "common.h"

constexpr int M = 64, N = 64, K = 32;

__shared__ __align__(128) unsigned char tile[2 * K * N];

__device__ u32 place_b(int row, int unit) { return in_shared(tile) + row * 128 + ((unit ^ row % 8) * 16); }

__device__ void accumulate(float (&c)[N / 8][4], const uint4* values, const u32* metadata, const __half* b, int n,
                           int depth, int steps) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int step = 0; step < steps; ++step) {
        for (int half = 0; half < 2; ++half) {
            int unit = threadIdx.x + 128 * half;
            copy(place_b(unit / 8, unit % 8), b, depth, n, K * step + unit / 8, N * blockIdx.x + 8 * (unit % 8));
        }
        commit();
        int at = ((M / 16 * blockIdx.y + warp) * steps + step) * 32 + lane;
        uint4 held = values[at];
        u32 a[4] = {held.x, held.y, held.z, held.w}, codes = metadata[at];
        wait<0>();
        __syncthreads();
        for (int j = 0; j < N / 8; ++j) {
            u32 lower[4];
            ldmatrix_trans(lower, place_b(lane, j));
            mma(c[j], a, lower, codes);
        }
        __syncthreads();
    }
}

__device__ void store_all(float* d, const float (&c)[N / 8][4], int m, int n) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int j = 0; j < N / 8; ++j)
        store(d, c[j], m, n, M * blockIdx.y + 16 * warp + lane / 4, N * blockIdx.x + 8 * j);
}

extern "C" __global__ void __launch_bounds__(128)
kernel(const uint4* values, const u32* metadata, const __half* b, float* d, int m, int n, int depth, int steps) {
    float c[N / 8][4] = {};
    accumulate(c, values, metadata, b, n, depth, steps);
    store_all(d, c, m, n);
}
