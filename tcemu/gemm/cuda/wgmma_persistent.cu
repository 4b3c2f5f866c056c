// Persistent GEMM: the twin of wgmma_persistent.py, made as wgmma_tma.cu is. The compiler's options also define TEAMS
// (1: cooperative, 2: ping-pong), GROUP, FEW and MANY, the registers of a thread that produces and of one that consumes.
#include "wgmma_tma.cu"

constexpr int WARPGROUPS = TEAMS * CONSUMERS;

__device__ u32 order(int team) { return empty(STAGES + team); }

// A tile's row and column, in tiles.
struct Place {
    int y, x;
};

// Groups of GROUP rows of tiles are visited one after the other, each column by column.
__device__ Place place(int tile, int down, int across) {
    int turn = tile / (GROUP * across), within = tile % (GROUP * across);
    int rows = min(GROUP, down - GROUP * turn);
    return {GROUP * turn + within % rows, within / rows};
}

// One lane of the producer initialises the mbarriers; then all threads may use them.
__device__ void begin_teams() {
    if (threadIdx.x == 128 * WARPGROUPS) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full(stage), 1);
            mbarrier_init(empty(stage), 4 * CONSUMERS);
        }
        for (int team = 0; team < TEAMS; ++team) mbarrier_init(order(team), 4 * CONSUMERS);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
}

__device__ void produce(const void* a, const void* b, int down, int across, int steps) {
    Ring<STAGES> here;
    for (int tile = blockIdx.x; tile < down * across; tile += gridDim.x) {
        Place at = place(tile, down, across);
        for (int step = 0; step < steps; ++step, here.next()) {
            u32 to = first_stage() + here.stage * STAGE_BYTES;
            mbarrier_wait(empty(here.stage), (here.turn + 1) % 2);
            mbarrier_arrive_expect_tx(full(here.stage), STAGE_BYTES);
            load_box(to, a, DEPTH * step, TILE * at.y, full(here.stage));
            load_box(to + A_BYTES, b, DEPTH * step, COLUMNS * at.x, full(here.stage));
        }
    }
}

__device__ void await_turn(int team, int number) {
    if (TEAMS > 1) mbarrier_wait(order(team), (number / TEAMS + (team == 0)) % 2);
}

__device__ void pass_turn(int team) {
    if (TEAMS > 1 && threadIdx.x % 32 == 0) mbarrier_arrive(order((team + 1) % TEAMS));
}

__device__ void consume(Accumulator (&c)[PAIRS], int team, int number, int steps, Ring<STAGES>& here) {
    int group = threadIdx.x / 128 % CONSUMERS, before = 0;
    await_turn(team, number);
    for (int step = 0; step < steps; ++step, here.next()) {
        mbarrier_wait(full(here.stage), here.turn % 2);
        multiply_stage(here.stage, c, step == 0, group);
        if (step) {
            wait_group<1>();
            release(before);
        }
        before = here.stage;
    }
    pass_turn(team);
    wait_for_all(c);
    release(before);
}

extern "C" __global__ void __launch_bounds__(128 * (WARPGROUPS + 1), 1)
persistent(const void* a, const void* b, Accumulator* d, int m, int n, int k) {
    int steps = (k + DEPTH - 1) / DEPTH, warp = threadIdx.x / 32;
    int down = (m + TILE - 1) / TILE, across = (n + COLUMNS - 1) / COLUMNS;
    begin_teams();
    if (warp / 4 == WARPGROUPS) {
        fewer_registers<FEW>();
        if (threadIdx.x == 128 * WARPGROUPS) produce(a, b, down, across, steps);
        return;
    }
    more_registers<MANY>();
    int team = warp / (4 * CONSUMERS), tile = blockIdx.x + team * gridDim.x;
    Ring<STAGES> here;
    here.skip(team * steps);
    for (int number = team; tile < down * across; number += TEAMS, tile += TEAMS * gridDim.x) {
        Accumulator c[PAIRS];
        consume(c, team, number, steps, here);
        here.skip((TEAMS - 1) * steps);
        Place at = place(tile, down, across);
        int row = TILE * at.y + 16 * (warp % (4 * CONSUMERS)) + threadIdx.x % 32 / 4;
        store(d, c, m, n, row, COLUMNS * at.x);
    }
}
