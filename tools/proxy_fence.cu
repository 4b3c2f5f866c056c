// Which order of fence.proxy.async and a barrier lets the async proxy see what threads have stored? Asks a GPU.
//
//     nvcc -gencode arch=compute_90a,code=sm_90a -O2 -o proxy_fence tools/proxy_fence.cu && ./proxy_fence [ROUNDS]
//
// In each round, all threads of a block store new bytes into shared memory; then a bulk copy, or a wgmma, reads them.
// It prints in how many rounds of all blocks old bytes were read. docs/compared.md has what an H100 answered.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

constexpr int THREADS = 128, BYTES = 4096;
enum Order { NOTHING, FENCE, BARRIER, FENCE_BARRIER, ONE_FENCE_BARRIER, BARRIER_FENCE, BARRIER_ONE_FENCE, ORDERS };
const char* NAMES[ORDERS] = {
    "nothing",
    "a fence in all threads, no barrier",
    "a barrier, no fence",
    "a fence in all threads, a barrier: the manual",
    "a fence in warp 0, a barrier",
    "a barrier, a fence in all threads: Triton",
    "a barrier, a fence in those that read",
};

__device__ void fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
__device__ uint32_t shared_address(const void* p) { return uint32_t(__cvta_generic_to_shared(p)); }

/// What lies between the stores and the use.
__device__ void between(int order, bool reads) {
    if (order == FENCE || order == FENCE_BARRIER || (order == ONE_FENCE_BARRIER && threadIdx.x < 32)) fence();
    if (order != NOTHING && order != FENCE) __syncthreads();
    if (order == BARRIER_FENCE || (order == BARRIER_ONE_FENCE && reads)) fence();
}

/// Let the warps come in another order in each round.
__device__ void jitter(uint32_t& state) {
    state = state * 1664525u + 1013904223u;
    for (int n = (state >> 24) & 63; n; --n) asm volatile("nanosleep.u32 8;");
}

__global__ void by_bulk_copy(int order, int rounds, uint32_t* out, unsigned long long* stale) {
    extern __shared__ __align__(1024) uint32_t words[];
    uint32_t* mine = out + blockIdx.x * (BYTES / 4);
    uint32_t state = blockIdx.x * 977u + threadIdx.x / 32;
    for (uint32_t round = 1; round <= rounds; ++round) {
        jitter(state);
        for (int n = threadIdx.x; n < BYTES / 4; n += THREADS) ((volatile uint32_t*)words)[n] = round;
        between(order, threadIdx.x == 0);
        if (threadIdx.x == 0) {
            asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
                         ::"l"(mine), "r"(shared_address(words)), "r"(BYTES) : "memory");
            asm volatile("cp.async.bulk.commit_group;\ncp.async.bulk.wait_group 0;" ::: "memory");
            __threadfence();
        }
        __syncthreads();
        int wrong = 0;
        for (int n = threadIdx.x; n < BYTES / 4; n += THREADS) wrong += __ldcg(mine + n) != round;
        if (__syncthreads_or(wrong) && threadIdx.x == 0) atomicAdd(stale, 1ull);
    }
}

/// m64n8k16: all elements of A are a number of the round's, those of B are 1. A has 2048 bytes, B the 256 behind it.
__global__ void by_wgmma(int order, int rounds, uint32_t*, unsigned long long* stale) {
    extern __shared__ __align__(1024) uint32_t words[];
    uint32_t state = blockIdx.x * 977u + threadIdx.x / 32;
    const uint64_t offsets = uint64_t(128 >> 4) << 16 | uint64_t(256 >> 4) << 32;
    const uint64_t a = (shared_address(words) & 0x3ffff) >> 4 | offsets;
    const uint64_t b = (shared_address(words) + 2048 & 0x3ffff) >> 4 | offsets;
    for (int round = 1; round <= rounds; ++round) {
        const uint32_t number = 0x3C00 + (round & 0x3ff), pair = number << 16 | number;  // from 1 to 2
        jitter(state);
        for (int n = threadIdx.x; n < 512; n += THREADS) ((volatile uint32_t*)words)[n] = pair;
        for (int n = threadIdx.x; n < 64; n += THREADS) ((volatile uint32_t*)words)[512 + n] = 0x3C003C00;
        between(order, true);
        float d[4] = {};
        asm volatile("wgmma.fence.sync.aligned;\n"
                     "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 0, 1, 1, 0, 0;\n"
                     "wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory");
        const float right = 16.0f * (1.0f + (round & 0x3ff) / 1024.0f);
        const int wrong = d[0] != right || d[1] != right || d[2] != right || d[3] != right;
        if (__syncthreads_or(wrong) && threadIdx.x == 0) atomicAdd(stale, 1ull);
    }
}

int main(int argc, char** argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 20000;
    int blocks = 0;
    cudaDeviceGetAttribute(&blocks, cudaDevAttrMultiProcessorCount, 0);
    blocks *= 2;
    uint32_t* out;
    unsigned long long *stale, count;
    cudaMalloc(&out, size_t(blocks) * BYTES);
    cudaMalloc(&stale, sizeof *stale);
    for (auto kernel : {by_bulk_copy, by_wgmma})
        for (int order = 0; order < ORDERS; ++order) {
            cudaMemset(stale, 0, sizeof *stale);
            kernel<<<blocks, THREADS, BYTES>>>(order, rounds, out, stale);
            const cudaError_t error = cudaDeviceSynchronize();
            cudaMemcpy(&count, stale, sizeof count, cudaMemcpyDeviceToHost);
            printf("%-9s  %-46s  old bytes in %llu of %llu rounds", kernel == by_wgmma ? "wgmma" : "bulk copy",
                   NAMES[order], count, 1ull * blocks * rounds);
            printf("%s%s\n", error ? ": " : "", error ? cudaGetErrorString(error) : "");
        }
}
