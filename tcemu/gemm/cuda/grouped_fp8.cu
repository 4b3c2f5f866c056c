// Grouped fp8 GEMM with block scales: the twin of grouped_fp8.py, made as wgmma_tma.cu is.
#include "wgmma_tma.cu"

constexpr int BLOCK = 128;

__device__ void produce(const void* a, const void* b, int row, int column, int steps) {
    Ring<STAGES> here;
    for (int step = 0; step < steps; ++step, here.next()) {
        u32 to = first_stage() + here.stage * STAGE_BYTES;
        mbarrier_wait(empty(here.stage), (here.turn + 1) % 2);
        mbarrier_arrive_expect_tx(full(here.stage), STAGE_BYTES);
        load_box(to, a, BLOCK * step, row, full(here.stage));
        load_box(to + A_BYTES, b, BLOCK * step, column, full(here.stage));
    }
}

struct Scales {
    float upper, lower, of_block;  // of this lane's rows, 8 apart, and of the block's columns
};

// Of a stage: `a` has a line of `rows` scales for each, and `b` one scale.
__device__ Scales load_scales(const float* a, const float* b, const int (&at)[2], int rows, int step) {
    const float* line = a + static_cast<long long>(step) * rows;
    return {line[at[0]], line[at[1]], b[step]};
}

// Add a stage's sums to the result, times both scales: one fma for each element.
__device__ void promote(float (&c)[PAIRS], const float (&part)[PAIRS], Scales scales) {
    float by[2] = {__fmul_rn(scales.upper, scales.of_block), __fmul_rn(scales.lower, scales.of_block)};
    for (int i = 0; i < PAIRS; ++i) c[i] = __fmaf_rn(part[i], by[i / 2 % 2], c[i]);
}

__device__ void consume(float (&c)[PAIRS], const float* scales_a, const float* scales_b, const int (&at)[2], int rows,
                        int steps) {
    float part[PAIRS];
    for (int i = 0; i < PAIRS; ++i) c[i] = 0;
    Ring<STAGES> here;
    Scales scales = load_scales(scales_a, scales_b, at, rows, 0);
    for (int step = 0; step < steps; ++step, here.next()) {
        // a step ahead: ptxas multiplies scales before it issues products, which would wait for them
        Scales ahead = load_scales(scales_a, scales_b, at, rows, min(step + 1, steps - 1));
        mbarrier_wait(full(here.stage), here.turn % 2);
        multiply_stage(here.stage, part, true);
        wait_for_all(part);
        release(here.stage);
        promote(c, part, scales);
        scales = ahead;
    }
}

extern "C" __global__ void __launch_bounds__(128 * CONSUMERS + 32)
grouped(const void* a, const float* scales_a, const void* b, const float* scales_b, const int4* tiles, float* d,
        int rows, int n, int k) {
    int4 tile = tiles[blockIdx.y];  // the group, the first row, the row after the last
    int steps = (k + BLOCK - 1) / BLOCK, warp = threadIdx.x / 32, first = tile.y, end = tile.z;
    begin();
    if (warp == 4 * CONSUMERS) {
        if (threadIdx.x % 32 == 0) produce(a, b, first, n * tile.x + COLUMNS * blockIdx.x, steps);
        return;
    }
    int row = first + 16 * warp + threadIdx.x % 32 / 4, at[2] = {min(row, end - 1), min(row + 8, end - 1)};
    float c[PAIRS];
    consume(c, scales_a, scales_b + (tile.x * gridDim.x + blockIdx.x) * steps, at, rows, steps);
    store(d, c, end, n, row, COLUMNS * blockIdx.x);
}
