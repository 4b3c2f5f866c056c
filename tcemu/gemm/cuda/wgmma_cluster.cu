// The Hopper kernel in clusters of BLOCKS blocks: the twin of wgmma_cluster.py, made as wgmma_tma.cu is.
#include "wgmma_tma.cu"

constexpr int PART = TILE / BLOCKS;
constexpr unsigned short EVERYONE = (1 << BLOCKS) - 1;

__device__ void meet() {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ void load_box_for_all(u32 to, const void* map, int x, int y, u32 bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%2, %3}], [%4], %5;"
                 ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(bar), "h"(EVERYONE) : "memory");
}

__device__ void begin_in_cluster() {
    if (threadIdx.x == 128 * CONSUMERS) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full(stage), 1);
            mbarrier_init(empty(stage), 4 * CONSUMERS * BLOCKS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncwarp();
    meet();
}

__device__ void produce_for_all(const void* a, const void* b, int steps) {
    int first = PART * rank();
    Ring<STAGES> here;
    for (int step = 0; step < steps; ++step, here.next()) {
        u32 tile = first_stage() + here.stage * STAGE_BYTES;
        mbarrier_wait(empty(here.stage), (here.turn + 1) % 2);
        mbarrier_arrive_expect_tx(full(here.stage), STAGE_BYTES);
        load_box_for_all(tile + LINE * first, a, DEPTH * step, TILE * blockIdx.y + first, full(here.stage));
        load_box(tile + A_BYTES, b, DEPTH * step, COLUMNS * blockIdx.x, full(here.stage));
    }
}

__device__ void release_in_all(int stage) {
    if (threadIdx.x % 32 == 0)
        for (int each = 0; each < BLOCKS; ++each)
            asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];"
                         ::"r"(mapa(empty(stage), each)) : "memory");
}

__device__ void consume_in_cluster(Accumulator (&c)[PAIRS], int steps) {
    Ring<STAGES> here, done;
    for (int step = 0; step < steps; ++step, here.next()) {
        mbarrier_wait(full(here.stage), here.turn % 2);
        multiply_stage(here.stage, c, step == 0);
        wait_group<IN_FLIGHT>();
        if (IN_FLIGHT == 0)
            for (int i = 0; i < PAIRS; ++i) changed(c[i]);
        if (step >= IN_FLIGHT) {
            release_in_all(done.stage);
            done.next();
        }
    }
    wait_for_all(c);
}

extern "C" __global__ void __cluster_dims__(BLOCKS, 1, 1) __launch_bounds__(128 * CONSUMERS + 32)
in_clusters(const void* a, const void* b, Accumulator* d, int m, int n, int k) {
    int steps = (k + DEPTH - 1) / DEPTH, warp = threadIdx.x / 32;
    begin_in_cluster();
    if (warp == 4 * CONSUMERS) {
        if (threadIdx.x % 32 == 0) produce_for_all(a, b, steps);
        __syncwarp();
    } else {
        Accumulator c[PAIRS];
        consume_in_cluster(c, steps);
        store(d, c, m, n, TILE * blockIdx.y + 16 * warp + threadIdx.x % 32 / 4, COLUMNS * blockIdx.x);
    }
    meet();  // until then, others signal this block's mbarriers and copy into its memory
}
