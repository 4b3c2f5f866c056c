// Ways through memory: vectors, constants, variables, structs by value, copies that run beside the threads.
#include <cuda/barrier>
#include <cuda_pipeline.h>

typedef unsigned int u32;
struct Plane { float a, b, c; int flips; double offset; };
struct Scene { Plane planes[3]; short count; };

__constant__ float taps[5] = {0.0625f, 0.25f, 0.375f, 0.25f, 0.0625f};
__device__ int lookup[16] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__device__ const int* pointer = &lookup[2];

extern "C" __global__ void vectors(const float4* x, float2* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = __ldg(&x[i]), w = __ldcs(&x[n - 1 - i]);
    __stcs(&out[i], make_float2(v.x * w.w + v.y, v.z - w.x));
}

extern "C" __global__ void blur(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0;
    for (int k = -2; k <= 2; ++k) sum += taps[k + 2] * x[min(max(i + k, 0), n - 1)];
    out[i] = sum;
}

extern "C" __global__ void variables(int* out) {
    out[threadIdx.x] = lookup[threadIdx.x % 16] * 10 + pointer[threadIdx.x % 8];
}

extern "C" __global__ void by_value(Scene scene, const float* points, float* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= scene.count) return;
    float best = 1e30f;
    for (int k = 0; k < 3; ++k) {
        const Plane& p = scene.planes[(i + k) % 3];
        float d = p.a * points[3 * i] + p.b * points[3 * i + 1] + p.c * points[3 * i + 2] + (float)p.offset;
        best = fminf(best, p.flips ? -d : d);
    }
    out[i] = best;
}

extern "C" __global__ void pipelined(const float* x, float* out, int n) {
    __shared__ __align__(16) float stages[3][128];
    int t = threadIdx.x, tiles = n / 128;
    for (int k = 0; k < 2; ++k) {
        if (k < tiles) __pipeline_memcpy_async(&stages[k][t], &x[k * 128 + t], 4);
        __pipeline_commit();
    }
    float sum = 0;
    for (int k = 0; k < tiles; ++k) {
        if (k + 2 < tiles) __pipeline_memcpy_async(&stages[(k + 2) % 3][t], &x[(k + 2) * 128 + t], 4);
        __pipeline_commit();
        __pipeline_wait_prior(2);
        __syncthreads();
        sum += stages[k % 3][127 - t] * (k + 1);
        __syncthreads();
    }
    out[t] = sum;
}

extern "C" __global__ void barriers(const int* x, int* out) {
    __shared__ cuda::barrier<cuda::thread_scope_block> ready;
    __shared__ int box[256];
    if (threadIdx.x == 0) init(&ready, blockDim.x);
    __syncthreads();
    box[threadIdx.x] = x[blockIdx.x * blockDim.x + threadIdx.x];
    auto token = ready.arrive();
    int own = threadIdx.x * threadIdx.x;
    ready.wait(static_cast<decltype(token)&&>(token));
    out[blockIdx.x * blockDim.x + threadIdx.x] = own + box[(threadIdx.x * 5 + 1) % blockDim.x];
}

extern "C" __global__ void bytes(const unsigned char* x, unsigned char* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    short wide = (short)(x[i] << 4) - x[n - 1 - i];
    signed char narrow = (signed char)(wide >> 2);
    out[i] = narrow < 0 ? -narrow : narrow + 1;
}

// Generic addresses: the pointer is into shared memory, local memory or global memory.
extern "C" __global__ void generic(int* x, int* out) {
    __shared__ int box[32];
    int own[4] = {1, 2, 3, 4};
    box[threadIdx.x] = 100 + threadIdx.x;
    own[threadIdx.x % 4] += 50;
    __syncwarp();
    int* from = threadIdx.x % 3 == 0 ? &box[31 - threadIdx.x] : threadIdx.x % 3 == 1 ? &own[threadIdx.x % 4] : &x[threadIdx.x];
    *from += 7;
    __syncwarp();
    out[threadIdx.x] = *from + box[threadIdx.x];
}
