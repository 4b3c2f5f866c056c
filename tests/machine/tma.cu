// Asks a GPU what tensor copies and mbarriers do: tests/machine/test_tma_live.py runs these through tcemu.live.cuda.

using u32 = unsigned int;
using u64 = unsigned long long;

__device__ u32 in_shared(const void* place) { return static_cast<u32>(__cvta_generic_to_shared(place)); }

// ------------------------------------------------------------------------------------------------ mbarriers

__device__ u32 test(u32 bar, u32 parity) {
    u32 done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(bar), "r"(parity) : "memory");
    return done;
}

__device__ u32 test_state(u32 bar, u64 state) {
    u32 done;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(bar), "l"(state) : "memory");
    return done;
}

__device__ u32 pending(u64 state) {
    u32 count;
    asm("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(state));
    return count;
}

// Each operation (what, count) and what the mbarrier answers then: parities 0 and 1, arrivals pending before it, and
// whether the phase of the last arrival since init is complete.
__global__ void mbarrier(const u32* operations, u32* answers, u32 many) {
    __shared__ alignas(8) u64 object;
    u32 bar = in_shared(&object);
    u64 state = 0;
    bool arrived = false;
    for (u32 i = 0; i < many; ++i) {
        u32 what = operations[2 * i], count = operations[2 * i + 1];
        bool arrives = what == 1 || what == 2 || what == 5;
        arrived = what != 0 && (arrived || arrives);
        switch (what) {
        case 0:
            if (i) asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(bar) : "memory");
            asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
            break;
        case 1:
            asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;" : "=l"(state) : "r"(bar), "r"(count) : "memory");
            break;
        case 2:
            asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1], %2;"
                         : "=l"(state) : "r"(bar), "r"(count) : "memory");
            break;
        case 3:
            asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
            break;
        case 4:
            asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(bar), "r"(count) : "memory");
            break;
        case 5:
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], %2;"
                         : "=l"(state) : "r"(bar), "r"(count) : "memory");
            break;
        }
        answers[4 * i] = test(bar, 0);
        answers[4 * i + 1] = test(bar, 1);
        answers[4 * i + 2] = arrives ? pending(state) : 0;
        answers[4 * i + 3] = arrived ? test_state(bar, state) : 0;
    }
}

// ------------------------------------------------------------------------------------------------ tensor copies

#define AT0 "{%2}"
#define AT1 "{%2, %3}"
#define AT2 "{%2, %3, %4}"
#define AT3 "{%2, %3, %4, %5}"
#define AT4 "{%2, %3, %4, %5, %6}"
#define LOAD(dim, at)                                                                                                  \
    asm volatile("cp.async.bulk.tensor." dim ".shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, " at \
                 "], [%7];" ::"r"(box), "l"(map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4]), "r"(bar)       \
                 : "memory")
#define STORE(dim, at)                                                                                                 \
    asm volatile("cp.async.bulk.tensor." dim ".global.shared::cta.tile.bulk_group [%1, " at "], [%0];" ::"r"(box),      \
                 "l"(map), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]), "r"(c[4])                                       \
                 : "memory")

// One warp: a load of a box into `box_bytes` (as much of shared memory, from a multiple of 1024 + `offset` on), or a
// store out of them. The map lacks its address, which is `tensor` + `shift`; `room` is 256 bytes to put it together.
// report: whether the mbarrier's phase was complete when exactly `bytes` were expected.
__global__ void tensor_copy(const u64* bits, unsigned char* tensor, unsigned char* room, const int* coordinates,
                            unsigned char* box_bytes, u32* report, u64 shift, u32 rank, u32 offset, u32 size, u32 bytes,
                            u32 storing) {
    extern __shared__ unsigned char raw[];
    unsigned char* shared = raw + (1024 - in_shared(raw) % 1024) % 1024;  // the map, the mbarrier, then the box
    u64* held = reinterpret_cast<u64*>(shared);
    unsigned char* place = shared + 1024 + offset;
    u64 map = (reinterpret_cast<u64>(room) + 127) / 128 * 128;
    u32 bar = in_shared(shared + 512), box = in_shared(place), lane = threadIdx.x;
    int c[5];
    for (u32 i = 0; i < 5; ++i) c[i] = coordinates[i];
    if (lane < 16) held[lane] = bits[lane];
    for (u32 i = lane; i < size; i += 32) place[i] = box_bytes[i];
    __syncwarp();
    if (lane == 0) {
        u64 address = reinterpret_cast<u64>(tensor) + shift;
        asm volatile("tensormap.replace.tile.global_address.shared::cta.b1024.b64 [%0], %1;" ::"r"(in_shared(shared)),
                     "l"(address) : "memory");
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar) : "memory");
    }
    __syncwarp();
    asm volatile("tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%0], [%1], 128;"
                 ::"l"(map), "r"(in_shared(shared)) : "memory");
    asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
    asm volatile("fence.proxy.async;" ::: "memory");
    __syncwarp();
    if (lane == 0 && storing) {
        switch (rank) {
        case 1: STORE("1d", AT0); break;
        case 2: STORE("2d", AT1); break;
        case 3: STORE("3d", AT2); break;
        case 4: STORE("4d", AT3); break;
        case 5: STORE("5d", AT4); break;
        }
        asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
    }
    if (lane == 0 && !storing) {
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(bar), "r"(bytes) : "memory");
        switch (rank) {
        case 1: LOAD("1d", AT0); break;
        case 2: LOAD("2d", AT1); break;
        case 3: LOAD("3d", AT2); break;
        case 4: LOAD("4d", AT3); break;
        case 5: LOAD("5d", AT4); break;
        }
        u32 done = 0;
        for (u32 tries = 0; tries < 1000000 && !done; ++tries) done = test(bar, 0);
        report[0] = done;
    }
    __syncwarp();
    if (!storing)
        for (u32 i = lane; i < size; i += 32) box_bytes[i] = place[i];
}
