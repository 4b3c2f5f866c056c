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

// Add a stage's sums to the result, times both scales: one fma for each element.
__device__ void promote(float (&c)[PAIRS], const float (&part)[PAIRS], const float (&of_rows)[2], float of_block) {
    float by[2] = {__fmul_rn(of_rows[0], of_block), __fmul_rn(of_rows[1], of_block)};
    for (int i = 0; i < PAIRS; ++i) c[i] = __fmaf_rn(part[i], by[i / 2 % 2], c[i]);
}

// `scales_a` are those of this lane's rows, 8 apart, and `scales_b` those of the block's columns, for all steps.
__device__ void consume(float (&c)[PAIRS], const float* scales_a, const float* scales_b, const int (&at)[2], int rows,
                        int steps) {
    float part[PAIRS];
    for (int i = 0; i < PAIRS; ++i) c[i] = 0;
    Ring<STAGES> here;
    for (int step = 0; step < steps; ++step, here.next()) {
        const float* line = scales_a + static_cast<long long>(step) * rows;
        float of_rows[2] = {line[at[0]], line[at[1]]}, of_block = scales_b[step];  // they arrive while the products run
        mbarrier_wait(full(here.stage), here.turn % 2);
        multiply_stage(here.stage, part, true);
        wait_for_all(part);
        release(here.stage);
        promote(c, part, of_rows, of_block);
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
