// Fused attention, forward: the twin of attention.py. tcemu.gemm.twins makes `mma`, SCALE and POLYNOMIAL.
// Intrinsics with _rn keep the compiler from fusing a product and a sum into one fma.
#include <cuda_fp16.h>

#include "common.h"

constexpr int DIM = 64, QUERIES = 64, KEYS = 64, TILE_BYTES = 2 * 64 * DIM;
constexpr int Q = 0, K = TILE_BYTES, V = 2 * TILE_BYTES;

__shared__ __align__(128) unsigned char tiles[3 * TILE_BYTES];

__device__ u32 place(int tile, int row, int unit) { return in_shared(tiles) + tile + row * 128 + ((unit ^ row % 8) * 16); }

__device__ void copy_tile(int to, const __half* matrix, int rows, int first) {
    for (int unit = threadIdx.x; unit < 512; unit += 128)
        copy(place(to, unit / 8, unit % 8), matrix, rows, DIM, first + unit / 8, 8 * (unit % 8));
    commit();
}

__device__ void scores(float (&s)[8][4], u32 (&q)[4][4], int first, int keys) {
    int lane = threadIdx.x % 32;
    for (int n = 0; n < 8; ++n) {
        for (int i = 0; i < 4; ++i) s[n][i] = 0;
        for (int half = 0; half < 2; ++half) {
            u32 held[4];
            ldmatrix(held, place(K, 8 * n + lane % 8, 4 * half + lane / 8));
            u32 left[2] = {held[0], held[1]}, right[2] = {held[2], held[3]};
            mma(s[n], q[2 * half], left);
            mma(s[n], q[2 * half + 1], right);
        }
        for (int i = 0; i < 4; ++i)
            if (first + 8 * n + 2 * (lane % 4) + i % 2 >= keys) s[n][i] = __int_as_float(0xff800000);
    }
}

// The scores become exponentials in f16, the A operands of the second product. A lane's two rows go side by side.
__device__ void softmax(u32 (&p)[4][4], float (&s)[8][4], float (&largest)[2], float (&total)[2], float (&factor)[2]) {
    float before[2] = {largest[0], largest[1]}, here[2] = {}, offset[2];
    for (int n = 0; n < 8; ++n)
        for (int row = 0; row < 2; ++row) largest[row] = fmaxf(largest[row], fmaxf(s[n][2 * row], s[n][2 * row + 1]));
    for (int row = 0; row < 2; ++row) {
        largest[row] = largest_of_row(largest[row]);
        offset[row] = __fmul_rn(largest[row], -SCALE);
        factor[row] = exp2_of(__fmaf_rn(before[row], SCALE, offset[row]));
    }
    for (int n = 0; n < 8; ++n)
        for (int row = 0; row < 2; ++row) {
            float left = exp2_of(__fmaf_rn(s[n][2 * row], SCALE, offset[row]));
            float right = exp2_of(__fmaf_rn(s[n][2 * row + 1], SCALE, offset[row]));
            here[row] = __fadd_rn(__fadd_rn(here[row], left), right);
            __half2 both = __floats2half2_rn(left, right);
            p[n / 2][2 * (n % 2) + row] = *reinterpret_cast<u32*>(&both);
        }
    for (int row = 0; row < 2; ++row) total[row] = __fmaf_rn(total[row], factor[row], total_of_row(here[row]));
}

__device__ void add_values(float (&o)[8][4], u32 (&p)[4][4], float (&factor)[2]) {
    for (int n = 0; n < 8; ++n) {
        for (int i = 0; i < 4; ++i) o[n][i] = __fmul_rn(o[n][i], factor[i / 2]);
        for (int half = 0; half < 2; ++half) {
            u32 held[4];
            ldmatrix_trans(held, place(V, 32 * half + threadIdx.x % 32, n));
            u32 left[2] = {held[0], held[1]}, right[2] = {held[2], held[3]};
            mma(o[n], p[2 * half], left);
            mma(o[n], p[2 * half + 1], right);
        }
    }
}

// The sums of 64 queries over all keys, and what divides them.
__device__ void accumulate(float (&o)[8][4], float (&total)[2], const __half* q, const __half* k, const __half* v,
                           int queries, int keys, int first) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float largest[2] = {__int_as_float(0xff800000), __int_as_float(0xff800000)};
    u32 held[4][4];
    copy_tile(Q, q, queries, first);
    for (int tile = 0; tile < keys; tile += KEYS) {
        copy_tile(K, k, keys, tile);
        copy_tile(V, v, keys, tile);
        wait<0>();
        __syncthreads();
        if (tile == 0)
            for (int step = 0; step < 4; ++step) ldmatrix(held[step], place(Q, 16 * warp + lane % 16, 2 * step + lane / 16));
        float s[8][4], factor[2];
        u32 p[4][4];
        scores(s, held, tile, keys);
        softmax(p, s, largest, total, factor);
        add_values(o, p, factor);
        __syncthreads();
    }
}

__device__ void store(float* out, float (&o)[8][4], float (&total)[2], int queries, int first) {
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    for (int n = 0; n < 8; ++n)
        for (int i = 0; i < 4; ++i) {
            int row = first + 16 * warp + lane / 4 + 8 * (i / 2);
            if (row < queries) out[static_cast<long long>(row) * DIM + 8 * n + 2 * (lane % 4) + i % 2] = __fdiv_rn(o[n][i], total[i / 2]);
        }
}

extern "C" __global__ void __launch_bounds__(128)
kernel(const __half* q, const __half* k, const __half* v, float* out, int queries, int keys) {
    float o[8][4] = {}, total[2] = {};
    accumulate(o, total, q, k, v, queries, keys, QUERIES * blockIdx.x);
    store(out, o, total, queries, QUERIES * blockIdx.x);
}
