// A program as people write it: constants, variables, templates, events, errors, managed memory, a launch in a helper.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                                                  \
    do {                                                                                             \
        cudaError_t error = (call);                                                                  \
        if (error != cudaSuccess) printf("%s:%d %s\n", "scale.cu", __LINE__, cudaGetErrorString(error)), exit(3); \
    } while (0)

__constant__ float factors[2];
__device__ int counter = 5;

struct Options { int n; float* out; };

template <int N>
__global__ void scale(const float* x, Options options) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= options.n) return;
    options.out[i] = x[i] * factors[1] * N;
    if (i % 2 == 0) atomicAdd(&counter, 1);
}

__global__ void twice(int* x) { x[threadIdx.x] *= 2; }
__global__ void chained(float** rows, int n) { rows[blockIdx.x][threadIdx.x] += blockIdx.x * n; }

template <int N>
float run(const std::vector<float>& host, float* x, float* y) {
    cudaEvent_t start, stop;
    CHECK(cudaEventCreate(&start));
    CHECK(cudaEventCreate(&stop));
    CHECK(cudaEventRecord(start));
    scale<N><<<(host.size() + 127) / 128, 128>>>(x, Options{(int)host.size(), y});
    CHECK(cudaGetLastError());
    CHECK(cudaEventRecord(stop));
    CHECK(cudaEventSynchronize(stop));
    float ms;
    CHECK(cudaEventElapsedTime(&ms, start, stop));
    return ms;
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 300;
    std::vector<float> host(n, 2.0f), back(n);
    float *x, *y, values[2] = {1.0f, 1.5f};
    CHECK(cudaMalloc(&x, n * sizeof(float)));
    CHECK(cudaMalloc(&y, n * sizeof(float)));
    CHECK(cudaMemcpy(x, host.data(), n * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpyToSymbol(factors, values, sizeof values));
    if (run<7>(host, x, y) < 0) return 4;
    CHECK(cudaMemcpy(back.data(), y, n * sizeof(float), cudaMemcpyDeviceToHost));
    int counted;
    CHECK(cudaMemcpyFromSymbol(&counted, counter, sizeof counted));
    printf("%g %g %d\n", back[0], back[n - 1], counted);

    int* shared;
    CHECK(cudaMallocManaged(&shared, 32 * sizeof(int)));
    for (int i = 0; i < 32; ++i) shared[i] = i;
    twice<<<1, 32>>>(shared);
    CHECK(cudaDeviceSynchronize());
    printf("%d\n", shared[31]);

    float *rows[2] = {x, y}, **table;  // pointers in memory
    CHECK(cudaMalloc(&table, sizeof rows));
    CHECK(cudaMemcpy(table, rows, sizeof rows, cudaMemcpyHostToDevice));
    chained<<<2, 8>>>(table, 100);
    CHECK(cudaMemcpy(back.data(), y, 8 * sizeof(float), cudaMemcpyDeviceToHost));
    printf("%g\n", back[3]);

    printf("%s\n", cudaGetErrorName(cudaMemcpy(x, host.data(), 1 << 30, cudaMemcpyHostToDevice)));
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
    return 0;
}
