// mma.sync with ldmatrix, fed by cp.async: the twin of mma_pipeline.py. The compiler's options define STAGES, and
// tcemu.gemm.twins.inline makes `mma` from the instruction. With SWIZZLED=0, units lie in their natural order.
#include <cuda_fp16.h>

#include "common.h"

#ifndef SWIZZLED
#define SWIZZLED 1
#endif

constexpr int M = 64, N = 64, K = 32;
constexpr int A_BYTES = 2 * M * K, STAGE_BYTES = A_BYTES + 2 * K * N;

extern __shared__ __align__(128) unsigned char dynamic[];

__device__ u32 place_a(int row, int unit) { return row * 64 + ((unit ^ SWIZZLED * (row / 2 % 4)) * 16); }
__device__ u32 place_b(int row, int unit) { return row * 128 + ((unit ^ SWIZZLED * (row % 8)) * 16); }

__device__ void copy_stage(const __half* a, const __half* b, int m, int n, int depth, int k, int stage) {
    u32 first_a = in_shared(dynamic) + stage * STAGE_BYTES, first_b = first_a + A_BYTES;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        int unit = threadIdx.x + 128 * half;
        copy(first_a + place_a(unit / 4, unit % 4), a, m, depth, M * blockIdx.y + unit / 4, k + 8 * (unit % 4));
        copy(first_b + place_b(unit / 8, unit % 8), b, depth, n, k + unit / 8, N * blockIdx.x + 8 * (unit % 8));
    }
}

__device__ void multiply_stage(int stage, float (&c)[2][4][4]) {
    u32 first_a = in_shared(dynamic) + stage * STAGE_BYTES, first_b = first_a + A_BYTES;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int row = 32 * (warp / 2), column = 32 * (warp % 2), down = lane % 16, along = lane / 16;
    for (int k = 0; k < K; k += 16) {
        u32 a[2][4], b[2][4];
        for (int i = 0; i < 2; ++i) {
            ldmatrix(a[i], first_a + place_a(row + 16 * i + down, k / 8 + along));
            ldmatrix_trans(b[i], first_b + place_b(k + down, column / 8 + 2 * i + along));
        }
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 4; ++j) {
                u32 pair[2] = {b[j / 2][2 * (j % 2)], b[j / 2][2 * (j % 2) + 1]};
                mma(c[i][j], a[i], pair);
            }
    }
}

// Adds this warp's 32 x 32 of the products of steps `first` to `end` along K.
__device__ void accumulate(float (&c)[2][4][4], const __half* a, const __half* b, int m, int n, int depth, int first,
                           int end) {
    Ring<STAGES> filled, here;
    for (int step = first; step < first + STAGES - 1; ++step, filled.next()) {
        if (step < end) copy_stage(a, b, m, n, depth, K * step, filled.stage);
        commit();
    }
    for (int step = first; step < end; ++step, filled.next(), here.next()) {
        wait<STAGES - 2>();
        __syncthreads();
        int next = step + STAGES - 1;
        if (next < end) copy_stage(a, b, m, n, depth, K * next, filled.stage);
        commit();
        multiply_stage(here.stage, c);
    }
}

// Writes this warp's 32 x 32.
__device__ void store_all(float* d, const float (&c)[2][4][4], int m, int n) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            store(d, c[i][j], m, n, M * blockIdx.y + 32 * (warp / 2) + 16 * i + lane / 4,
                  N * blockIdx.x + 32 * (warp % 2) + 8 * j);
}

extern "C" __global__ void __launch_bounds__(128)
kernel(const __half* a, const __half* b, float* d, int m, int n, int depth) {
    float c[2][4][4] = {};
    accumulate(c, a, b, m, n, depth, 0, (depth + K - 1) / K);
    store_all(d, c, m, n);
}

// The twin of split_k.py: block z writes part z, and a second kernel adds the parts.
extern "C" __global__ void __launch_bounds__(128)
write_part(const __half* a, const __half* b, float* parts, int m, int n, int depth) {
    int steps = (depth + K - 1) / K, splits = gridDim.z, z = blockIdx.z;
    int share = steps / splits, more = steps % splits, first = z * share + min(z, more);
    float c[2][4][4] = {};
    accumulate(c, a, b, m, n, depth, first, first + share + (z < more));
    store_all(parts + static_cast<long long>(z) * m * n, c, m, n);
}

extern "C" __global__ void add_parts(const float* parts, float* d, int elements, int splits) {
    int at = blockDim.x * blockIdx.x + threadIdx.x;
    if (at >= elements) return;
    float total = parts[at];
    for (int z = 1; z < splits; ++z) total += parts[static_cast<long long>(z) * elements + at];
    d[at] = total;
}
