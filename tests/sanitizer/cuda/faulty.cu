// The smallest CUDA C++ kernel that breaks each rule of the sanitizer, and beside it one that does the same rightly.
// The line that is reported ends in "<- reported". g points to 8192 words of zeros; s is 4096 bytes of shared memory.
#include <cuda_fp16.h>
#include <mma.h>

typedef unsigned u32;
typedef unsigned long long u64;
extern __shared__ __align__(1024) u32 s[];

static __device__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
static __device__ u32 warp() { return threadIdx.x / 32; }
static __device__ u32 lane() { return threadIdx.x % 32; }
static __device__ void proxy_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
static __device__ void init(u64* bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(count) : "memory");
}
static __device__ void init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
static __device__ void arrive(u64* bar) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" ::"r"(at(bar)) : "memory");
}
static __device__ void expect(u64* bar, u32 bytes) {
  asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1; }" ::"r"(at(bar)), "r"(bytes) : "memory");
}
static __device__ void wait(u64* bar, u32 parity) {
  u32 done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done) : "r"(at(bar)), "r"(parity) : "memory");
}
static __device__ void copy_in(void* to, const void* from, u32 bytes, u64* bar) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
               ::"r"(at(to)), "l"(from), "r"(bytes), "r"(at(bar)) : "memory");
}
static __device__ void copy_out(void* to, const void* from, u32 bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(at(from)), "r"(bytes) : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
static __device__ void out_done() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
static __device__ void cp_async(void* to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(at(to)), "l"(from) : "memory");
}
static __device__ void cp_async_done() { asm volatile("cp.async.wait_all;" ::: "memory"); }

#if __CUDA_ARCH__ >= 1000
// ---------------------------------------------------------------------------------------------------- launch control

static __device__ void try_cancel(void* response, u64* bar) {
  asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%0], [%1];"
               ::"r"(at(response)), "r"(at(bar)) : "memory");
}
static __device__ bool canceled(const void* response) {
  u32 yes;
  asm volatile("{ .reg .b128 r; .reg .pred p; ld.shared.b128 r, [%1]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, r;"
               " selp.u32 %0, 1, 0, p; }" : "=r"(yes) : "r"(at(response)) : "memory");
  return yes;
}
static __device__ u32 first(const void* response) {
  u32 x;
  asm volatile("{ .reg .b128 r; ld.shared.b128 r, [%1]; clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %0, r; }"
               : "=r"(x) : "r"(at(response)) : "memory");
  return x;
}
// The response to a request of one lane; no other cluster is left.
static __device__ u32* ask(u64* bar) {
  if (threadIdx.x == 0) init(bar, 1), init_fence();
  __syncthreads();
  if (threadIdx.x == 0) expect(bar, 16), try_cancel(s, bar);
  wait(bar, 0);
  return s;
}

extern "C" __global__ void cancel_after_failure(u32* g) {
  u64* bar = (u64*)(s + 512);
  if (!canceled(ask(bar)) && threadIdx.x == 0) expect(bar, 16), try_cancel(s + 4, bar);  // <- reported
}
extern "C" __global__ void cancel_after_failure_right(u32* g) {
  u64* bar = (u64*)(s + 512);
  if (canceled(ask(bar)) && threadIdx.x == 0) expect(bar, 16), try_cancel(s + 4, bar);
}

extern "C" __global__ void cancel_response(u32* g) {
  u64* bar = (u64*)(s + 512);
  g[lane()] = first(ask(bar));  // <- reported
}
extern "C" __global__ void cancel_response_right(u32* g) {
  u64* bar = (u64*)(s + 512);
  u32* response = ask(bar);
  if (canceled(response)) g[lane()] = first(response);
}

// ---------------------------------------------------------------------------------------------------- Tensor Memory

static __device__ u32 columns() {
  asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" ::"r"(at(s)) : "memory");
  __syncwarp();
  u32 taddr = s[0];
  asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" ::"r"(taddr), "r"(threadIdx.x) : "memory");
  asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
  return taddr;
}
static __device__ void give_back(u32 taddr) {
  asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" ::"r"(taddr));
}
static __device__ u32 cell(u32 taddr) {
  u32 x;
  asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(x) : "r"(taddr));
  return x;
}
static __device__ void loaded() { asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory"); }

extern "C" __global__ void tcgen05_wait(u32* g) {
  u32 taddr = columns(), x = cell(taddr);
  g[lane()] = x + 1;  // <- reported
  loaded();
  give_back(taddr);
}
// The compiler may compute before the wait, of which it knows nothing.
extern "C" __global__ void tcgen05_wait_right(u32* g) {
  u32 taddr = columns(), x = cell(taddr);
  u32 y = 3 * x + 1;
  asm volatile("" : "+r"(y));
  loaded();
  g[lane()] = y;
  give_back(taddr);
}
extern "C" __global__ void tcgen05_cells_unset(u32* g) {
  u32 taddr = columns(), x = cell(taddr) + cell(taddr + 1);
  loaded();
  g[lane()] = x;  // <- reported
  give_back(taddr);
}
extern "C" __global__ void tcgen05_wait_for_one_of_two(u32* g) {
  u32 taddr = columns(), x = cell(taddr);
  loaded();
  x += cell(taddr);
  if (__shfl_xor_sync(~0u, x, 1) > 3)  // <- reported
    g[lane()] = x;
  loaded();
  give_back(taddr);
}

#else
// ---------------------------------------------------------------------------------------------------- variables

extern "C" __global__ void uninitialised_registers(float* g) {
  float sum;
  for (int i = 0; i < (int)g[0] + 8; i++) sum += g[i];
  g[threadIdx.x] = sum;  // <- reported
}
// Who takes the first element without a comparison needs no value before that; who is not asked, never.
extern "C" __global__ void uninitialised_registers_right(float* g) {
  float best, sum;
  bool first = true;
  for (int i = 0; i < (int)g[0] + 8; i++, first = false)
    if (first || g[i] > best) best = g[i];
  if (threadIdx.x == 0) sum = best + g[1];
  g[threadIdx.x] = __shfl_sync(~0u, sum, 0);
}
extern "C" __global__ void unset_in_some_lanes(float* g) {
  float x;
  if (threadIdx.x >= 8) x = g[64 + threadIdx.x];
  for (int i = 16; i; i /= 2) x += __shfl_xor_sync(~0u, x, i);
  if (threadIdx.x == 20) g[0] = x;  // <- reported
}
extern "C" __global__ void unset_condition(float* g) {
  int count;
  for (int i = 0; i < (int)g[0] + 8; i++)
    if (g[i] == 0) count++;
  if (count > 3) g[threadIdx.x] = 1;  // <- reported
}
extern "C" __global__ void unset_index(float* g) {
  int at;
  for (int i = 0; i < (int)g[0] + 8; i++)
    if (g[i] > 7) at = i;
  g[threadIdx.x] = g[64 + at];  // <- reported
}
extern "C" __global__ void unset_copy(float* g) {
  float largest;
  for (int i = 0; i < (int)g[0] + 8; i++)
    if (g[i] > 7) largest = g[i];
  g[threadIdx.x] = largest;  // <- reported
}
// What lies beyond the edge is exchanged with the rest of the tile, and not used.
extern "C" __global__ void unset_copy_right(float* g) {
  float x;
  if (threadIdx.x < 20) x = g[threadIdx.x];
  ((float*)s)[31 - threadIdx.x] = x;
  __syncwarp();
  if (threadIdx.x >= 12) g[threadIdx.x] = ((float*)s)[threadIdx.x];
}
extern "C" __global__ void unset_tail(float* g) {
  float sum;
  for (int i = 0; i < (int)g[0] + 8; i++) sum += g[i];
  ((float*)s)[31 - threadIdx.x] = sum;  // <- reported
  __syncwarp();
  g[threadIdx.x] = ((float*)s)[threadIdx.x];
}
// It may also be computed with.
extern "C" __global__ void unset_tail_right(float* g) {
  float x;
  if (threadIdx.x < 20) x = g[threadIdx.x];
  ((float*)s)[31 - threadIdx.x] = 2 * x + 1;
  __syncwarp();
  if (threadIdx.x >= 12) g[threadIdx.x] = ((float*)s)[threadIdx.x];
}

extern "C" __global__ void unset_element(u32* g) {
  u32 counts[8];
  for (int i = 0; i < 7; i++) counts[g[i] + i] = 0;
  for (int i = 0; i < 32; i++) counts[(g[i] + i) & 7]++;  // <- reported
  g[threadIdx.x] = counts[g[threadIdx.x] + (threadIdx.x & 7)];
}
static __device__ __noinline__ void fill(u32* a, int n) {
  for (int i = 0; i < n; i++) a[i] = i;
}
static __device__ __noinline__ u32 sum(const u32* a, int n) {
  u32 all = 0;
  for (int i = 0; i < n; i++) all += a[i];
  return all;  // <- reported
}
extern "C" __global__ void unset_element_right(u32* g) {
  u32 a[16];
  fill(a, g[0] + 5);
  g[threadIdx.x] = sum(a, g[0] + 5);
}
extern "C" __global__ void unset_element_of_a_caller(u32* g) {
  u32 a[16];
  fill(a, g[0] + 5);
  g[threadIdx.x] = sum(a, g[0] + 6);
}
static __device__ __noinline__ u32* variable(u32 x) {
  u32 own[4] = {x, x + 1, x + 2, x + 3}, *pointer = own;
  asm volatile("" : "+l"(pointer)::"memory");
  return pointer;
}
extern "C" __global__ void unset_after_return(u32* g) {
  g[threadIdx.x] = variable(g[threadIdx.x])[2] + 1;  // <- reported
}
struct __align__(16) Point { float x, y, z; };
struct Parts { float values[7]; u32 count; };
// Who copies a struct copies its padding and what it has left out.
extern "C" __global__ void unset_parts_right(float* g) {
  Point p[4];
  Parts parts;
  for (int i = 0; i < 4; i++) p[i].x = g[i], p[i].y = g[i + 1], p[i].z = g[i + 2];
  parts.count = 0;
  for (int i = 0; i < 6; i++)
    if (g[i] == 0) parts.values[parts.count++] = g[i];
  ((Point*)g)[threadIdx.x] = p[(int)g[0] + (threadIdx.x & 3)];
  ((Parts*)g)[32 + threadIdx.x] = parts;
}

// ---------------------------------------------------------------------------------------------------- memory

extern "C" __global__ void shared_race(u32* g) {
  s[lane()] = warp();  // <- reported
  __syncthreads();
  g[threadIdx.x] = s[lane()];
}
extern "C" __global__ void shared_race_right(u32* g) {
  if (warp() == 0) s[lane()] = 1;
  __syncthreads();
  g[threadIdx.x] = s[lane()];
}

extern "C" __global__ void global_race(u32* g) {
  if (blockIdx.x == 0) g[threadIdx.x] = 1;  // <- reported
  else g[64 + threadIdx.x] = g[threadIdx.x];  // <- reported
}
extern "C" __global__ void global_race_right(u32* g) {
  if (threadIdx.x) return;
  if (blockIdx.x == 0) {
    g[1] = 1;
    __threadfence();
    atomicExch(g, 1);
  } else {
    while (!atomicAdd(g, 0)) ;
    __threadfence();
    g[64] = g[1];
  }
}

// Nobody looks at what try_wait says, which may be that it has waited for long enough.
extern "C" __global__ void wait_ignored(u32* g) {
  u64* bar = (u64*)(s + 512);
  if (threadIdx.x == 0) init(bar, 32);
  __syncthreads();
  if (warp() == 0) {
    s[lane()] = 1;  // <- reported
    arrive(bar);
  } else {
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; }" ::"r"(at(bar)) : "memory");
    g[lane()] = s[lane()];  // <- reported
  }
}

extern "C" __global__ void into_a_neighbour(u32* g) {
  __shared__ u32 left[32], right[32];
  right[lane()] = 1;
  __syncwarp();
  left[lane() + g[0] + 1] = 2;  // <- reported
  __syncwarp();
  g[threadIdx.x] = left[1 + lane() % 31] + right[lane()];
}
// One pointer for two arrays, and a step back from the second element.
extern "C" __global__ void into_a_neighbour_right(u32* g) {
  __shared__ u32 left[32], right[32];
  left[lane()] = right[lane()] = 1;
  __syncwarp();
  const u32* side = g[lane()] ? left : right;
  g[threadIdx.x] = side[31 - lane()] + (right + 1)[(int)lane() - 1];
}

extern "C" __global__ void sum_without_an_atomic(u32* g) {
  g[0] += threadIdx.x;  // <- reported
}
extern "C" __global__ void sum_without_an_atomic_right(u32* g) { atomicAdd(g, threadIdx.x); }

extern "C" __global__ void lock_freed_by_a_store(u32* g) {
  if (threadIdx.x) return;
  while (atomicCAS(g, 0, 1)) ;  // <- reported
  __threadfence();
  g[1]++;
  __threadfence();
  g[0] = 0;
}
extern "C" __global__ void lock_freed_by_a_store_right(u32* g) {
  if (threadIdx.x) return;
  while (atomicCAS(g, 0, 1)) ;
  __threadfence();
  g[1]++;
  __threadfence();
  atomicExch(g, 0);
}

extern "C" __global__ void lane_race(u32* g) {
  s[lane()] = lane();
  g[lane()] = s[31 - lane()];  // <- reported
}
extern "C" __global__ void lane_race_right(u32* g) {
  s[lane()] = lane();
  __syncwarp();
  g[lane()] = s[31 - lane()];
}

// A lock that is taken by a relaxed operation, with no fence behind it.
extern "C" __global__ void lock_without_a_fence(u32* g) {
  for (bool done = false; !done;)
    if (atomicCAS(g, 0u, 1u) == 0) {
      g[1] += 1;  // <- reported
      __threadfence();
      atomicExch(g, 0u);
      done = true;
    }
}
extern "C" __global__ void lock_without_a_fence_right(u32* g) {
  for (bool done = false; !done;)
    if (atomicCAS(g, 0u, 1u) == 0) {
      __threadfence();
      g[1] += 1;
      __threadfence();
      atomicExch(g, 0u);
      done = true;
    }
}

extern "C" __global__ void uninitialised_shared(u32* g) {
  g[lane()] = s[lane()];  // <- reported
}
extern "C" __global__ void uninitialised_shared_right(u32* g) {
  s[lane()] = 0;
  g[lane()] = s[lane()];
}

extern "C" __global__ void out_of_range(u32* g) {
  g[8192 - 16 + lane()] = 1;  // <- reported
}
extern "C" __global__ void out_of_range_right(u32* g) {
  if (lane() < 16) g[8192 - 16 + lane()] = 1;
}

extern "C" __global__ void misaligned(u32* g) {
  *(uint4*)((char*)g + 8 * lane()) = make_uint4(1, 2, 3, 4);  // <- reported
}
extern "C" __global__ void misaligned_right(u32* g) {
  *(uint4*)((char*)g + 16 * lane()) = make_uint4(1, 2, 3, 4);
}

extern "C" __global__ void lanes_disagree(u32* g) {
  g[0] = lane();  // <- reported
}
extern "C" __global__ void lanes_disagree_right(u32* g) {
  g[0] = 7;
}

extern "C" __global__ void flag_never_set(u32* g) {
  while (*(volatile u32*)g == 0) ;  // <- reported
}
extern "C" __global__ void flag_never_set_right(u32* g) {
  if (warp() == 0) atomicExch(g, 1);
  else while (*(volatile u32*)g == 0) ;
}

extern "C" __global__ void stale_load(u32* g) {
  volatile u32* v = g;
  if (lane()) return;
  for (u32 step = 0; step < 3; ++step)
    if (blockIdx.x == 0) {
      v[1] = step;
      v[0] = step;
    } else {
      while (v[0] < step) ;
      if (step == 2) g[64] = v[1];  // <- reported
    }
}
extern "C" __global__ void stale_load_right(u32* g) {
  volatile u32* v = g;
  if (lane()) return;
  for (u32 step = 0; step < 3; ++step)
    if (blockIdx.x == 0) {
      v[1] = step;
      __threadfence();
      v[0] = step;
    } else {
      while (v[0] < step) ;
      __threadfence();
      if (step == 2) g[64] = v[1];
    }
}

// ---------------------------------------------------------------------------------------------------- warps, barriers

extern "C" __global__ void absent_lanes(u32* g) {
  if (lane() < 16) g[lane()] = __shfl_down_sync(0xffff, lane(), 16);  // <- reported
}
extern "C" __global__ void absent_lanes_right(u32* g) {
  u32 x = __shfl_down_sync(0xffffffff, lane(), 16);
  if (lane() < 16) g[lane()] = x;
}

extern "C" __global__ void aligned_divergent(u32* g) {
  if (lane() < 16) {
    g[lane()] = 1;
    __syncthreads();  // <- reported
  } else {
    __syncthreads();  // <- reported
    g[lane()] = 2;
  }
}
extern "C" __global__ void aligned_divergent_right(u32* g) {
  if (lane() < 16) g[lane()] = 1;
  __syncthreads();
  if (lane() >= 16) g[lane()] = 2;
}

extern "C" __global__ void barrier_threads(u32* g) {
  asm volatile("bar.sync 1, %0;" ::"r"(warp() == 3 ? 96 : 128));  // <- reported
}
extern "C" __global__ void barrier_threads_right(u32* g) {
  if (warp() < 3) asm volatile("bar.sync 1, 96;");
}

extern "C" __global__ void barriers_parted(u32* g) {
  if (lane() < 16) asm volatile("barrier.arrive 1, 32;");
  else asm volatile("barrier.arrive 2, 32;");  // <- reported
}
extern "C" __global__ void barriers_parted_right(u32* g) {
  if (warp() == 0) asm volatile("barrier.sync 1, 32;");
  else asm volatile("barrier.sync 2, 32;");
}

extern "C" __global__ void exited_threads(u32* g) {
  if (warp() == 1) return;
  __syncthreads();  // <- reported
}
extern "C" __global__ void exited_threads_right(u32* g) {
  __syncthreads();
  if (warp() == 1) return;
  g[lane()] = 1;
}

extern "C" __global__ void deadlock(u32* g) {
  u64* bar = (u64*)s;
  if (threadIdx.x == 0) init(bar, 33), init_fence();
  __syncthreads();
  arrive(bar);
  wait(bar, 0);  // <- reported
}
extern "C" __global__ void deadlock_right(u32* g) {
  u64* bar = (u64*)s;
  if (threadIdx.x == 0) init(bar, 32), init_fence();
  __syncthreads();
  arrive(bar);
  wait(bar, 0);
}

extern "C" __global__ void setmaxnreg_count(u32* g) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  asm volatile("setmaxnreg.dec.sync.aligned.u32 232;");  // <- reported
}
extern "C" __global__ void setmaxnreg_count_right(u32* g) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
}

// ---------------------------------------------------------------------------------------------------- copies

extern "C" __global__ void cp_async_unwaited(u32* g) {
  cp_async(s + lane(), g + lane());
  g[64 + lane()] = s[lane()];  // <- reported
}
extern "C" __global__ void cp_async_unwaited_right(u32* g) {
  cp_async(s + lane(), g + lane());
  cp_async_done();
  g[64 + lane()] = s[lane()];
}

// The thread that copies overwrites the source, and so does a neighbour.
extern "C" __global__ void source_overwritten(u32* g) {
  cp_async(s + lane(), g + lane());
  g[lane()] = 1;  // <- reported
  cp_async_done();
}
extern "C" __global__ void source_overwritten_right(u32* g) {
  cp_async(s + lane(), g + lane());
  g[64 + lane()] = 1;
  cp_async_done();
  g[lane()] = 1;
}

extern "C" __global__ void source_overwritten_by_another(u32* g) {
  if (warp() == 0) cp_async(s + lane(), g + lane());
  __syncthreads();
  if (warp() == 1) g[lane()] = 1;  // <- reported
  cp_async_done();
}
extern "C" __global__ void source_overwritten_by_another_right(u32* g) {
  if (warp() == 0) cp_async(s + lane(), g + lane());
  cp_async_done();
  __syncthreads();
  if (warp() == 1) g[lane()] = 1;
}

extern "C" __global__ void cp_async_src_size(u32* g) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at(s + lane())), "l"(g + lane()), "r"(8));  // <- reported
  cp_async_done();
}
extern "C" __global__ void cp_async_src_size_right(u32* g) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at(s + lane())), "l"(g + lane()), "r"(lane() < 8 ? 4 : 0));
  cp_async_done();
}

extern "C" __global__ void tma_unwaited(u32* g) {
  u64* bar = (u64*)(s + 512);
  if (threadIdx.x == 0) init(bar, 1), init_fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    expect(bar, 128);
    copy_in(s, g, 128, bar);
  }
  g[64 + lane()] = s[lane()];  // <- reported
  wait(bar, 0);
}
extern "C" __global__ void tma_unwaited_right(u32* g) {
  u64* bar = (u64*)(s + 512);
  if (threadIdx.x == 0) init(bar, 1), init_fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    expect(bar, 128);
    copy_in(s, g, 128, bar);
  }
  wait(bar, 0);
  g[64 + lane()] = s[lane()];
}

extern "C" __global__ void overwritten_early(u32* g) {
  s[lane()] = 1;
  proxy_fence();
  __syncthreads();
  if (threadIdx.x == 0) copy_out(g, s, 128);
  s[lane()] = 2;  // <- reported
  if (threadIdx.x == 0) out_done();
}
extern "C" __global__ void overwritten_early_right(u32* g) {
  s[lane()] = 1;
  proxy_fence();
  __syncthreads();
  if (threadIdx.x == 0) copy_out(g, s, 128), out_done();
  __syncthreads();
  s[lane()] = 2;
}

extern "C" __global__ void proxy_fence_missing(u32* g) {
  s[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x == 0) copy_out(g, s, 256), out_done();  // <- reported
}
extern "C" __global__ void proxy_fence_thread(u32* g) {
  s[threadIdx.x] = 1;
  if (warp() == 0) proxy_fence();
  __syncthreads();
  if (threadIdx.x == 0) copy_out(g, s, 256), out_done();  // <- reported
}
extern "C" __global__ void proxy_fence_barrier(u32* g) {
  s[threadIdx.x] = 1;
  proxy_fence();
  if (threadIdx.x == 0) copy_out(g, s, 256), out_done();  // <- reported
}
extern "C" __global__ void proxy_fence_barrier_right(u32* g) {
  s[threadIdx.x] = 1;
  proxy_fence();
  __syncthreads();
  if (threadIdx.x == 0) copy_out(g, s, 256), out_done();
}

extern "C" __global__ void not_a_tensor_map(u32* g) {
  u64* bar = (u64*)(s + 512);
  if (threadIdx.x == 0) {
    init(bar, 1), init_fence();
    expect(bar, 128);
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2}], [%3];"  // <- reported
                 ::"r"(at(s)), "l"(g), "r"(0), "r"(at(bar)) : "memory");  // <- reported by NVRTC 13.0
  }
}

// ---------------------------------------------------------------------------------------------------- mbarriers

extern "C" __global__ void mbarrier_init(u32* g) {
  u64* bar = (u64*)s;
  if (threadIdx.x == 0) init(bar, 1), arrive(bar);
  wait(bar, 0);  // <- reported
}
extern "C" __global__ void mbarrier_init_right(u32* g) {
  u64* bar = (u64*)s;
  if (threadIdx.x == 0) init(bar, 1), init_fence(), arrive(bar);
  __syncthreads();
  wait(bar, 0);
}

extern "C" __global__ void mbarrier_init_fence(u32* g) {
  u64* bar = (u64*)(s + 512);
  if (threadIdx.x == 0) init(bar, 1);
  __syncthreads();
  if (threadIdx.x == 32) {
    expect(bar, 128);
    copy_in(s, g, 128, bar);  // <- reported
  }
  wait(bar, 0);
}

extern "C" __global__ void mbarrier_arrivals(u32* g) {
  u64* bar = (u64*)s;
  if (threadIdx.x == 0) init(bar, 2), init_fence();
  __syncthreads();
  arrive(bar);  // <- reported
}
extern "C" __global__ void mbarrier_arrivals_right(u32* g) {
  u64* bar = (u64*)s;
  if (threadIdx.x == 0) init(bar, 2), init_fence();
  __syncthreads();
  if (lane() < 2) arrive(bar);
  wait(bar, 0);
}

extern "C" __global__ void mbarrier_object(u32* g) {
  u64* bar = (u64*)s;
  if (threadIdx.x == 0) init(bar, 1), init_fence();
  __syncthreads();
  s[lane()] = 0;  // <- reported
  __syncthreads();
}

extern "C" __global__ void expect_tx(u32* g) {
  u64* bar = (u64*)(s + 512);
  if (threadIdx.x == 0) init(bar, 1), init_fence();
  __syncthreads();
  if (threadIdx.x == 0) {
    expect(bar, 256);  // <- reported
    copy_in(s, g, 128, bar);  // <- reported
  }
  wait(bar, 0);  // <- reported
}

// ---------------------------------------------------------------------------------------------------- matrices

extern "C" __global__ void ldmatrix_unsynced(u32* g) {
  u32 x;
  *(uint4*)(s + 4 * lane()) = make_uint4(1, 2, 3, 4);
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(x) : "r"(at(s + 4 * lane())) : "memory");  // <- reported
  g[lane()] = x;
}
extern "C" __global__ void ldmatrix_unsynced_right(u32* g) {
  u32 x;
  *(uint4*)(s + 4 * lane()) = make_uint4(1, 2, 3, 4);
  __syncwarp();
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(x) : "r"(at(s + 4 * lane())) : "memory");
  g[lane()] = x;
}

static __device__ void fill() {
  for (u32 n = threadIdx.x; n < 1024; n += blockDim.x) s[n] = 0;
  proxy_fence();
  __syncthreads();
}
static __device__ u64 tile(u32 first) {
  return (((u64)(at(s) + first) & 0x3ffff) >> 4) | ((u64)(128 >> 4) << 16) | ((u64)(256 >> 4) << 32);
}
static __device__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
static __device__ void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
static __device__ void wgmma_done() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }
#define MULTIPLY(d, a, b) \
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 1, 1, 1, 0, 0;" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b) : "memory")

extern "C" __global__ void wgmma_right(float* g) {
  float d[4] = {0, 0, 0, 0};
  fill();
  wgmma_fence();
  MULTIPLY(d, tile(0), tile(2048));
  commit();
  wgmma_done();
  g[threadIdx.x] = d[0];
}
#define MULTIPLY_SCALED(d, a, b, scale)                                                     \
  asm volatile("{ .reg .pred p; setp.ne.b32 p, %6, 0;"                                      \
               " wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a), "l"(b), "r"((int)(scale)) : "memory")
extern "C" __global__ void unset_accumulator_of_wgmma(float* g) {
  float d[4];
  fill();
  wgmma_fence();
  for (int k = 0; k < (int)g[4096] + 2; k++) MULTIPLY_SCALED(d, tile(0), tile(2048), 1);
  commit();
  wgmma_done();
  g[threadIdx.x] = d[0];  // <- reported
}
extern "C" __global__ void unset_accumulator_of_wgmma_right(float* g) {
  float d[4];
  fill();
  wgmma_fence();
  for (int k = 0; k < (int)g[4096] + 2; k++) MULTIPLY_SCALED(d, tile(0), tile(2048), k > 0);
  commit();
  wgmma_done();
  g[threadIdx.x] = d[0];
}
extern "C" __global__ void unset_accumulator(float* g) {
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> a;
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::col_major> b;
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> c;
  nvcuda::wmma::fill_fragment(a, half(1));
  nvcuda::wmma::fill_fragment(b, half(1));
  nvcuda::wmma::mma_sync(c, a, b, c);
  nvcuda::wmma::store_matrix_sync(g, c, 16, nvcuda::wmma::mem_row_major);  // <- reported
}
extern "C" __global__ void wgmma_unwaited(float* g) {
  float d[4] = {0, 0, 0, 0};
  fill();
  wgmma_fence();
  MULTIPLY(d, tile(0), tile(2048));
  commit();
  g[threadIdx.x] = d[0];  // <- reported
  wgmma_done();
}
extern "C" __global__ void wgmma_fence_first(float* g) {
  float d[4] = {0, 0, 0, 0};
  fill();
  MULTIPLY(d, tile(0), tile(2048));  // <- reported
  commit();
  wgmma_done();
  g[threadIdx.x] = d[0];
}
extern "C" __global__ void wgmma_uncommitted(float* g) {
  float d[4] = {0, 0, 0, 0};
  fill();
  wgmma_fence();
  MULTIPLY(d, tile(0), tile(2048));  // <- reported
  wgmma_done();  // <- reported
}
extern "C" __global__ void wgmma_wait_weak(float* g) {
  float d[4] = {0, 0, 0, 0};
  fill();
  wgmma_fence();
  MULTIPLY(d, tile(0), tile(2048));
  commit();
  asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");  // <- reported
  g[threadIdx.x] = d[0];  // <- reported
  wgmma_done();
}
extern "C" __global__ void warpgroup_divergent(float* g) {
  float d[4] = {0, 0, 0, 0};
  fill();
  wgmma_fence();
  MULTIPLY(d, tile(0), tile(2048));
  if (warp() != 1) commit();
  wgmma_done();  // <- reported
}
extern "C" __global__ void warpgroup_start(float* g) {
  float d[4] = {0, 0, 0, 0};
  fill();
  if (warp() == 0) return;
  wgmma_fence();  // <- reported
  MULTIPLY(d, tile(0), tile(2048));
  commit();
  wgmma_done();
}
extern "C" __global__ void wgmma_descriptors(float* g) {
  float d[4] = {0, 0, 0, 0};
  fill();
  wgmma_fence();
  MULTIPLY(d, tile(warp() == 2 ? 1024 : 0), tile(2048));  // <- reported
  commit();
  wgmma_done();
  g[threadIdx.x] = d[0];
}

extern "C" __global__ void wgmma_unwaited_by_an_atomic(float* g) {
  float d[4] = {0, 0, 0, 0};
  fill();
  wgmma_fence();
  MULTIPLY(d, tile(0), tile(2048));
  commit();
  atomicAdd(g + threadIdx.x, d[1]);  // <- reported
  wgmma_done();
}
extern "C" __global__ void wgmma_unwaited_in_a_loop(float* g) {
  float d[4] = {0, 0, 0, 0}, before = 0;
  fill();
  for (u32 k = 0; k < 3; ++k) {
    wgmma_fence();
    MULTIPLY(d, tile(0), tile(2048));
    commit();
    before += d[3] * d[3];  // <- reported
    wgmma_done();
  }
  g[threadIdx.x] = before;
}
extern "C" __global__ void wgmma_unwaited_in_a_loop_right(float* g) {
  float d[4] = {0, 0, 0, 0}, before = 0;
  fill();
  for (u32 k = 0; k < 3; ++k) {
    wgmma_fence();
    MULTIPLY(d, tile(0), tile(2048));
    commit();
    before += threadIdx.x;
    wgmma_done();
    for (u32 n = 0; n < 4; ++n) asm volatile("" : "+f"(d[n]) :: "memory");
    before += d[3] * d[3];
  }
  g[threadIdx.x] = before;
}

extern "C" __global__ void wgmma_fence_unneeded(float* g) {
  float d[4] = {0, 0, 0, 0};
  fill();
  wgmma_fence();  // <- reported
  wgmma_fence();
  MULTIPLY(d, tile(0), tile(2048));
  commit();
  wgmma_done();
  g[threadIdx.x] = d[0];
}

extern "C" __global__ void wgmma_fence_shape(float* g) {
  float d[4] = {0, 0, 0, 0};
  fill();
  wgmma_fence();
  MULTIPLY(d, tile(0), tile(2048));
  asm volatile("wgmma.mma_async.sync.aligned.m64n8k8.f32.tf32.tf32 {%0, %1, %2, %3}, %4, %5, 1, 1, 1;"  // <- reported
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(tile(0)), "l"(tile(2048)) : "memory");  // <- reported by NVRTC 13.0
  commit();
  wgmma_done();
  g[threadIdx.x] = d[0];
}

// ---------------------------------------------------------------------------------------------------- tiles

static __device__ void cp_async_16(void* to, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(at(to)), "l"(from) : "memory");
}
static __device__ u32 row_of_8(u32 unit) {  // the first word of 8 lines of 128 bytes, of which each lane gives one
  u32 x;
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(x) : "r"(at(s + 32 * (lane() % 8) + 4 * unit)) : "memory");
  return x;
}
// 32 lines of 128 bytes, with a swizzle.
static __device__ void swizzled(const u32* g) {
  for (u32 unit = 0; unit < 8; ++unit) cp_async_16(s + 32 * lane() + 4 * (unit ^ lane() % 8), g + 32 * lane() + 4 * unit);
  cp_async_done();
  __syncwarp();
}
extern "C" __global__ void swizzle_mismatch(u32* g) {
  swizzled(g);
  g[4096 + lane()] = row_of_8(1);  // <- reported
}
extern "C" __global__ void swizzle_mismatch_right(u32* g) {
  swizzled(g);
  g[4096 + lane()] = row_of_8(1 ^ lane() % 8);
}

// A of 64 lines of 32 bytes, and B of 8: core matrices, and A as it is or likewise.
static __device__ void lines(const float* g, bool right) {
  u32 row = threadIdx.x / 2, unit = threadIdx.x % 2, core = row / 8 * 64 + unit * 32 + row % 8 * 4;
  cp_async_16(s + (right ? core : 4 * threadIdx.x), g + 4 * threadIdx.x);
  if (threadIdx.x < 16) cp_async_16(s + 512 + core, g + 512 + 4 * threadIdx.x);
  cp_async_done();
  proxy_fence();
  __syncthreads();
}
extern "C" __global__ void tile_layout(float* g) {
  float d[4] = {0, 0, 0, 0};
  lines(g, false);
  wgmma_fence();
  MULTIPLY(d, tile(0), tile(2048));  // <- reported
  commit();
  wgmma_done();
  g[4096 + threadIdx.x] = d[0];
}
extern "C" __global__ void tile_layout_right(float* g) {
  float d[4] = {0, 0, 0, 0};
  lines(g, true);
  wgmma_fence();
  MULTIPLY(d, tile(0), tile(2048));
  commit();
  wgmma_done();
  g[4096 + threadIdx.x] = d[0];
}

// ---------------------------------------------------------------------------------------------------- compare and swap

static __device__ void raise(u32* p, u32 x, u32 old) {
  for (u32 before = ~old; before != old;) {
    before = old;
    old = atomicCAS(p, before, max(before, x));  // <- reported
  }
}
extern "C" __global__ void swap_global(u32* g) {
  if (*g < threadIdx.x) raise(g, threadIdx.x, 0);  // <- reported
}
extern "C" __global__ void swap_begins_right(u32* g) { raise(g, threadIdx.x, *g); }
extern "C" __global__ void swap_global_right(u32* g) {
  raise(g, threadIdx.x, *(volatile u32*)g);
}
extern "C" __global__ void swap_shared(u32* g) {
  if (threadIdx.x == 0) s[0] = 0;
  __syncthreads();
  if (s[0] < threadIdx.x) raise(s, threadIdx.x, 0);  // <- reported
}
extern "C" __global__ void swap_shared_right(u32* g) {
  if (threadIdx.x == 0) s[0] = 0;
  __syncthreads();
  u32 old;
  asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(old) : "r"(at(s)) : "memory");
  raise(s, threadIdx.x, old);
}
extern "C" __global__ void swap_lanes(u32* g) {
  atomicCAS(g, threadIdx.x, threadIdx.x + 1);  // <- reported
  g[64 + threadIdx.x] = *g;                    // <- reported
}
extern "C" __global__ void swap_lanes_right(u32* g) {
  for (bool done = false; !done;) {
    u32 old = atomicAdd(g, 0);
    done = atomicCAS(g, old, old + 1) == old;
  }
}

// Lanes of a warp that leave while the others go to a barrier of the block.
extern "C" __global__ void exited_lanes(u32* g) {
  if (threadIdx.x >= 40) return;
  __syncthreads();  // <- reported
  g[threadIdx.x] = 1;
}
extern "C" __global__ void exited_lanes_right(u32* g) {
  if (threadIdx.x < 40) g[threadIdx.x] = 1;
  __syncthreads();
  if (threadIdx.x >= 40) return;
  g[threadIdx.x] += 1;
}

__constant__ u32 constants[16];
extern "C" __global__ void beyond_constants(u32* g) {
  g[lane()] = constants[lane()];  // <- reported
}
extern "C" __global__ void beyond_constants_right(u32* g) {
  g[lane()] = constants[lane() % 16];
}

extern "C" __global__ void beyond_locals(u32* g) {
  u32 own[8];
  for (u32 i = 0; i < 8; i++) own[i] = g[i * lane()];
  g[lane()] = own[g[32] + lane() % 16];  // <- reported
}
extern "C" __global__ void beyond_locals_right(u32* g) {
  u32 own[8];
  for (u32 i = 0; i < 8; i++) own[i] = g[i];
  __syncwarp();
  g[lane()] = own[g[32] + lane() % 8];
}

extern "C" __global__ void freed(u32* g) {
  u32* own = (u32*)malloc(16);
  own[g[0]] = lane();
  free(own);
  g[lane()] = own[g[64]];  // <- reported
}
extern "C" __global__ void freed_right(u32* g) {
  u32* own = (u32*)malloc(16);
  own[g[0]] = lane();
  g[1 + lane()] = own[g[64]];
  free(own);
}

// A piece of the heap that another warp still reads.
extern "C" __global__ void freed_early(u32* g) {
  u32** shared = (u32**)s;
  if (threadIdx.x == 0) {
    *shared = (u32*)malloc(128);
    for (u32 i = 0; i < 32; ++i) (*shared)[i] = i;
  }
  __syncthreads();
  u32* all = *shared;
  if (warp() == 1) g[lane()] = all[lane() + g[64]];  // <- reported
  if (threadIdx.x == 0) free(all);  // <- reported
}
extern "C" __global__ void freed_early_right(u32* g) {
  u32** shared = (u32**)s;
  if (threadIdx.x == 0) {
    *shared = (u32*)malloc(128);
    for (u32 i = 0; i < 32; ++i) (*shared)[i] = i;
  }
  __syncthreads();
  u32* all = *shared;
  if (warp() == 1) g[lane()] = all[lane() + g[64]];
  __syncthreads();
  if (threadIdx.x == 0) free(all);
}

// The right one copies a struct with its padding, which nothing has written.
struct Padded { double d; u32 u; };
extern "C" __global__ void uninitialised_heap(u32* g) {
  u32* own = (u32*)malloc(16);
  own[0] = lane();
  g[lane()] = own[1 + g[64]];  // <- reported
  free(own);
}
extern "C" __global__ void uninitialised_heap_right(u32* g) {
  Padded* own = (Padded*)malloc(2 * sizeof(Padded));
  own[g[64]].d = lane(), own[g[64]].u = 1;
  own[1 + g[64]] = own[g[64]];
  g[lane()] = own[1 + g[64]].u;
  free(own);
  u32* more = (u32*)malloc(32);
  memset(more, 0, 32);
  g[32 + lane()] = more[lane() % 8];
  free(more);
}

extern "C" __global__ void beyond_malloc(u32* g) {
  u32* own = (u32*)malloc(16 * lane() + 12);
  own[4 * lane() + 3 + g[0]] = 1;  // <- reported
  free(own);
}
extern "C" __global__ void beyond_malloc_right(u32* g) {
  u32* own = (u32*)malloc(16 * lane() + 12);
  own[4 * lane() + 2 + g[0]] = 1;
  free(own);
}

extern "C" __global__ void another_threads_local(u32* g) {
  u32 own[2] = {lane(), g[64]};
  u32** shared = (u32**)s;
  shared[lane()] = own + g[65];
  __syncwarp();
  g[lane()] = *shared[0];  // <- reported
}
extern "C" __global__ void another_threads_local_right(u32* g) {
  u32 own[2] = {lane(), g[64]};
  u32** shared = (u32**)s;
  shared[lane()] = own + g[65];
  __syncwarp();
  g[lane()] = *shared[lane()];
}

static __device__ u32* given(u32* g, u32* own) {  // what block 0 gives
  u64 at;
  if (blockIdx.x == 0) {
    atomicExch((u64*)g, (u64)own);
    return own;
  }
  while ((at = atomicAdd((u64*)g, 0)) == 0) ;
  return (u32*)at;
}
extern "C" __global__ void another_blocks_shared(u32* g) {
  s[lane()] = blockIdx.x;
  g[64 + 32 * blockIdx.x + lane()] = given(g, s)[lane()];  // <- reported
}
extern "C" __global__ void another_blocks_shared_right(u32* g) {
  s[lane()] = blockIdx.x;
  g[64 + 32 * blockIdx.x + lane()] = given(g, g + 256)[lane()] + s[lane()];
}

extern "C" __global__ void flag_found_at_once(u32* g) {
  volatile u32* v = g;
  if (lane()) return;
  if (blockIdx.x == 0) {
    v[1] = 7;
    v[0] = 1;
  } else {
    while (v[0] == 0) ;
    g[64] = v[1];  // <- reported
  }
}
extern "C" __global__ void flag_found_at_once_right(u32* g) {
  volatile u32* v = g;
  if (lane()) return;
  if (blockIdx.x == 0) {
    v[1] = 7;
    __threadfence();
    v[0] = 1;
  } else {
    while (v[0] == 0) ;
    __threadfence();
    g[64] = v[1];
  }
}

extern "C" __global__ void flag_and_data_on_one_line(u32* g) {
  volatile u32* v = g;
  if (lane()) return;
  if (blockIdx.x == 0) {
    v[1] = 7;
    v[0] = 1;
  } else { while (v[0] == 0) ; g[64] = v[1]; }  // <- reported
}
extern "C" __global__ void flag_and_data_on_one_line_right(u32* g) {
  volatile u32* v = g;
  if (lane()) return;
  if (blockIdx.x == 0) {
    v[1] = 7;
    __threadfence();
    v[0] = 1;
  } else { while (v[0] == 0) ; __threadfence(); g[64] = v[1]; }
}

extern "C" __global__ void undefined_lanes_stored(u32* g) {
  if (lane() < 8) return;
  u32 before = __shfl_up_sync(0xffffff00, lane(), 1);  // <- reported
  g[lane()] = lane() - before;
}
extern "C" __global__ void undefined_lanes_stored_right(u32* g) {
  if (lane() < 8) return;
  u32 before = __shfl_up_sync(0xffffff00, lane(), 1);
  g[lane()] = lane() == 8 ? 0 : lane() - before;
  u32 last = __shfl_down_sync(0xffffff00, lane(), 1);
  if (lane() < 31) g[32 + lane()] = last;
}

static __device__ float product(u32 a) {  // one element of what mma.m16n8k16 gives
  float d[4] = {};
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %4, %4, %4}, {%4, %4}, {%0, %1, %2, %3};"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "r"(a));
  return d[0];
}
extern "C" __global__ void multiplied_after_an_exit(u32* g) {
  if (lane() >= 16) return;
  g[lane()] = product(g[lane()]);  // <- reported
}
extern "C" __global__ void multiplied_after_an_exit_right(u32* g) {
  u32 d = product(lane() < 16 ? g[lane()] : 0);
  if (lane() >= 16) return;
  g[lane()] = d;
}
#endif
