// PTX instructions as functions with PTX's names, for the rungs of the ladder. D = A B^T: A (m, k) and B (n, k) of f16.
#pragma once

#include <cuda_fp16.h>

using u32 = unsigned int;
using u64 = unsigned long long;

// ------------------------------------------------------------------------------------------ mma.sync, ldmatrix

__device__ inline void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

__device__ inline void ldmatrix(u32 (&d)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(from) : "memory");
}

// ------------------------------------------------------------------------------------------ shared memory, cp.async

__device__ inline u32 in_shared(const void* place) { return static_cast<u32>(__cvta_generic_to_shared(place)); }

__device__ inline void st_shared(u32 to, uint4 held) {
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};"
                 ::"r"(to), "r"(held.x), "r"(held.y), "r"(held.z), "r"(held.w) : "memory");
}

// 16 bytes; of them, `size` are read and the others are zeros.
__device__ inline void cp_async(u32 to, const void* from, int size) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
}

__device__ inline void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ inline void cp_async_wait_group() { asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory"); }

// ------------------------------------------------------------------------------------------ mbarriers, TMA

struct alignas(64) TensorMap {  // CUtensorMap of <cuda.h>
    u64 words[16];
};

__device__ inline void mbarrier_init(u32 bar, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
}

__device__ inline void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

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

// A box of a matrix whose first element is in column x of row y.
__device__ inline void cp_async_bulk_tensor(u32 to, const TensorMap& map, int x, int y, u32 bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3}], [%4];"
                 ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(bar) : "memory");
}

// The same for all blocks of the cluster whose bits are in the mask.
__device__ inline void cp_async_bulk_tensor_multicast(u32 to, const TensorMap& map, int x, int y, u32 bar,
                                                      int cta_mask) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(to), "l"(&map), "r"(x), "r"(y), "r"(bar), "h"(static_cast<short>(cta_mask)) : "memory");
}

// ------------------------------------------------------------------------------------------ clusters

__device__ inline int cluster_ctarank() {
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

__device__ inline u32 mapa(u32 place, int rank) {
    u32 there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(place), "r"(rank));
    return there;
}

// Without .release.cluster, which would be a MEMBAR.ALL.GPU in each step: wgmma only reads, and its group is complete.
__device__ inline void mbarrier_arrive_shared_cluster(u32 bar) {
    asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(bar) : "memory");
}

__device__ inline void barrier_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// ------------------------------------------------------------------------------------------ wgmma, setmaxnreg

// The descriptor of a K-major tile with the 128-byte swizzle: 8 rows of 128 bytes follow each other.
__device__ inline u64 descriptor(u32 tile) {
    return static_cast<u64>(tile & 0x3FFFF) >> 4 | 1ull << 16 | 1024ull >> 4 << 32 | 1ull << 62;
}

__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ inline void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int PENDING>
__device__ inline void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

template <int COUNT>
__device__ inline void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }

template <int COUNT>
__device__ inline void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }

#include "wgmma.h"
