// Pipelines of cuda::pipeline, as the CUDA C++ programming guide uses them: shapes of stages, roles and scopes.
#include <cuda/pipeline>
#include <cuda/barrier>
#include <cooperative_groups.h>
namespace cg = cooperative_groups;
// block-scope pipeline, 2 stages, all threads both
extern "C" __global__ void two_stage(const float* a, float* b, int n) {
  __shared__ float tile[2][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  for (int c = 0, f = 0; c < n; ++c) {
    for (; f < n && f < c + 2; ++f) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, tile[f % 2], a + f * 128, sizeof(float) * 128, pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    block.sync();
    b[c * 128 + threadIdx.x] = tile[c % 2][127 - threadIdx.x];
    block.sync();
    pipe.consumer_release();
  }
}
// producer / consumer roles
extern "C" __global__ void roles(const float* a, float* b, int n) {
  __shared__ float tile[3][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 3> state;
  auto block = cg::this_thread_block();
  const auto role = threadIdx.x < 64 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  if (role == cuda::pipeline_role::producer) {
    for (int c = 0; c < n; ++c) {
      pipe.producer_acquire();
      cuda::memcpy_async(&tile[c % 3][threadIdx.x], a + c * 64 + threadIdx.x, cuda::aligned_size_t<4>(4), pipe);
      pipe.producer_commit();
    }
  } else {
    for (int c = 0; c < n; ++c) {
      pipe.consumer_wait();
      b[c * 64 + threadIdx.x - 64] = tile[c % 3][127 - threadIdx.x];
      pipe.consumer_release();
    }
  }
}
// thread-scope pipeline
extern "C" __global__ void thread_scope(const float* a, float* b, int n) {
  __shared__ float tile[2][128];
  auto pipe = cuda::make_pipeline();
  pipe.producer_acquire();
  cuda::memcpy_async(&tile[0][threadIdx.x], a + threadIdx.x, sizeof(float), pipe);
  pipe.producer_commit();
  for (int c = 0; c < n; ++c) {
    if (c + 1 < n) {
      pipe.producer_acquire();
      cuda::memcpy_async(&tile[(c + 1) % 2][threadIdx.x], a + (c + 1) * 128 + threadIdx.x, sizeof(float), pipe);
      pipe.producer_commit();
    }
    cuda::pipeline_consumer_wait_prior<1>(pipe);
    if (c + 1 == n) cuda::pipeline_consumer_wait_prior<0>(pipe);
    b[c * 128 + threadIdx.x] = tile[c % 2][threadIdx.x];
    pipe.consumer_release();
  }
}
// warp tile group with its own block-scope pipe; scope ends inside the kernel, the memory is used again
extern "C" __global__ void in_a_scope(const float* a, float* b, int n) {
  __shared__ float tile[128];
  auto block = cg::this_thread_block();
  for (int c = 0; c < n; ++c) {
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 1> state;
    {
      auto pipe = cuda::make_pipeline(block, &state);
      pipe.producer_acquire();
      cuda::memcpy_async(block, tile, a + c * 128, cuda::aligned_size_t<16>(512), pipe);
      pipe.producer_commit();
      pipe.consumer_wait();
      b[c * 128 + threadIdx.x] = tile[127 - threadIdx.x];
      pipe.consumer_release();
    }
    block.sync();
  }
}
// partition with a number of producers
extern "C" __global__ void count(const float* a, float* b, int n) {
  __shared__ float tile[2][64];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state, 32);
  if (threadIdx.x < 32) {
    for (int c = 0; c < n; ++c) {
      pipe.producer_acquire();
      for (int h = 0; h < 2; ++h)
        cuda::memcpy_async(&tile[c % 2][threadIdx.x + 32 * h], a + c * 64 + threadIdx.x + 32 * h, sizeof(float), pipe);
      pipe.producer_commit();
    }
  } else {
    for (int c = 0; c < n; ++c) {
      pipe.consumer_wait();
      if (threadIdx.x >= 64) b[c * 64 + threadIdx.x - 64] = tile[c % 2][127 - threadIdx.x];
      pipe.consumer_release();
    }
  }
}
// quit, and no destructor until the end
extern "C" __global__ void quits(const float* a, float* b, int n) {
  __shared__ float tile[2][128];
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  for (int c = 0; c < n; ++c) {
    pipe.producer_acquire();
    cuda::memcpy_async(block, tile[c % 2], a + c * 128, 512, pipe);
    pipe.producer_commit();
    pipe.consumer_wait();
    b[c * 128 + threadIdx.x] = tile[c % 2][127 - threadIdx.x];
    pipe.consumer_release();
  }
  pipe.quit();
}
