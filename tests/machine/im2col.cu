// Asks a GPU what tensor copies of im2col mode do: tests/machine/im2col_copies.py runs these through tcemu.live.cuda.

using u32 = unsigned int;
using u64 = unsigned long long;

__device__ u32 in_shared(const void* place) { return static_cast<u32>(__cvta_generic_to_shared(place)); }

#define AT3 "{%2, %3, %4}"
#define AT4 "{%2, %3, %4, %5}"
#define AT5 "{%2, %3, %4, %5, %6}"
#define BY3 "{%8}"
#define BY4 "{%8, %9}"
#define BY5 "{%8, %9, %10}"
#define COPY(text)                                                                                                     \
    asm volatile(text ::"r"(box), "l"(map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]), "r"(bar), "h"(o[0]), \
                 "h"(o[1]), "h"(o[2]), "h"(mask)                                                                       \
                 : "memory")
#define INTO(dim, mode) "cp.async.bulk.tensor." dim ".shared::cluster.global." mode ".mbarrier::complete_tx::bytes"
#define LOAD(dim, at, by) COPY(INTO(dim, "im2col") " [%0], [%1, " at "], [%7], " by ";")
#define MULTICAST(dim, at, by) COPY(INTO(dim, "im2col") ".multicast::cluster [%0], [%1, " at "], [%7], " by ", %11;")
#define TILE(dim, at, by) COPY(INTO(dim, "tile") " [%0], [%1, " at "], [%7];")
#define OUT(dim, mode) "cp.async.bulk.tensor." dim ".global.shared::cta." mode ".bulk_group"
#define TILE_STORE(dim, at, by) COPY(OUT(dim, "tile") " [%1, " at "], [%0];")
#define PREFETCH(dim, at, by) COPY("cp.async.bulk.prefetch.tensor." dim ".L2.global.im2col [%1, " at "], " by ";")
#define REDUCE(op, dim, mode, at)                                                                                      \
    COPY("cp.reduce.async.bulk.tensor." dim ".global.shared::cta." op "." mode ".bulk_group [%1, " at "], [%0];")
#define STORE(dim, at, by) COPY(OUT(dim, "im2col_no_offs") " [%1, " at "], [%0];")
#define EACH(copy)                                                                                                     \
    switch (rank) {                                                                                                    \
    case 3: copy("3d", AT3, BY3); break;                                                                               \
    case 4: copy("4d", AT4, BY4); break;                                                                               \
    case 5: copy("5d", AT5, BY5); break;                                                                               \
    }                                                                                                                  \
    break;

#define REDUCED(op, mode)                                                                                              \
    switch (rank) {                                                                                                    \
    case 3: REDUCE(op, "3d", mode, AT3); break;                                                                        \
    case 4: REDUCE(op, "4d", mode, AT4); break;                                                                        \
    case 5: REDUCE(op, "5d", mode, AT5); break;                                                                        \
    }                                                                                                                  \
    break;

// The warp of each block: a load of pixels into `bytes_of_box` (as much of shared memory, from a multiple of 1024 +
// `offset` on; one part for each block), or what `what` says. numbers: coordinates, then offsets.
// report: whether the mbarrier's phase was complete when exactly `bytes` were expected. With `mask`, block 0 loads.
__device__ void copied(const void* given, const int* numbers, unsigned char* bytes_of_box, u32* report, u32 rank,
                       u32 offset, u32 size, u32 bytes, u32 what, unsigned short mask) {
    extern __shared__ unsigned char raw[];
    unsigned char* shared = raw + (1024 - in_shared(raw) % 1024) % 1024;  // the mbarrier, then the box
    unsigned char* place = shared + 1024 + offset;
    unsigned char* ours = bytes_of_box + blockIdx.x * size;
    u64 map = reinterpret_cast<u64>(given);
    u32 bar = in_shared(shared), box = in_shared(place), lane = threadIdx.x;
    int c[5];
    unsigned short o[3];
    for (u32 i = 0; i < 5; ++i) c[i] = numbers[i];
    for (u32 i = 0; i < 3; ++i) o[i] = static_cast<unsigned short>(numbers[5 + i]);
    for (u32 i = lane; i < size; i += 32) place[i] = ours[i];
    if (lane == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        if (what < 3)
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
    }
    asm volatile("fence.proxy.async;" ::: "memory");
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
    if (lane == 0 && (blockIdx.x == 0 || !mask)) {
        switch (what) {
        case 0: EACH(LOAD)
        case 1: EACH(MULTICAST)
        case 2: EACH(TILE)
        case 3: EACH(TILE_STORE)
        case 4: EACH(PREFETCH)
        case 5: EACH(STORE)
        case 6: REDUCED("add", "im2col_no_offs")
        case 7: REDUCED("min", "im2col_no_offs")
        case 8: REDUCED("max", "im2col_no_offs")
        case 9: REDUCED("inc", "im2col_no_offs")
        case 10: REDUCED("dec", "im2col_no_offs")
        case 11: REDUCED("and", "im2col_no_offs")
        case 12: REDUCED("or", "im2col_no_offs")
        case 13: REDUCED("xor", "im2col_no_offs")
        case 14: REDUCED("add", "tile")
        case 15: REDUCED("min", "tile")
        case 16: REDUCED("max", "tile")
        case 17: REDUCED("inc", "tile")
        case 18: REDUCED("dec", "tile")
        case 19: REDUCED("and", "tile")
        case 20: REDUCED("or", "tile")
        case 21: REDUCED("xor", "tile")
        }
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
    if (lane == 0 && what < 3) {
        u32 done = 0;
        for (u32 tries = 0; tries < 1000000 && !done; ++tries)
            asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                         : "=r"(done) : "r"(bar) : "memory");
        report[blockIdx.x] = done;
    }
    __syncwarp();
    for (u32 i = lane; i < size; i += 32) ours[i] = place[i];
    asm volatile("barrier.cluster.arrive; barrier.cluster.wait;" ::: "memory");
}

__global__ void im2col_copy(const void* map, const int* numbers, unsigned char* box, u32* report, u32 rank, u32 offset,
                            u32 size, u32 bytes, u32 what) {
    copied(map, numbers, box, report, rank, offset, size, bytes, what, 0);
}

__global__ void __cluster_dims__(2, 1, 1)
    im2col_multicast(const void* map, const int* numbers, unsigned char* box, u32* report, u32 rank, u32 offset,
                     u32 size, u32 bytes, u32 what) {
    copied(map, numbers, box, report, rank, offset, size, bytes, what, 3);
}
