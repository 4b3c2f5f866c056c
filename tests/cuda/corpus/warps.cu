// What the lanes of a warp do together.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

namespace cg = cooperative_groups;
typedef unsigned int u32;
#define ALL 0xffffffffu

extern "C" __global__ void shuffles(const int* x, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32, v = x[i], n = gridDim.x * blockDim.x;
    out[i] = __shfl_sync(ALL, v, lane * 7);
    out[n + i] = __shfl_up_sync(ALL, v, 3);
    out[2 * n + i] = __shfl_down_sync(ALL, v, 5, 16);
    out[3 * n + i] = __shfl_xor_sync(ALL, v, 9, 8);
    int sum = v;
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(ALL, sum, step);
    out[4 * n + i] = sum;
    int before = v;
    for (int step = 1; step < 32; step *= 2) {
        int other = __shfl_up_sync(ALL, before, step);
        if (lane >= step) before += other;
    }
    out[5 * n + i] = before;
}

extern "C" __global__ void votes(const int* x, u32* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i], n = gridDim.x * blockDim.x, all;
    out[i] = __ballot_sync(ALL, v & 1);
    out[n + i] = __any_sync(ALL, v == 3) * 2 + __all_sync(ALL, v < 1000);
    out[2 * n + i] = __match_any_sync(ALL, v % 5);
    out[3 * n + i] = __match_all_sync(ALL, v / 1000, &all) + all;
    out[4 * n + i] = __reduce_add_sync(ALL, (u32)v);
    out[5 * n + i] = __reduce_max_sync(ALL, v);
    out[6 * n + i] = __reduce_xor_sync(ALL, (u32)v);
    if (v & 1) {
        out[7 * n + i] = __activemask();
        out[8 * n + i] = __reduce_min_sync(__activemask(), (u32)v);
    }
}

extern "C" __global__ void groups(const int* x, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i], n = gridDim.x * blockDim.x;
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    out[i] = cg::reduce(tile, v, cg::plus<int>());
    out[n + i] = cg::inclusive_scan(tile, v, cg::plus<int>());
    out[2 * n + i] = tile.shfl(v, (tile.thread_rank() + 3) % 8) + tile.meta_group_rank();
    if (v % 3 == 0) {
        auto some = cg::coalesced_threads();
        out[3 * n + i] = some.thread_rank() * 100 + some.size();
        out[4 * n + i] = cg::reduce(some, v, cg::greater<int>());
    }
}

// One atomic for all lanes that take part: the first reserves places for all.
extern "C" __global__ void compact(const int* x, int* out, int* count, int n) {
    for (int i = threadIdx.x; i < n; i += 32) {
        bool keep = x[i] % 3 == 1;
        u32 mask = __ballot_sync(ALL, keep);
        int first = 0;
        if (threadIdx.x == 0) first = atomicAdd(count, __popc(mask));
        first = __shfl_sync(ALL, first, 0);
        if (keep) out[first + __popc(mask & ((1u << threadIdx.x) - 1))] = x[i];
    }
}

extern "C" __global__ void sort_in_a_warp(int* x) {
    int lane = threadIdx.x % 32, i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    for (int size = 2; size <= 32; size *= 2)
        for (int step = size / 2; step; step /= 2) {
            int other = __shfl_xor_sync(ALL, v, step);
            bool up = (lane & size) == 0, low = (lane & step) == 0;
            v = up == low ? min(v, other) : max(v, other);
        }
    x[i] = v;
}

// Half of each warp waits for the other: independent threads.
extern "C" __global__ void turns(int* out) {
    __shared__ volatile int turn;
    if (threadIdx.x == 0) turn = 0;
    __syncthreads();
    if (threadIdx.x < 16) {
        while (turn != (int)threadIdx.x) {}
        out[threadIdx.x] = clock64() != 0 ? 2 * threadIdx.x : 0;
        __threadfence_block();
        turn = threadIdx.x + 1;
    } else {
        out[threadIdx.x] = 100 + threadIdx.x;
    }
    __syncwarp();
    out[32 + threadIdx.x] = out[31 - threadIdx.x];
}
