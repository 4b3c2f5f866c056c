// Attention in the manner of FlashAttention-4: the twin of tcgen05_attention.py. tcemu.gemm.twins makes SCALE, POLYNOMIAL
// and the instruction descriptors IDESC_S and IDESC_O.
#define GROUP 1
#include "tcgen05.h"

constexpr int DIM = 64, QUERIES = 128, KEYS = 128, LINE = 2 * DIM, TILE = KEYS * LINE, STAGES = 4;
constexpr int CORRECTORS = 4, COPIER = 8, MULTIPLIER = 9;
constexpr int OUTPUT = 2 * KEYS, TENSOR_COLUMNS = 512, WIDE = 16;
constexpr float GROWTH = 8;

extern __shared__ unsigned char dynamic[];

struct Shared {
    unsigned char ring[STAGES][TILE], q[TILE];
    float rows[QUERIES];
    u64 full[STAGES], empty[STAGES], q_full, scored[2], powered[2], summed, factored, corrected, slot;
};

__device__ Shared& shared() { return *reinterpret_cast<Shared*>(dynamic + (1024 - in_shared(dynamic) % 1024) % 1024); }

__device__ void init(const u64& bar, u32 arrivals) { mbarrier_init(in_shared(&bar), arrivals); }

// One arrival for what all lanes of this warp did, in shared and Tensor Memory.
__device__ void arrive(const u64& bar) {
    before_thread_sync();
    __syncwarp();
    if (threadIdx.x % 32 == 0) mbarrier_arrive(in_shared(&bar));
}

// Wait for a phase, before tcgen05 uses what it tells of.
__device__ void wait(const u64& bar, u32 parity) {
    mbarrier_wait(in_shared(&bar), parity);
    after_thread_sync();
}

__device__ u32 begin() {
    Shared& s = shared();
    if (threadIdx.x == 32 * COPIER) {
        for (int stage = 0; stage < STAGES; ++stage) init(s.full[stage], 1), init(s.empty[stage], 1);
        for (int i = 0; i < 2; ++i) init(s.scored[i], 1), init(s.powered[i], CORRECTORS);
        init(s.q_full, 1), init(s.summed, 1), init(s.factored, CORRECTORS), init(s.corrected, CORRECTORS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
    if (threadIdx.x / 32 == MULTIPLIER) allocate<TENSOR_COLUMNS>(in_shared(&s.slot));
    meet();
    return allocated(in_shared(&s.slot));
}

// ---------------------------------------------------------------------------------------------------- copy, multiply

__device__ void copy(const void* to, const void* box, int row, const u64& bar) {
    mbarrier_arrive_expect_tx(in_shared(&bar), TILE);
    load_box(in_shared(to), box, 0, row, in_shared(&bar));
}

__device__ void copy_next(Ring<STAGES>& here, const void* box, int row) {
    Shared& s = shared();
    mbarrier_wait(in_shared(&s.empty[here.stage]), (here.turn + 1) % 2);
    copy(s.ring[here.stage], box, row, s.full[here.stage]);
    here.next();
}

__device__ void copy_tiles(const void* q, const void* k, const void* v, int tiles) {
    Ring<STAGES> here;
    copy(shared().q, q, QUERIES * blockIdx.x, shared().q_full);
    copy_next(here, k, 0);
    for (int tile = 1; tile <= tiles; ++tile) {
        if (tile < tiles) copy_next(here, k, KEYS * tile);
        copy_next(here, v, KEYS * (tile - 1));
    }
}

__device__ u32 s_columns(int tile) { return KEYS * (tile % 2); }

// S = Q K^T of a tile. S may be overwritten: this thread has issued the product that reads P there.
__device__ void scores(u32 taddr, int tile, Ring<STAGES>& here) {
    Shared& s = shared();
    wait(s.full[here.stage], here.turn % 2);
    u64 a = for_tcgen05(k_major(in_shared(s.q))), b = for_tcgen05(k_major(in_shared(s.ring[here.stage])));
    for (int step = 0; step < DIM / 16; ++step)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, p; }"
                     ::"r"(taddr + s_columns(tile)), "l"(a + 2 * step), "l"(b + 2 * step), "r"(IDESC_S),
                       "r"(static_cast<u32>(step > 0)) : "memory");
    commit_to(in_shared(&s.empty[here.stage]));
    commit_to(in_shared(&s.scored[tile % 2]));
    here.next();
}

// O += P V of a tile: A is in Tensor Memory, two elements in a column.
__device__ void add_values(u32 taddr, int tile, Ring<STAGES>& here) {
    Shared& s = shared();
    wait(s.full[here.stage], here.turn % 2);
    u64 b = for_tcgen05(mn_major(in_shared(s.ring[here.stage]), TILE));
    for (int step = 0; step < KEYS / 16; ++step)
        asm volatile("{ .reg .pred p; setp.ne.b32 p, %4, 0; tcgen05.mma.cta_group::1.kind::f16 [%0], [%1], %2, %3, p; }"
                     ::"r"(taddr + OUTPUT), "r"(taddr + s_columns(tile) + 8 * step), "l"(b + 16 * LINE * step / 16),
                       "r"(IDESC_O), "r"(static_cast<u32>(tile > 0 || step > 0)) : "memory");
    commit_to(in_shared(&s.empty[here.stage]));
    commit_to(in_shared(&s.summed));
    here.next();
}

__device__ void multiply_tiles(u32 taddr, int tiles) {
    Shared& s = shared();
    Ring<STAGES> here;
    mbarrier_wait(in_shared(&s.q_full), 0);
    scores(taddr, 0, here);
    for (int tile = 0; tile < tiles; ++tile) {
        if (tile + 1 < tiles) scores(taddr, tile + 1, here);
        if (tile > 0) wait(s.corrected, (tile - 1) % 2);
        wait(s.powered[tile % 2], tile / 2 % 2);
        add_values(taddr, tile, here);
    }
}

// ---------------------------------------------------------------------------------------------------- softmax

// Pass a number for each row to the warps that correct, when they have done with the one before.
__device__ void tell(float number, int tile) {
    Shared& s = shared();
    if (tile > 1) mbarrier_wait(in_shared(&s.corrected), tile % 2);
    s.rows[threadIdx.x] = number;
    arrive(s.factored);
}

// The powers of a tile's scores, a row's largest score and total, and the factor for older values.
__device__ void softmax(float (&s)[KEYS], float& largest, float& total, float& factor) {
    float before = largest, found = largest, here = 0;
    for (int n = 0; n < KEYS; ++n) found = fmaxf(found, s[n]);
    if (__fmul_rn(__fadd_rn(found, -before), SCALE) > GROWTH) largest = found;
    factor = exp2_of(__fmul_rn(__fadd_rn(before, -largest), SCALE));
    float offset = __fmul_rn(largest, -SCALE);
    for (int n = 0; n < KEYS; ++n) {
        s[n] = exp2_of(__fmaf_rn(s[n], SCALE, offset));
        here = __fadd_rn(here, s[n]);
    }
    total = __fmaf_rn(total, factor, here);
}

__device__ void softmax_tiles(u32 taddr, int tiles, int keys) {
    u32 lanes = threadIdx.x / 32 * 32 << 16;
    float largest = __int_as_float(0xff800000), total = 0, factor;
    for (int tile = 0; tile < tiles; ++tile) {
        u32 at = taddr + lanes + s_columns(tile);
        wait(shared().scored[tile % 2], tile / 2 % 2);
        float s[KEYS];
        u32 p[KEYS / 2];
        for (int n = 0; n < KEYS; n += WIDE) load(reinterpret_cast<float(&)[WIDE]>(s[n]), at + n);
        for (int n = 0; n < KEYS; ++n)
            if (KEYS * tile + n >= keys) s[n] = __int_as_float(0xff800000);
        softmax(s, largest, total, factor);
        if (tile > 0) tell(factor, tile);
        for (int n = 0; n < KEYS / 2; ++n) p[n] = halves(s[2 * n], s[2 * n + 1]);
        for (int n = 0; n < KEYS / 2; n += WIDE) store(at + n, reinterpret_cast<u32(&)[WIDE]>(p[n]));
        wait_for_stores();
        arrive(shared().powered[tile % 2]);
    }
    tell(total, tiles);
}

// ---------------------------------------------------------------------------------------------------- correct

// Multiplies this thread's row of O by a tile's factor, if one of the warp's is not 1; then divides by the total.
__device__ void correct_tiles(u32 taddr, int tiles, float* out, int queries) {
    Shared& s = shared();
    int row = threadIdx.x - 32 * CORRECTORS, place = QUERIES * blockIdx.x + row;
    u32 at = taddr + (row / 32 * 32 << 16) + OUTPUT;
    float o[WIDE];
    for (int tile = 1; tile < tiles; ++tile) {
        mbarrier_wait(in_shared(&s.factored), (tile - 1) % 2);
        float factor = s.rows[row];
        wait(s.summed, (tile - 1) % 2);
        if (__any_sync(0xffffffff, factor < 1)) {
            for (int n = 0; n < DIM; n += WIDE) {
                load(o, at + n);
                for (int i = 0; i < WIDE; ++i) o[i] = __fmul_rn(o[i], factor);
                store(at + n, reinterpret_cast<u32(&)[WIDE]>(o));
            }
            wait_for_stores();
        }
        arrive(s.corrected);
    }
    mbarrier_wait(in_shared(&s.factored), (tiles - 1) % 2);
    float total = s.rows[row];
    wait(s.summed, (tiles - 1) % 2);
    for (int n = 0; n < DIM; n += WIDE) {
        load(o, at + n);
        for (int i = 0; i < WIDE; i += 4)
            if (place < queries)
                *reinterpret_cast<float4*>(out + static_cast<long long>(place) * DIM + n + i) =
                    make_float4(__fdiv_rn(o[i], total), __fdiv_rn(o[i + 1], total), __fdiv_rn(o[i + 2], total),
                                __fdiv_rn(o[i + 3], total));
    }
}

extern "C" __global__ void __launch_bounds__(32 * (MULTIPLIER + 1))
kernel(const void* q, const void* k, const void* v, float* out, int queries, int keys) {
    int tiles = (keys + KEYS - 1) / KEYS, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    u32 taddr = begin();
    if (warp == COPIER && lane == 0) copy_tiles(q, k, v, tiles);
    if (warp == MULTIPLIER && lane == 0) multiply_tiles(taddr, tiles);
    if (warp < CORRECTORS) softmax_tiles(taddr, tiles, keys);
    if (warp >= CORRECTORS && warp < COPIER) correct_tiles(taddr, tiles, out, queries);
    __syncwarp();
    meet();
    if (warp == MULTIPLIER) deallocate<TENSOR_COLUMNS>(taddr);
}
