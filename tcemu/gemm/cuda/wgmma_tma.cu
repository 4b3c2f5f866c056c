// wgmma fed by TMA: the twin of wgmma_tma.py. The compiler's options define Accumulator, COLUMNS, CONSUMERS, STAGES,
// IN_FLIGHT, DEPTH (elements in 128 bytes) and PROMOTE; tcemu.gemm.twins.inline makes `wgmma` from the instruction.
#include "common.h"

constexpr int LINE = 128, STEP = 32, ROWS = 64;
constexpr int TILE = ROWS * CONSUMERS, A_BYTES = TILE * LINE, STAGE_BYTES = A_BYTES + COLUMNS * LINE;
constexpr int PAIRS = COLUMNS / 2;

extern __shared__ unsigned char dynamic[];

// The 128-byte swizzle repeats every 1,024 bytes: the stages start at a multiple of that.
__device__ u32 first_stage() { return (in_shared(dynamic) + 1023) / 1024 * 1024; }
__device__ u32 full(int stage) { return first_stage() + STAGES * STAGE_BYTES + 8 * stage; }
__device__ u32 empty(int stage) { return full(STAGES + stage); }

// `group` is the warpgroup's number in its team: in wgmma_persistent.cu, there may be several.
__device__ void multiply_stage(int stage, Accumulator (&c)[PAIRS], bool begin, int group = threadIdx.x / 128) {
    u32 tile = first_stage() + stage * STAGE_BYTES;
    u64 a = k_major(tile + LINE * ROWS * group), b = k_major(tile + A_BYTES);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    for (int at = 0; at < LINE; at += STEP) wgmma(c, a + at / 16, b + at / 16, at > 0 || !begin);
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

template <int PENDING>
__device__ void wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

__device__ void wait_for_all(Accumulator (&c)[PAIRS]) {
    wait_group<0>();
    for (int i = 0; i < PAIRS; ++i) changed(c[i]);
}

__device__ void release(int stage) {
    if (threadIdx.x % 32 == 0) mbarrier_arrive(empty(stage));
}

__device__ void consume(Accumulator (&c)[PAIRS], int steps) {
    Ring<STAGES> here, done;
    for (int step = 0; step < steps; ++step, here.next()) {
        mbarrier_wait(full(here.stage), here.turn % 2);
        multiply_stage(here.stage, c, step == 0);
        wait_group<IN_FLIGHT>();
        if (IN_FLIGHT == 0)
            for (int i = 0; i < PAIRS; ++i) changed(c[i]);
        if (step >= IN_FLIGHT) {
            release(done.stage);
            done.next();
        }
    }
    wait_for_all(c);
}

__device__ void consume_promoted(Accumulator (&c)[PAIRS], int steps) {
    Accumulator part[PAIRS];
    for (int i = 0; i < PAIRS; ++i) c[i] = 0;
    Ring<STAGES> here;
    for (int step = 0; step < steps; ++step, here.next()) {
        mbarrier_wait(full(here.stage), here.turn % 2);
        multiply_stage(here.stage, part, true);
        wait_for_all(part);
        release(here.stage);
        for (int i = 0; i < PAIRS; ++i) c[i] += part[i];
    }
}

__device__ void produce(const void* a, const void* b, int steps) {
    Ring<STAGES> here;
    for (int step = 0; step < steps; ++step, here.next()) {
        u32 tile = first_stage() + here.stage * STAGE_BYTES;
        mbarrier_wait(empty(here.stage), (here.turn + 1) % 2);
        mbarrier_arrive_expect_tx(full(here.stage), STAGE_BYTES);
        load_box(tile, a, DEPTH * step, TILE * blockIdx.y, full(here.stage));
        load_box(tile + A_BYTES, b, DEPTH * step, COLUMNS * blockIdx.x, full(here.stage));
    }
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
kernel(const void* a, const void* b, Accumulator* d, int m, int n, int k) {
    int steps = (k + DEPTH - 1) / DEPTH, warp = threadIdx.x / 32;
    begin();
    if (warp == 4 * CONSUMERS) {
        if (threadIdx.x % 32 == 0) produce(a, b, steps);
        return;
    }
    Accumulator c[PAIRS];
    if (PROMOTE) consume_promoted(c, steps); else consume(c, steps);
    store(d, c, m, n, TILE * blockIdx.y + 16 * warp + threadIdx.x % 32 / 4, COLUMNS * blockIdx.x);
}
