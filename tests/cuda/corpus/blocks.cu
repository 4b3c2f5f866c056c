// Blocks: shared memory, barriers, atomics, and what the threads of a block compute together.
#include <cuda_fp16.h>

typedef unsigned int u32;

extern "C" __global__ void reduce(const float* x, float* out, int n) {
    extern __shared__ float partial[];
    float sum = 0;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) sum += x[i];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int step = blockDim.x / 2; step; step /= 2) {
        if (threadIdx.x < step) partial[threadIdx.x] += partial[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = partial[0];
}

extern "C" __global__ void scan(const int* x, int* out) {
    __shared__ int tree[256];
    int t = threadIdx.x;
    tree[t] = x[blockIdx.x * 256 + t];
    for (int step = 1; step < 256; step *= 2) {
        __syncthreads();
        int k = (t + 1) * 2 * step - 1;
        if (k < 256) tree[k] += tree[k - step];
    }
    if (t == 0) tree[255] = 0;
    for (int step = 128; step; step /= 2) {
        __syncthreads();
        int k = (t + 1) * 2 * step - 1;
        if (k < 256) {
            int left = tree[k - step];
            tree[k - step] = tree[k];
            tree[k] += left;
        }
    }
    __syncthreads();
    out[blockIdx.x * 256 + t] = tree[t];
}

extern "C" __global__ void histogram(const unsigned char* x, u32* counts, int n) {
    __shared__ u32 own[64];
    if (threadIdx.x < 64) own[threadIdx.x] = 0;
    __syncthreads();
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) atomicAdd(&own[x[i] % 64], 1);
    __syncthreads();
    if (threadIdx.x < 64) atomicAdd(&counts[threadIdx.x], own[threadIdx.x]);
}

template <typename T>
__device__ void transposed(const T* x, T* out, int rows, int columns) {
    __shared__ T tile[32][33];
    int column = blockIdx.x * 32 + threadIdx.x, row = blockIdx.y * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += blockDim.y)
        if (column < columns && row + k < rows) tile[threadIdx.y + k][threadIdx.x] = x[(row + k) * columns + column];
    __syncthreads();
    column = blockIdx.y * 32 + threadIdx.x, row = blockIdx.x * 32 + threadIdx.y;
    for (int k = 0; k < 32; k += blockDim.y)
        if (column < rows && row + k < columns) out[(row + k) * rows + column] = tile[threadIdx.x][threadIdx.y + k];
}

extern "C" __global__ void transpose(const float* x, float* out, int rows, int columns) { transposed(x, out, rows, columns); }
extern "C" __global__ void transpose_bytes(const char* x, char* out, int rows, int columns) { transposed(x, out, rows, columns); }

extern "C" __global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ float as[16][16], bs[16][16];
    int row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int first = 0; first < k; first += 16) {
        as[threadIdx.y][threadIdx.x] = row < m && first + threadIdx.x < k ? a[row * k + first + threadIdx.x] : 0;
        bs[threadIdx.y][threadIdx.x] = column < n && first + threadIdx.y < k ? b[(first + threadIdx.y) * n + column] : 0;
        __syncthreads();
#pragma unroll
        for (int i = 0; i < 16; ++i) sum += as[threadIdx.y][i] * bs[i][threadIdx.x];
        __syncthreads();
    }
    if (row < m && column < n) c[row * n + column] = sum;
}

extern "C" __global__ void matmul_f64(const double* a, const double* b, double* c, int n) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    double sum = 0;
    for (int i = 0; i < n; ++i) sum += a[row * n + i] * b[i * n + column];
    c[row * n + column] = sum;
}

__device__ float of_block(float v, bool largest) {
    __shared__ float parts[32];
    for (int step = 16; step; step /= 2) {
        float other = __shfl_xor_sync(~0u, v, step);
        v = largest ? fmaxf(v, other) : v + other;
    }
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = parts[0];
    for (int i = 1; i < blockDim.x / 32; ++i) v = largest ? fmaxf(v, parts[i]) : v + parts[i];
    __syncthreads();
    return v;
}

extern "C" __global__ void softmax(const float* x, float* out, int n) {
    const float* row = x + blockIdx.x * n;
    float most = -3.0e38f, sum = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) most = fmaxf(most, row[i]);
    most = of_block(most, true);
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __expf(row[i] - most);
    sum = of_block(sum, false);
    for (int i = threadIdx.x; i < n; i += blockDim.x) out[blockIdx.x * n + i] = __expf(row[i] - most) / sum;
}

extern "C" __global__ void layernorm(const __half* x, const float* gain, const float* bias, __half* out, int n) {
    const __half* row = x + blockIdx.x * n;
    float sum = 0, squares = 0;
    for (int i = threadIdx.x; i < n; i += blockDim.x) sum += __half2float(row[i]);
    float mean = of_block(sum, false) / n;
    for (int i = threadIdx.x; i < n; i += blockDim.x) {
        float d = __half2float(row[i]) - mean;
        squares += d * d;
    }
    float scale = rsqrtf(of_block(squares, false) / n + 1e-5f);
    for (int i = threadIdx.x; i < n; i += blockDim.x)
        out[blockIdx.x * n + i] = __float2half((__half2float(row[i]) - mean) * scale * gain[i] + bias[i]);
}

extern "C" __global__ void gelu(const __half2* x, __half2* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float2 v = __half22float2(x[i]);
    float2 r;
    r.x = 0.5f * v.x * (1.0f + tanhf(0.7978845608f * (v.x + 0.044715f * v.x * v.x * v.x)));
    r.y = 0.5f * v.y * (1.0f + erff(v.y * 0.70710678f));
    out[i] = __float22half2_rn(r);
}

extern "C" __global__ void sort(u32* x) {
    __shared__ u32 s[512];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 512 + t], s[t + 256] = x[blockIdx.x * 512 + t + 256];
    for (int size = 2; size <= 512; size *= 2)
        for (int step = size / 2; step; step /= 2) {
            __syncthreads();
            int i = 2 * t - (t & (step - 1)), j = i + step;
            bool up = (i & size) == 0;
            u32 a = s[i], b = s[j];
            if ((a > b) == up) s[i] = b, s[j] = a;
        }
    __syncthreads();
    x[blockIdx.x * 512 + t] = s[t], x[blockIdx.x * 512 + t + 256] = s[t + 256];
}

extern "C" __global__ void counted(const int* x, int* out) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i], n = gridDim.x * blockDim.x;
    out[i] = __syncthreads_count(v % 2);
    out[n + i] = __syncthreads_and(v < 900);
    out[2 * n + i] = __syncthreads_or(v == 7);
}

// Two halves of a block meet at a barrier of their own.
extern "C" __global__ void named(int* out) {
    __shared__ int box[128];
    int half = threadIdx.x / 64, other = threadIdx.x ^ 63;
    box[threadIdx.x] = threadIdx.x * 3;
    asm volatile("bar.sync %0, 64;" ::"r"(half + 1) : "memory");
    out[threadIdx.x] = box[other];
}

extern "C" __global__ void atomics(const int* x, int* out, unsigned long long* wide, float* sum) {
    int v = x[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(out, v); atomicSub(out + 1, v); atomicMin(out + 2, v); atomicMax(out + 3, v);
    atomicAnd(out + 4, v | 0xff); atomicOr(out + 5, v & 0x3f3); atomicXor(out + 6, v);
    atomicInc((u32*)out + 7, 100); atomicDec((u32*)out + 8, 77);
    atomicAdd(wide, (unsigned long long)v << 20); atomicMax(wide + 1, (unsigned long long)v * v);
    atomicAdd(sum, (float)(v % 64));  // exact in any order
    int old = out[9], assumed;
    do {
        assumed = old;
        old = atomicCAS(out + 9, assumed, assumed + 2 * v + 1);
    } while (assumed != old);
}

// The block that comes last adds what all have found.
extern "C" __global__ void last_block(const int* x, volatile int* parts, u32* arrived, int* out) {
    __shared__ bool last;
    int sum = 0;
    for (int i = threadIdx.x; i < 256; i += blockDim.x) sum += x[blockIdx.x * 256 + i];
    for (int step = 16; step; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        last = atomicAdd(arrived, 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 0) {
        int total = 0;
        for (int i = 0; i < gridDim.x; ++i) total += parts[i];
        *out = total;
    }
}
