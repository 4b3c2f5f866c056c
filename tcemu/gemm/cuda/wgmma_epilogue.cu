// The Hopper kernel with an epilogue: the twin of wgmma_epilogue.py, made as wgmma_tma.cu is.
#include <cuda_fp16.h>

#include "wgmma_tma.cu"

constexpr int BOX_COLUMNS = LINE / 2, BOX = ROWS * LINE, BOXES = COLUMNS / BOX_COLUMNS;

__device__ u32 first_box() { return (empty(STAGES) + 1023) / 1024 * 1024 + threadIdx.x / 128 * BOXES * BOX; }

__device__ void stmatrix(u32 to, u32 (&held)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 ::"r"(to), "r"(held[0]), "r"(held[1]), "r"(held[2]), "r"(held[3]) : "memory");
}

__device__ u32 activated(float left, float right, const float* bias, int column, int n) {
    column = min(column, n - 2);
    left += bias[column];
    right += bias[column + 1];
    __half2 both = __floats2half2_rn(left > 0 ? left : 0.0f, right > 0 ? right : 0.0f);
    return *reinterpret_cast<u32*>(&both);
}

__device__ void write_tile(const float (&c)[PAIRS], const float* bias, int n) {
    int lane = threadIdx.x % 32, matrix = lane / 8, line = lane % 8;
    int row = 16 * (threadIdx.x / 32 % 4) + 8 * (matrix % 2) + line;
    for (int column = 0; column < COLUMNS; column += 16) {
        u32 held[4];
        for (int i = 0; i < 4; ++i) {
            int pair = column / 4 + i, at = COLUMNS * blockIdx.x + 8 * (pair / 2) + 2 * (lane % 4);
            held[i] = activated(c[2 * pair], c[2 * pair + 1], bias, at, n);
        }
        int unit = column % BOX_COLUMNS / 8 + matrix / 2;
        stmatrix(first_box() + column / BOX_COLUMNS * BOX + row * LINE + ((unit ^ line) * 16), held);
    }
}

__device__ void copy_tile(const void* d) {
    int group = threadIdx.x / 128;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    asm volatile("bar.sync %0, 128;" ::"r"(1 + group) : "memory");
    if (threadIdx.x % 128) return;
    for (int box = 0; box < BOXES; ++box)
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];"
                     ::"l"(d), "r"(COLUMNS * (int)blockIdx.x + BOX_COLUMNS * box),
                       "r"(TILE * (int)blockIdx.y + ROWS * group), "r"(first_box() + BOX * box) : "memory");
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

extern "C" __global__ void __launch_bounds__(128 * CONSUMERS + 32)
with_epilogue(const void* a, const void* b, const float* bias, const void* d, int n, int k) {
    int steps = (k + DEPTH - 1) / DEPTH;
    begin();
    if (threadIdx.x / 32 == 4 * CONSUMERS) {
        if (threadIdx.x % 32 == 0) produce(a, b, steps);
        return;
    }
    Accumulator c[PAIRS];
    consume(c, steps);
    write_tile(c, bias, n);
    copy_tile(d);
}
