// Sparse wgmma fed by TMA: the twin of wgmma_sparse.py. The compiler's options define Accumulator, COLUMNS, CONSUMERS,
// STAGES, IN_FLIGHT and DEPTH (elements in 128 bytes); tcemu.gemm.twins.inline makes `wgmma` from the instruction.
#include "common.h"

constexpr int LINE = 128, STEP = 32, ROWS = 64, INSTRUCTIONS = LINE / STEP;
constexpr int TILE = ROWS * CONSUMERS, A_BYTES = TILE * LINE, BOX = COLUMNS * LINE, STAGE_BYTES = A_BYTES + 2 * BOX;
constexpr int PAIRS = COLUMNS / 2;

extern __shared__ unsigned char dynamic[];

__device__ u32 first_stage() { return (in_shared(dynamic) + 1023) / 1024 * 1024; }
__device__ u32 full(int stage) { return first_stage() + STAGES * STAGE_BYTES + 8 * stage; }
__device__ u32 empty(int stage) { return full(STAGES + stage); }

__device__ void produce(const void* a, const void* b, int steps) {
    Ring<STAGES> here;
    for (int step = 0; step < steps; ++step, here.next()) {
        u32 tile = first_stage() + here.stage * STAGE_BYTES;
        mbarrier_wait(empty(here.stage), (here.turn + 1) % 2);
        mbarrier_arrive_expect_tx(full(here.stage), STAGE_BYTES);
        load_box(tile, a, DEPTH * step, TILE * blockIdx.y, full(here.stage));
        for (int box = 0; box < 2; ++box)
            load_box(tile + A_BYTES + box * BOX, b, DEPTH * (2 * step + box), COLUMNS * blockIdx.x, full(here.stage));
    }
}

__device__ void multiply_stage(int stage, Accumulator (&c)[PAIRS], const u32 (&codes)[INSTRUCTIONS], bool start) {
    u32 tile = first_stage() + stage * STAGE_BYTES;
    u64 a = k_major(tile + LINE * ROWS * (threadIdx.x / 128));
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int i = 0; i < INSTRUCTIONS; ++i) {
        u64 b = k_major(tile + A_BYTES + i / 2 * BOX) + 2 * STEP * (i % 2) / 16;
        wgmma(c, a + STEP * i / 16, b, codes[i], i > 0 || !start);
    }
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

__device__ void load_codes(u32 (&codes)[INSTRUCTIONS], const u32* metadata, int step, int steps) {
    const u32* tile = metadata + (CONSUMERS * blockIdx.y + threadIdx.x / 128) * steps * INSTRUCTIONS * 128;
    if (step < steps)
        for (int i = 0; i < INSTRUCTIONS; ++i) codes[i] = tile[(INSTRUCTIONS * step + i) * 128 + threadIdx.x % 128];
}

template <int PENDING>
__device__ void wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

__device__ void release(int stage) {
    if (threadIdx.x % 32 == 0) mbarrier_arrive(empty(stage));
}

// A step of the loop below: `codes` are its metadata, and `ahead` become those of the step after the next one.
__device__ void one_step(Accumulator (&c)[PAIRS], const u32 (&codes)[INSTRUCTIONS], u32 (&ahead)[INSTRUCTIONS],
                         const u32* metadata, int step, int steps, Ring<STAGES>& here, Ring<STAGES>& done) {
    if (step >= steps) return;
    load_codes(ahead, metadata, step + 2, steps);
    mbarrier_wait(full(here.stage), here.turn % 2);
    multiply_stage(here.stage, c, codes, step == 0);
    here.next();
    wait_group<IN_FLIGHT>();
    if (step >= IN_FLIGHT) {
        release(done.stage);
        done.next();
    }
}

// Four steps in the loop's body, each with registers of its own for its metadata: those of the next two are being loaded,
// and products in flight still read theirs.
__device__ void consume(Accumulator (&c)[PAIRS], const u32* metadata, int steps) {
    u32 codes[4][INSTRUCTIONS];
    for (int step = 0; step < 2; ++step) load_codes(codes[step], metadata, step, steps);
    Ring<STAGES> here, done;
    for (int first = 0; first < steps; first += 4)
#pragma unroll
        for (int i = 0; i < 4; ++i)
            one_step(c, codes[i], codes[(i + 2) % 4], metadata, first + i, steps, here, done);
    wait_group<0>();
    for (int i = 0; i < PAIRS; ++i) changed(c[i]);
}

// One lane of the producer initialises the mbarriers; then all threads may use them.
__device__ void begin() {
    if (threadIdx.x == 128 * CONSUMERS) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full(stage), 1);
            mbarrier_init(empty(stage), 4 * CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(128 * CONSUMERS + 32)
kernel(const void* a, const u32* metadata, const void* b, Accumulator* d, int m, int n, int steps) {
    int warp = threadIdx.x / 32;
    begin();
    if (warp == 4 * CONSUMERS) {
        if (threadIdx.x % 32 == 0) produce(a, b, steps);
        return;
    }
    Accumulator c[PAIRS];
    consume(c, metadata, steps);
    store(d, c, m, n, TILE * blockIdx.y + 16 * warp + threadIdx.x % 32 / 4, COLUMNS * blockIdx.x);
}
