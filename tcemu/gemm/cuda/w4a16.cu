// W4A16: the twin of w4a16.py. tcemu.gemm.twins.inline makes `mma` from the instruction.
#include <cuda_fp16.h>

#include "common.h"

constexpr int M = 64, N = 64, K = 64, COLUMNS = 16, GROUP = 128, STAGES = 4;
constexpr int A_BYTES = 2 * M * K, W_BYTES = N * K / 2, STAGE_BYTES = A_BYTES + W_BYTES + 2 * N;

extern __shared__ __align__(128) unsigned char dynamic[];

__device__ u32 place_b(int row, int unit) { return row * 128 + ((unit ^ row % 8) * 16); }

__device__ void copy_stage(const __half* a, const uint4* weights, const __half* scales, int m, int n, int depth, int step,
                           int stage) {
    u32 first = in_shared(dynamic) + stage * STAGE_BYTES;
    for (int part = 0; part < 4; ++part) {
        int unit = threadIdx.x + 128 * part;
        copy(first + place_b(unit / 8, unit % 8), a, m, depth, M * blockIdx.y + unit / 8, K * step + 8 * (unit % 8));
    }
    const uint4* of_thread = weights + (step * (n / COLUMNS) + N / COLUMNS * blockIdx.x) * 32 + threadIdx.x;
    copy_line(first + A_BYTES + 16 * threadIdx.x, of_thread, true);
    const __half* of_columns = scales + K * step / GROUP * n + N * blockIdx.x + 8 * threadIdx.x;
    if (threadIdx.x < 2 * N / 16) copy_line(first + A_BYTES + W_BYTES + 16 * threadIdx.x, of_columns, true);
}

// (word & mask) | 1024, in both halves.
__device__ __half2 with_magic(u32 word, u32 mask) {
    u32 found;
    asm("lop3.b32 %0, %1, %2, 0x64006400, 0xEA;" : "=r"(found) : "r"(word), "r"(mask));
    return *reinterpret_cast<__half2*>(&found);
}

__device__ u32 bits(__half2 value) { return *reinterpret_cast<u32*>(&value); }

// The B operand of one tile: the four lowest weights of a word, times the scale of this lane's column.
__device__ void dequantise(u32 (&b)[2], u32 word, __half2 scale) {
    __half2 lower = __hsub2(with_magic(word, 0x000F000F), __float2half2_rn(1032));
    __half2 upper = __hfma2(with_magic(word, 0x00F000F0), __float2half2_rn(1 / 16.0f), __float2half2_rn(-72));
    b[0] = bits(__hmul2_rn(lower, scale));
    b[1] = bits(__hmul2_rn(upper, scale));
}

__device__ void multiply_stage(int stage, float (&c)[4][2][4]) {
    unsigned char* place = dynamic + stage * STAGE_BYTES;
    u32 first = in_shared(place);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, down = lane % 16, along = lane / 16;
    uint4 found = *reinterpret_cast<const uint4*>(place + A_BYTES + 16 * threadIdx.x);
    u32 words[4] = {found.x, found.y, found.z, found.w};
    const __half* of_columns = reinterpret_cast<const __half*>(place + A_BYTES + W_BYTES) + COLUMNS * warp + lane / 4;
    __half2 scales[2] = {__half2half2(of_columns[0]), __half2half2(of_columns[8])};
    for (int k = 0; k < K / 16; ++k) {
        u32 a[4][4];
        for (int i = 0; i < 4; ++i) ldmatrix(a[i], first + place_b(16 * i + down, 2 * k + along));
        for (int j = 0; j < 2; ++j) {
            u32 b[2];
            dequantise(b, words[k] >> 8 * j, scales[j]);
            for (int i = 0; i < 4; ++i) mma(c[i][j], a[i], b);
        }
    }
}

extern "C" __global__ void __launch_bounds__(128)
kernel(const __half* a, const uint4* weights, const __half* scales, float* d, int m, int n, int depth) {
    int steps = depth / K, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float c[4][2][4] = {};
    Ring<STAGES> filled, here;
    for (int step = 0; step < STAGES - 1; ++step, filled.next()) {
        if (step < steps) copy_stage(a, weights, scales, m, n, depth, step, filled.stage);
        commit();
    }
    for (int step = 0; step < steps; ++step, filled.next(), here.next()) {
        wait<STAGES - 2>();
        __syncthreads();
        int next = step + STAGES - 1;
        if (next < steps) copy_stage(a, weights, scales, m, n, depth, next, filled.stage);
        commit();
        multiply_stage(here.stage, c);
    }
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 2; ++j)
            store(d, c[i][j], m, n, M * blockIdx.y + 16 * i + lane / 4, N * blockIdx.x + COLUMNS * warp + 8 * j);
}
