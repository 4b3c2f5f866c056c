#ifdef MEETING
// A barrier of the grid, round after round: cycles (blocks, rounds) of each.
extern "C" __global__ void meet(unsigned* counter, long long* cycles, int rounds) {
    for (int round = 0; round < rounds; ++round) {
        __syncthreads();
        long long start = clock64();
        if (threadIdx.x == 0) {
            asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
            unsigned seen;
            do asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(seen) : "l"(counter) : "memory");
            while (seen < (round + 1) * gridDim.x);
        }
        __syncthreads();
        if (threadIdx.x == 0) cycles[blockIdx.x * rounds + round] = clock64() - start;
    }
}

#else
// Appended to a twin: its main loop again, timed with clock64, ROUNDS times. The first round fills the caches.
// clocks: (ROUNDS, warps, 2), when each warp begins and when it has issued or awaited its last product.

__device__ void note(long long* clocks, int round, int end) {
    if (threadIdx.x % 32 == 0)
        clocks[(round * (blockDim.x / 32) + threadIdx.x / 32) * 2 + end] = clock64();
}

// Reads so much else that the L1 holds nothing of the last round, and loads come from the L2. The array is all zeros.
__device__ float others[1 << 17];
__device__ void forget() {
    float sum = 0;
    for (int i = threadIdx.x; i < 1 << 17; i += blockDim.x) sum += others[i];
    if (sum != 0) others[threadIdx.x] = sum;
}

#ifdef PIPELINE

extern "C" __global__ void __launch_bounds__(128)
timed(const __half* a, const __half* b, float* d, int m, int n, int depth, long long* clocks) {
#pragma unroll 1
    for (int round = 0; round < ROUNDS; ++round) {
        float c[2][4][4] = {};
        __syncthreads();
        note(clocks, round, 0);
        accumulate(c, a, b, m, n, depth, 0, (depth + K - 1) / K);
        note(clocks, round, 1);
        store_all(d, c, m, n);
    }
}

#elif defined(MMA_SPARSE)

extern "C" __global__ void __launch_bounds__(128)
timed(const uint4* values, const u32* metadata, const __half* b, float* d, int m, int n, int depth, int steps,
      long long* clocks) {
#pragma unroll 1
    for (int round = 0; round < ROUNDS; ++round) {
        float c[N / 8][4] = {};
        forget();
        __syncthreads();
        note(clocks, round, 0);
        accumulate(c, values, metadata, b, n, depth, steps);
        note(clocks, round, 1);
        store_all(d, c, m, n);
    }
}

#elif defined(ATTENTION)

extern "C" __global__ void __launch_bounds__(128)
timed(const __half* q, const __half* k, const __half* v, float* out, int queries, int keys, long long* clocks) {
#pragma unroll 1
    for (int round = 0; round < ROUNDS; ++round) {
        float o[8][4] = {}, total[2] = {};
        __syncthreads();
        note(clocks, round, 0);
        accumulate(o, total, q, k, v, queries, keys, 0);
        note(clocks, round, 1);
        store(out, o, total, queries, 0);
    }
}

#elif defined(SOFTMAX)

// Each tile's scores are the last one's and `step`, so that the compiler cannot compute them before; every lane has
// others, so that it cannot do without shuffles. As in a kernel, the compiler knows how many registers a thread may have.
extern "C" __global__ void __launch_bounds__(THREADS)
timed(float* out, float step, int tiles, long long* clocks) {
#pragma unroll 1
    for (int round = 0; round < ROUNDS; ++round) {
        float s[8][4], total[2] = {}, factor[2] = {};
        float largest[2] = {__int_as_float(0xff800000), __int_as_float(0xff800000)};
        u32 p[4][4], sink = 0;
        for (int i = 0; i < 32; ++i) s[i / 4][i % 4] = step * (threadIdx.x + i);
        __syncthreads();
        note(clocks, round, 0);
#pragma unroll 1
        for (int tile = 0; tile < tiles; ++tile) {
            for (int i = 0; i < 32; ++i) s[i / 4][i % 4] += step;
            softmax(p, s, largest, total, factor);
            for (int i = 0; i < 16; ++i) sink ^= p[i / 4][i % 4];
            for (int i = 0; i < 2; ++i) sink ^= __float_as_uint(factor[i]);
        }
        note(clocks, round, 1);
        out[threadIdx.x] = total[0] + total[1] + largest[0] + largest[1] + __uint_as_float(sink);
    }
}

#else

#ifdef WGMMA_SPARSE
extern "C" __global__ void __launch_bounds__(128 * CONSUMERS + 32)
timed(const void* a, const u32* metadata, const void* b, Accumulator* d, int m, int n, int steps, long long* clocks) {
    int warp = threadIdx.x / 32;
#else
extern "C" __global__ void __launch_bounds__(128 * CONSUMERS + 32)
timed(const void* a, const void* b, Accumulator* d, int m, int n, int k, long long* clocks) {
    int steps = (k + DEPTH - 1) / DEPTH, warp = threadIdx.x / 32;
#endif
    if (warp == 4 * CONSUMERS) {
#pragma unroll 1
        for (int round = 0; round < ROUNDS; ++round) {
            forget();
            __syncthreads();
            begin();
            note(clocks, round, 0);
            if (threadIdx.x % 32 == 0) produce(a, b, steps);
            __syncwarp();
            note(clocks, round, 1);
        }
        return;
    }
#pragma unroll 1
    for (int round = 0; round < ROUNDS; ++round) {
        Accumulator c[PAIRS];
        forget();
        __syncthreads();
        begin();
        note(clocks, round, 0);
#ifdef WGMMA_SPARSE
        consume(c, metadata, steps);
#else
        if (PROMOTE) consume_promoted(c, steps); else consume(c, steps);
#endif
        note(clocks, round, 1);
        store(d, c, m, n, 16 * warp + threadIdx.x % 32 / 4, 0);
    }
}

#endif

#endif
