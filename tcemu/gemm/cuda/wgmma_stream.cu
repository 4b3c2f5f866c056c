// Stream-K: the twin of wgmma_stream.py, made as wgmma_tma.cu is.
#include "wgmma_tma.cu"

// Steps `first` to `end` - 1 of a tile.
struct Part {
    int tile, first, end;
};

// The run of a block's steps, cut at the ends of tiles; the last part comes first, because the next block waits for it.
struct Work {
    int begin, end, steps;
    __device__ Work(int tiles, int steps) : steps(steps) {
        long long total = static_cast<long long>(tiles) * steps;
        begin = total * blockIdx.x / gridDim.x;
        end = total * (blockIdx.x + 1) / gridDim.x;
    }
    __device__ bool next(Part& part) {
        if (begin == end) return false;
        part.tile = (end - 1) / steps;
        part.first = max(begin - part.tile * steps, 0);
        part.end = end - part.tile * steps;
        end = part.tile * steps + part.first;
        return true;
    }
};

__device__ void wait_for_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(128 * CONSUMERS) : "memory"); }

__device__ void produce_parts(const void* a, const void* b, Work work, int across) {
    Ring<STAGES> here;
    for (Part part; work.next(part);)
        for (int step = part.first; step < part.end; ++step, here.next()) {
            u32 tile = first_stage() + here.stage * STAGE_BYTES;
            mbarrier_wait(empty(here.stage), (here.turn + 1) % 2);
            mbarrier_arrive_expect_tx(full(here.stage), STAGE_BYTES);
            load_box(tile, a, DEPTH * step, TILE * (part.tile / across), full(here.stage));
            load_box(tile + A_BYTES, b, DEPTH * step, COLUMNS * (part.tile % across), full(here.stage));
        }
}

__device__ void consume_part(Accumulator (&c)[PAIRS], Part part, Ring<STAGES>& here) {
    for (int step = part.first; step < part.end; ++step, here.next()) {
        mbarrier_wait(full(here.stage), here.turn % 2);
        multiply_stage(here.stage, c, step == 0);
        wait_for_all(c);
        release(here.stage);
    }
}

// What one thread of a block hands on to the next block: element i is 128 CONSUMERS elements after element i - 1.
__device__ Accumulator* place(Accumulator* kept, int block, int i) {
    return kept + (static_cast<long long>(block) * PAIRS + i) * 128 * CONSUMERS + threadIdx.x;
}

__device__ void hand_on(const Accumulator (&c)[PAIRS], Accumulator* kept, u32* flags) {
    for (int i = 0; i < PAIRS; ++i) *place(kept, blockIdx.x, i) = c[i];
    wait_for_consumers();
    if (threadIdx.x == 0)
        asm volatile("st.release.gpu.global.b32 [%0], 1;" ::"l"(flags + blockIdx.x) : "memory");
}

__device__ void take_over(Accumulator (&c)[PAIRS], Accumulator* kept, const u32* flags) {
    u32 set = threadIdx.x != 0;
    while (!set)
        asm volatile("ld.acquire.gpu.global.b32 %0, [%1];" : "=r"(set) : "l"(flags + blockIdx.x - 1) : "memory");
    wait_for_consumers();
    for (int i = 0; i < PAIRS; ++i) c[i] = *place(kept, blockIdx.x - 1, i);
}

extern "C" __global__ void __launch_bounds__(128 * CONSUMERS + 32)
stream(const void* a, const void* b, Accumulator* d, Accumulator* kept, u32* flags, int m, int n, int k) {
    int steps = (k + DEPTH - 1) / DEPTH, warp = threadIdx.x / 32, across = (n + COLUMNS - 1) / COLUMNS;
    Work work((m + TILE - 1) / TILE * across, steps);
    begin();
    if (warp == 4 * CONSUMERS) {
        if (threadIdx.x % 32 == 0) produce_parts(a, b, work, across);
        return;
    }
    Ring<STAGES> here;
    for (Part part; work.next(part);) {
        Accumulator c[PAIRS];
        if (part.first) take_over(c, kept, flags);
        consume_part(c, part, here);
        if (part.end < steps) {
            hand_on(c, kept, flags);
            continue;
        }
        int row = TILE * (part.tile / across) + 16 * warp + threadIdx.x % 32 / 4;
        store(d, c, m, n, row, COLUMNS * (part.tile % across));
    }
}
