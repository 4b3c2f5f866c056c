// Attention forward with wgmma: the twin of attention_wgmma.py. tcemu.gemm.twins makes `multiply` (A in shared memory)
// and `multiply_held` (A in registers) from the instruction, and defines SCALE, FEW and MANY.
#include <cuda_fp16.h>

#include "common.h"

constexpr int LINE = 128, DIM = 128, ROWS = 64, CONSUMERS = 2, KEYS = 128, QUERIES = ROWS * CONSUMERS;
constexpr int BOX = 128 * LINE, BOXES = 2 * DIM / LINE, TILE = BOXES * BOX, STAGES = 4;

extern __shared__ unsigned char dynamic[];

__device__ u32 first_stage() { return (in_shared(dynamic) + 1023) / 1024 * 1024; }
__device__ u32 first_of_q() { return first_stage() + STAGES * TILE; }
__device__ u32 full(int stage) { return first_of_q() + TILE + 8 * stage; }
__device__ u32 empty(int stage) { return full(STAGES + stage); }
__device__ u32 q_full() { return full(2 * STAGES); }

__device__ void begin() {
    if (threadIdx.x == 128 * CONSUMERS) {
        for (int stage = 0; stage < STAGES; ++stage) {
            mbarrier_init(full(stage), 1);
            mbarrier_init(empty(stage), 4 * CONSUMERS);
        }
        mbarrier_init(q_full(), 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
}

__device__ void load_tile(u32 to, const void* map, int row, int head, u32 bar) {
    mbarrier_arrive_expect_tx(bar, TILE);
    for (int half = 0; half < BOXES; ++half) load_box(to + BOX * half, map, DIM / BOXES * half, row, head, bar);
}

__device__ void load_next(Ring<STAGES>& here, const void* map, int row, int head) {
    mbarrier_wait(empty(here.stage), (here.turn + 1) % 2);
    load_tile(first_stage() + TILE * here.stage, map, row, head, full(here.stage));
    here.next();
}

__device__ void produce(const void* q, const void* k, const void* v, int head_of_k, int tiles) {
    load_tile(first_of_q(), q, QUERIES * blockIdx.x, blockIdx.y, q_full());
    Ring<STAGES> here;
    load_next(here, k, 0, head_of_k);
    for (int tile = 1; tile <= tiles; ++tile) {
        if (tile < tiles) load_next(here, k, KEYS * tile, head_of_k);
        load_next(here, v, KEYS * (tile - 1), head_of_k);
    }
}

__device__ void release(int stage) {
    if (threadIdx.x % 32 == 0) mbarrier_arrive(empty(stage));
}

__device__ void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ void wait_group() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }

// Issue S = Q K^T of a tile, as a group.
__device__ void scores(float (&s)[KEYS / 2], int stage) {
    u32 q = first_of_q() + LINE * ROWS * (threadIdx.x / 128), k = first_stage() + TILE * stage;
    fence();
    for (int step = 0; step < DIM / 16; ++step) {
        int box = BOX * (step / 4), at = 32 * (step % 4) / 16;
        multiply(s, k_major(q + box) + at, k_major(k + box) + at, step > 0);
    }
    commit_group();
}

// Issue O += P V of a tile, as a group; with `first`, O starts at zero.
__device__ void add_values(float (&o)[DIM / 2], u32 (&p)[KEYS / 16][4], int stage, bool first) {
    u64 b = mn_major(first_stage() + TILE * stage, BOX);
    fence();
    for (int step = 0; step < KEYS / 16; ++step) multiply_held(o, p[step], b + 16 * LINE * step / 16, step > 0 || !first);
    commit_group();
}

// -inf where there is no key, or where a row sees only keys before `seen`. The index is 4 n + 2 row + column.
__device__ void mask(float (&s)[KEYS / 2], int first, int keys, const int (&seen)[2]) {
    if (min(seen[0], keys) >= first + KEYS) return;
    for (int i = 0; i < KEYS / 2; ++i)
        if (first + 8 * (i / 4) + 2 * (threadIdx.x % 4) + i % 2 >= min(seen[i / 2 % 2], keys)) s[i] = __int_as_float(0xff800000);
}

__device__ void rescale(float (&o)[DIM / 2], const float (&factor)[2]) {
    for (int i = 0; i < DIM / 2; ++i) o[i] = __fmul_rn(o[i], factor[i / 2 % 2]);
}

// The powers in f16, as A operands: the accumulator's layout is A's, so nothing moves.
__device__ void pack(u32 (&p)[KEYS / 16][4], const float (&s)[KEYS / 2]) {
    for (int i = 0; i < KEYS / 4; ++i) p[i / 4][i % 4] = halves(s[2 * i], s[2 * i + 1]);
}

__device__ void await_tile(Ring<STAGES> here) { mbarrier_wait(full(here.stage), here.turn % 2); }

__device__ void await_turn(int tile) {
    int group = threadIdx.x / 128;
    if (group || tile) asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
}

__device__ void pass_turn(int tile, int tiles) {
    int group = threadIdx.x / 128;
    if (group == 0 || tile + 1 < tiles) asm volatile("bar.arrive %0, 256;" ::"r"(2 - group) : "memory");
}

template <int COUNT>
__device__ void changed_all(float (&values)[COUNT]) {
    for (int i = 0; i < COUNT; ++i) changed(values[i]);
}

// The warpgroup's 64 queries over all tiles: O, and the totals that divide it.
__device__ void consume(float (&o)[DIM / 2], float (&total)[2], int tiles, int keys, const int (&seen)[2]) {
    float s[KEYS / 2], largest[2] = {__int_as_float(0xff800000), __int_as_float(0xff800000)}, factor[2];
    u32 p[KEYS / 16][4];
    Ring<STAGES> here;
    mbarrier_wait(q_full(), 0);
    await_tile(here);  // the first tile: there are no values to add yet
    await_turn(0);
    scores(s, here.stage);
    pass_turn(0, tiles);
    wait_group<0>();
    changed_all(s);
    release(here.stage);
    mask(s, 0, keys, seen);
    softmax(s, largest, total, factor);
    pack(p, s);
    here.next();
    await_tile(here);
    for (int tile = 1; tile < tiles; ++tile) {
        int of_k = here.stage, of_v;
        here.next();
        of_v = here.stage;
        await_turn(tile);
        scores(s, of_k);
        await_tile(here);
        add_values(o, p, of_v, tile == 1);
        pass_turn(tile, tiles);
        wait_group<1>();  // the scores are there; the other product may still run
        changed_all(s);
        release(of_k);
        mask(s, KEYS * tile, keys, seen);
        softmax(s, largest, total, factor);
        here.next();
        await_tile(here);  // before the other wait, or ptxas puts that before the softmax
        wait_group<0>();
        changed_all(o);
        release(of_v);
        rescale(o, factor);
        pack(p, s);
    }
    add_values(o, p, here.stage, tiles == 1);
    wait_group<0>();
    changed_all(o);
    for (int row = 0; row < 2; ++row) total[row] = total_of_row(total[row]);
}

__device__ void store(__half* out, const float (&o)[DIM / 2], const float (&total)[2], int queries, int row) {
    float by[2] = {__fdiv_rn(1, total[0]), __fdiv_rn(1, total[1])};
    for (int i = 0; i < DIM / 2; i += 2) {
        int down = row + 8 * (i / 2 % 2), right = 8 * (i / 4) + 2 * (threadIdx.x % 4);
        u32 pair = halves(__fmul_rn(o[i], by[i / 2 % 2]), __fmul_rn(o[i + 1], by[i / 2 % 2]));
        u32* to = reinterpret_cast<u32*>(out + (static_cast<long long>(blockIdx.y) * queries + down) * DIM + right);
        if (down < queries) *to = pair;
    }
}

extern "C" __global__ void __launch_bounds__(128 * (CONSUMERS + 1), 1)
kernel(const void* q, const void* k, const void* v, __half* out, int queries, int keys, int heads_of_k, int causal) {
    int end = causal ? min(keys, QUERIES * (int)(blockIdx.x + 1) + keys - queries) : keys, tiles = (end + KEYS - 1) / KEYS;
    int warp = threadIdx.x / 32, row = QUERIES * blockIdx.x + 16 * warp + threadIdx.x % 32 / 4;
    begin();
    if (warp / 4 == CONSUMERS) {
        fewer_registers<FEW>();
        if (threadIdx.x == 128 * CONSUMERS) produce(q, k, v, blockIdx.y / (gridDim.y / heads_of_k), tiles);
        return;
    }
    more_registers<MANY>();
    int seen[2] = {causal ? row + keys - queries + 1 : keys, causal ? row + 8 + keys - queries + 1 : keys};
    float o[DIM / 2], total[2] = {};
    consume(o, total, tiles, keys, seen);
    store(out, o, total, queries, row);
}
