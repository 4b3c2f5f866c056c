// Paged decode attention: the twin of paged_decode.py. tcemu.gemm.twins makes `mma`, SCALE and SPLITS.
#include <cuda_fp16.h>

#include "common.h"

constexpr int DIM = 128, PAGE = 16, WARPS = 4, STAGES = 3, TILE = 2 * PAGE * DIM;

extern __shared__ __align__(128) unsigned char dynamic[];

__device__ u32 place(int row, int unit) { return row * 256 + ((unit ^ row % 8) * 16); }

__device__ void copy_page(u32 to, const __half* k, const __half* v, int page, int keys) {
    int row = threadIdx.x % 32 / 16, unit = threadIdx.x % 16;
    for (int first = 0; first < PAGE; first += 2) {
        int down = first + row;
        long long from = ((static_cast<long long>(page) * PAGE + down) * gridDim.x + blockIdx.x) * DIM + 8 * unit;
        copy_line(to + place(down, unit), k + from, down < keys);
        copy_line(to + TILE + place(down, unit), v + from, down < keys);
    }
}

// The heads that share this block's K, as A operands of eight steps; rows that have no head repeat the last one.
__device__ void load_queries(u32 (&held)[DIM / 16][4], const __half* q, int group) {
    int row = threadIdx.x % 32 / 4, column = 2 * (threadIdx.x % 4);
    for (int step = 0; step < DIM / 16; ++step)
        for (int i = 0; i < 4; ++i) {
            int head = group * blockIdx.x + min(row + 8 * (i % 2), group - 1);
            const __half* from = q + (blockIdx.y * gridDim.x * group + head) * DIM + 16 * step + column + 8 * (i / 2);
            held[step][i] = *reinterpret_cast<const u32*>(from);
        }
}

__device__ void scores(float (&s)[8], u32 (&q)[DIM / 16][4], u32 tile) {
    int lane = threadIdx.x % 32;
    float c[PAGE / 8][4] = {};
    for (int quarter = 0; quarter < 4; ++quarter)
        for (int n = 0; n < PAGE / 8; ++n) {
            u32 held[4];
            ldmatrix(held, tile + place(8 * n + lane % 8, 4 * quarter + lane / 8));
            u32 left[2] = {held[0], held[1]}, right[2] = {held[2], held[3]};
            mma(c[n], q[2 * quarter], left);
            mma(c[n], q[2 * quarter + 1], right);
        }
    for (int i = 0; i < 8; ++i) s[i] = c[i / 4][i % 4];
}

__device__ void mask(float (&s)[8], int keys) {
    if (keys >= PAGE) return;
    for (int i = 0; i < 8; ++i)
        if (8 * (i / 4) + 2 * (threadIdx.x % 4) + i % 2 >= keys) s[i] = __int_as_float(0xff800000);
}

__device__ void add_values(float (&o)[DIM / 8][4], const float (&powers)[8], const float (&factor)[2], u32 tile) {
    int lane = threadIdx.x % 32;
    u32 p[4];
    for (int i = 0; i < 4; ++i) p[i] = halves(powers[2 * i], powers[2 * i + 1]);
    for (int n = 0; n < DIM / 8; n += 2) {
        u32 held[4];
        ldmatrix_trans(held, tile + place(lane % 16, n + lane / 16));
        for (int i = 0; i < 2; ++i) {
            u32 b[2] = {held[2 * i], held[2 * i + 1]};
            for (int j = 0; j < 4; ++j) o[n + i][j] = __fmul_rn(o[n + i][j], factor[j / 2]);
            mma(o[n + i], p, b);
        }
    }
}

// Write the sums of a split, and the largest score and total of each head.
__device__ void write_part(const float (&o)[DIM / 8][4], const float (&largest)[2], const float (&total)[2], float* parts,
                           float2* sums, int split, int group) {
    int lane = threadIdx.x % 32, column = 2 * (lane % 4);
    for (int half = 0; half < 2; ++half) {
        int row = lane / 4 + 8 * half;
        long long line = (static_cast<long long>(split) * gridDim.y + blockIdx.y) * gridDim.x * group + group * blockIdx.x + row;
        if (row >= group) continue;
        for (int n = 0; n < DIM / 8; ++n)
            *reinterpret_cast<float2*>(parts + line * DIM + 8 * n + column) = {o[n][2 * half], o[n][2 * half + 1]};
        if (column == 0) sums[line] = {largest[half], total[half]};
    }
}

extern "C" __global__ void __launch_bounds__(32 * WARPS)
kernel(const __half* q, const __half* k, const __half* v, const int* table, const int* lengths, float* parts,
       float2* sums, int group, int pages) {
    int warp = threadIdx.x / 32, split = WARPS * blockIdx.z + warp, length = lengths[blockIdx.y];
    int count = (length + PAGE - 1) / PAGE;
    u32 first = in_shared(dynamic) + 2 * TILE * STAGES * warp;
    Ring<STAGES> filled, here;
    auto entry = [&](int page) { return table[blockIdx.y * pages + min(page, pages - 1)]; };
    auto start = [&](int page, int& upcoming) {
        if (page < count) copy_page(first + 2 * TILE * filled.stage, k, v, upcoming, length - PAGE * page);
        commit();  // an empty group too, so that the number to wait for stays the same
        upcoming = entry(page + SPLITS);
        filled.next();
    };
    int upcoming = entry(split);
    for (int number = 0; number < STAGES - 1; ++number) start(split + SPLITS * number, upcoming);
    u32 held[DIM / 16][4];
    load_queries(held, q, group);
    float o[DIM / 8][4] = {}, total[2] = {};
    float largest[2] = {__int_as_float(0xff800000), __int_as_float(0xff800000)};
    for (int page = split; page < count; page += SPLITS, here.next()) {
        wait<STAGES - 2>();
        __syncwarp();
        start(page + SPLITS * (STAGES - 1), upcoming);
        u32 tile = first + 2 * TILE * here.stage;
        float s[8], factor[2];
        scores(s, held, tile);
        mask(s, length - PAGE * page);
        softmax(s, largest, total, factor);
        add_values(o, s, factor, tile + TILE);
    }
    for (int row = 0; row < 2; ++row) total[row] = total_of_row(total[row]);
    write_part(o, largest, total, parts, sums, split, group);
}

// The parts, scaled to the largest score of all, and divided.
extern "C" __global__ void __launch_bounds__(DIM)
combine(const float* parts, const float2* sums, __half* out) {
    long long line = blockIdx.y * gridDim.x + blockIdx.x, lines = static_cast<long long>(gridDim.x) * gridDim.y;
    float2 held[SPLITS];
    for (int split = 0; split < SPLITS; ++split) held[split] = sums[split * lines + line];
    float largest = held[0].x, total = 0, o = 0;
    for (int split = 1; split < SPLITS; ++split) largest = fmaxf(largest, held[split].x);
    for (int split = 0; split < SPLITS; ++split) {
        float factor = ex2(__fmul_rn(__fadd_rn(held[split].x, -largest), SCALE));
        float part = parts[(split * lines + line) * DIM + threadIdx.x];
        total = __fmaf_rn(held[split].y, factor, total);
        o = __fmaf_rn(part, factor, o);
    }
    out[line * DIM + threadIdx.x] = __float2half_rn(__fdiv_rn(o, total));
}
