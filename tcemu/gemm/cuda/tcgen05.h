// What the twins with tcgen05 share. The compiler's options define GROUP: 1, or 2 for a pair of blocks.
#pragma once
#include "common.h"

#define TEXT_OF(number) #number
#define TEXT(number) TEXT_OF(number)
#define CTA_GROUP ".cta_group::" TEXT(GROUP)

__device__ inline void after_thread_sync() { asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory"); }
__device__ inline void before_thread_sync() { asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory"); }

// All threads of the group meet; what tcgen05 did before and does after is ordered.
__device__ inline void meet() {
    before_thread_sync();
    if (GROUP == 1)
        __syncthreads();
    else
        asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    after_thread_sync();
}

// A warp allocates columns; their address is written to shared memory.
template <int COLUMNS_OF_ALL>
__device__ inline void allocate(u32 slot) {
    asm volatile("tcgen05.alloc" CTA_GROUP ".sync.aligned.shared::cta.b32 [%0], %1;"
                 ::"r"(slot), "n"(COLUMNS_OF_ALL) : "memory");
    asm volatile("tcgen05.relinquish_alloc_permit" CTA_GROUP ".sync.aligned;");
}

template <int COLUMNS_OF_ALL>
__device__ inline void deallocate(u32 taddr) {
    asm volatile("tcgen05.dealloc" CTA_GROUP ".sync.aligned.b32 %0, %1;" ::"r"(taddr), "n"(COLUMNS_OF_ALL));
}

__device__ inline u32 allocated(u32 slot) {
    u32 taddr;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(taddr) : "r"(slot) : "memory");
    return taddr;
}

// A descriptor for tcgen05: as for wgmma, but bits 48 to 46 are 1, and the code of the swizzle is 2 in bits 63 to 61.
__device__ inline u64 for_tcgen05(u64 descriptor) { return (descriptor & ~(3ull << 62)) | 1ull << 46 | 2ull << 61; }

// The mbarrier gets an arrival when this thread's products and copies so far have ended; so does the peer's.
__device__ inline void commit_to(u32 bar) {
#if GROUP == 1
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(bar) : "memory");
#else
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 ::"r"(bar), "h"(static_cast<unsigned short>(0b11)) : "memory");
#endif
}

// 16 columns of this thread's lane. The wait is part of the same text, so that nothing uses the registers before it.
template <typename T>
__device__ inline void load(T (&c)[16], u32 from) {
    u32 held[16];
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];\n"
                 "tcgen05.wait::ld.sync.aligned;"
                 : "=r"(held[0]), "=r"(held[1]), "=r"(held[2]), "=r"(held[3]), "=r"(held[4]), "=r"(held[5]),
                   "=r"(held[6]), "=r"(held[7]), "=r"(held[8]), "=r"(held[9]), "=r"(held[10]), "=r"(held[11]),
                   "=r"(held[12]), "=r"(held[13]), "=r"(held[14]), "=r"(held[15]) : "r"(from) : "memory");
    for (int i = 0; i < 16; ++i) c[i] = reinterpret_cast<T&>(held[i]);
}

// The same, written; other operations may use the cells after wait_for_stores and an arrival.
__device__ inline void store(u32 to, const u32 (&c)[16]) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x16.b32 [%0], "
                 "{%1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16};"
                 ::"r"(to), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]), "r"(c[5]), "r"(c[6]), "r"(c[7]),
                   "r"(c[8]), "r"(c[9]), "r"(c[10]), "r"(c[11]), "r"(c[12]), "r"(c[13]), "r"(c[14]), "r"(c[15])
                 : "memory");
}

__device__ inline void wait_for_stores() { asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory"); }
