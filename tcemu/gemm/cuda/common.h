// What the twins share: addresses in shared memory, mbarriers, copies, and where an accumulator lies.
#pragma once

using u32 = unsigned int;
using u64 = unsigned long long;

__device__ inline u32 in_shared(const void* place) { return static_cast<u32>(__cvta_generic_to_shared(place)); }

// ------------------------------------------------------------------------------------------------ mbarriers, TMA

__device__ inline void mbarrier_init(u32 bar, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

__device__ inline void mbarrier_arrive(u32 bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(bar) : "memory");
}

__device__ inline void mbarrier_arrive_expect_tx(u32 bar, u32 bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
}

__device__ inline void mbarrier_wait(u32 bar, u32 parity) {
    u32 done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done) : "r"(bar), "r"(parity) : "memory");
}

__device__ inline void load_box(u32 to, const void* map, int x, int y, u32 bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar) : "memory");
}

__device__ inline void load_box(u32 to, const void* map, int x, int y, int z, u32 bar) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(z), "r"(bar) : "memory");
}

// A position in a ring of stages: step % COUNT and step / COUNT, counted without a division.
template <int COUNT>
struct Ring {
    int stage = 0;
    u32 turn = 0;
    __device__ void next() {
        if (++stage == COUNT) stage = 0, ++turn;
    }
    __device__ void skip(int steps) {
        stage += steps;
        turn += stage / COUNT;
        stage %= COUNT;
    }
};

// How many registers a thread of this warpgroup may use from now on; all its warps execute it.
template <int COUNT>
__device__ inline void fewer_registers() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT>
__device__ inline void more_registers() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }

// ------------------------------------------------------------------------------------------------ clusters

// The rank of this block in its cluster; 0 without one.
__device__ inline u32 rank() {
    u32 found;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(found));
    return found;
}

// The same place in the shared memory of the block with a rank.
__device__ inline u32 mapa(u32 place, u32 rank) {
    u32 there;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place), "r"(rank));
    return there;
}

// ------------------------------------------------------------------------------------------------ cp.async, ldmatrix

// 16 bytes, or so many zeros.
__device__ inline void copy_line(u32 to, const void* from, bool inside) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(inside ? 16 : 0) : "memory");
}

// 16 bytes from (row, column) of a matrix; beyond its edges, zeros.
template <typename T>
__device__ inline void copy(u32 to, const T* matrix, int rows, int columns, int row, int column) {
    bool inside = row < rows && column < columns;
    const T* from = inside ? matrix + static_cast<long long>(row) * columns + column : matrix;
    copy_line(to, from, inside);
}

__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ inline void wait() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

__device__ inline void ldmatrix(u32 (&held)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(held[0]), "=r"(held[1]), "=r"(held[2]), "=r"(held[3]) : "r"(from) : "memory");
}

__device__ inline void ldmatrix_trans(u32 (&held)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(held[0]), "=r"(held[1]), "=r"(held[2]), "=r"(held[3]) : "r"(from) : "memory");
}

// ------------------------------------------------------------------------------------------------ softmax

#ifdef POLYNOMIAL  // tcemu.gemm.twins defines its coefficients; _rn keeps the compiler from fusing a product and a sum
__device__ inline float exp2_of(float x) {
    constexpr float coefficients[] = {POLYNOMIAL};
    x = fmaxf(x, -126.0f);
    float shifted = __fadd_rn(x, 12582912.0f);
    float rest = __fadd_rn(x, -__fadd_rn(shifted, -12582912.0f));
    float power = coefficients[0];
    for (int i = 1; i < 6; ++i) power = __fmaf_rn(power, rest, coefficients[i]);
    return __uint_as_float(__float_as_uint(power) + (__float_as_uint(shifted) << 23));
}
#endif

// Of the four lanes that hold a row of an accumulator: the largest value, and the sum.
__device__ inline float largest_of_row(float value) {
    for (int distance = 1; distance < 4; distance *= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffff, value, distance));
    return value;
}

__device__ inline float total_of_row(float value) {
    for (int distance = 1; distance < 4; distance *= 2)
        value = __fadd_rn(value, __shfl_xor_sync(0xffffffff, value, distance));
    return value;
}

__device__ inline float ex2(float x) {
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

#ifdef SCALE  // as tcemu.gemm.twins defines it
// A tile's scores become their powers; a total is a lane's own until the end. The index is 4 n + 2 row + column.
template <int COUNT>
__device__ inline void softmax(float (&s)[COUNT], float (&largest)[2], float (&total)[2], float (&factor)[2]) {
    float before[2] = {largest[0], largest[1]}, here[2] = {}, offset[2];
    for (int i = 0; i < COUNT; i += 2) largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], fmaxf(s[i], s[i + 1]));
    for (int row = 0; row < 2; ++row) {
        largest[row] = largest_of_row(largest[row]);
        factor[row] = ex2(__fmul_rn(__fadd_rn(before[row], -largest[row]), SCALE));
        offset[row] = __fmul_rn(largest[row], -SCALE);
    }
    for (int i = 0; i < COUNT; ++i) s[i] = ex2(__fmaf_rn(s[i], SCALE, offset[i / 2 % 2]));
    for (int i = 0; i < COUNT; i += 2) here[i / 2 % 2] = __fadd_rn(here[i / 2 % 2], __fadd_rn(s[i], s[i + 1]));
    for (int row = 0; row < 2; ++row) total[row] = __fmaf_rn(total[row], factor[row], here[row]);
}
#endif

// Two numbers in f16, in one register.
__device__ inline u32 halves(float left, float right) {
    u32 both;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(right), "f"(left));
    return both;
}

// ------------------------------------------------------------------------------------------------ wgmma

// The descriptor of a K-major tile with the 128-byte swizzle: 8 rows of 128 bytes follow each other, SBO is 1,024 bytes.
__device__ inline u64 k_major(u32 tile) {
    return static_cast<u64>(tile & 0x3FFFF) >> 4 | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

// The descriptor of a tile whose lines of 128 bytes go along M or N; the next 64 of these are `next` bytes away.
__device__ inline u64 mn_major(u32 tile, u32 next) {
    return static_cast<u64>(tile & 0x3FFFF) >> 4 | static_cast<u64>(next >> 4) << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

// Tells the compiler that a register changes here: nothing may read it before.
__device__ inline void changed(float& value) { asm volatile("" : "+f"(value)::"memory"); }
__device__ inline void changed(int& value) { asm volatile("" : "+r"(value)::"memory"); }

// ------------------------------------------------------------------------------------------------ the accumulator

template <typename T>
struct alignas(2 * sizeof(T)) Pair {
    T left, right;
};

// Pairs of neighbouring elements: even pairs in `row`, odd ones 8 rows below; every two pairs 8 columns to the right.
// If rows have an even number of elements, a pair is at a multiple of its size and one instruction writes it.
template <typename T, int COUNT>
__device__ inline void store(T* d, const T (&c)[COUNT], int m, int n, int row, int column) {
#pragma unroll
    for (int pair = 0; pair < COUNT / 2; ++pair) {
        int down = row + 8 * (pair % 2), right = column + 8 * (pair / 2) + 2 * (threadIdx.x % 4);
        T* to = d + static_cast<long long>(down) * n + right;
        if (down < m && n % 2 == 0 && right < n) *reinterpret_cast<Pair<T>*>(to) = {c[2 * pair], c[2 * pair + 1]};
        if (down < m && n % 2 && right < n) to[0] = c[2 * pair];
        if (down < m && n % 2 && right + 1 < n) to[1] = c[2 * pair + 1];
    }
}
