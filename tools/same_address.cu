// Which lane's value stays if the lanes of one store give the same address? Asks a GPU.
//
//     nvcc -gencode arch=compute_90a,code=sm_90a -o same_address tools/same_address.cu && ./same_address
//
// Lanes of 256 masks store their numbers at one address of shared and of global memory, in 4 bytes; it prints in how
// many rounds the lowest and the highest lane stayed. Then all lanes store elements of 1 to 16 bytes, lane i at
// i % 16, at i / 4 and at 7 * i % 5; it prints which stayed. tests/simt/test_same_address.py has what an H200 answered.
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>

__device__ unsigned mix(unsigned x) {
    x *= 0x9E3779B9u;
    x ^= x >> 15;
    return x * 0x85EBCA6Bu;
}

__device__ unsigned mask_of(unsigned seed, int round) {
    return round == 0 ? 0xffffffffu : mix(seed * 64 + round) | 1u << (round & 31);
}

__global__ void masks_shared(unsigned* out, unsigned seed) {
    __shared__ unsigned s[64];
    for (int round = 0; round < 64; ++round) {
        unsigned mask = mask_of(seed, round);
        __syncwarp();
        if (mask >> threadIdx.x & 1) ((volatile unsigned*)s)[round & 7] = threadIdx.x;
        __syncwarp();
        unsigned stays = ((volatile unsigned*)s)[round & 7];
        if (threadIdx.x == 0) out[2 * round] = mask, out[2 * round + 1] = stays;
    }
}

__global__ void masks_global(unsigned* out, unsigned* g, unsigned seed) {
    for (int round = 0; round < 64; ++round) {
        unsigned mask = mask_of(seed, round);
        __syncwarp();
        if (mask >> threadIdx.x & 1) ((volatile unsigned*)g)[round] = threadIdx.x;
        __threadfence();
        __syncwarp();
        unsigned stays = ((volatile unsigned*)g)[round];
        if (threadIdx.x == 0) out[2 * round] = mask, out[2 * round + 1] = stays;
    }
}

template <class T> __device__ void elements(unsigned* out, T* memory) {
    T value;
    memset(&value, 0, sizeof value);
    *(unsigned char*)&value = threadIdx.x;
    int places[] = {int(threadIdx.x) % 16, int(threadIdx.x) / 4, int(threadIdx.x) * 7 % 5}, counts[] = {16, 8, 5};
    for (int each = 0; each < 3; ++each) {
        memory[places[each]] = value;
        __threadfence();
        __syncwarp();
        if (threadIdx.x < counts[each]) out[threadIdx.x] = *(volatile unsigned char*)&memory[threadIdx.x];
        __syncwarp();
        out += counts[each];
    }
}

template <class T> __global__ void elements_shared(unsigned* out) {
    __shared__ T s[64];
    elements(out, s);
}

template <class T> __global__ void elements_global(unsigned* out, T* g) { elements(out, g); }

unsigned *out, *memory, answer[128];

void fetch(const char* name) {
    cudaError_t error = cudaDeviceSynchronize();
    cudaMemcpy(answer, out, sizeof answer, cudaMemcpyDeviceToHost);
    printf("%s (%s):", name, cudaGetErrorString(error));
}

void show_masks(const char* name) {
    fetch(name);
    int lowest = 0, highest = 0;
    for (int round = 0; round < 64; ++round) {
        unsigned mask = answer[2 * round], stays = answer[2 * round + 1];
        lowest += stays == unsigned(__builtin_ctz(mask));
        highest += stays == 31u - __builtin_clz(mask);
    }
    printf(" of 64, the lowest lane %d, the highest lane %d\n", lowest, highest);
}

template <class T> void show(const char* name) {
    elements_shared<T><<<1, 32>>>(out);
    for (int space = 0; space < 2; ++space) {
        fetch(name);
        for (int each = 0; each < 29; ++each) printf(" %u", answer[each]);
        printf(" in %s memory\n", space ? "global" : "shared");
        if (!space) elements_global<T><<<1, 32>>>(out, (T*)memory);
    }
}

int main() {
    cudaMalloc(&out, 4096);
    cudaMalloc(&memory, 4096);
    for (unsigned seed = 1; seed < 5; ++seed) {
        masks_shared<<<1, 32>>>(out, seed);
        show_masks("shared");
        masks_global<<<1, 32>>>(out, memory, seed);
        show_masks("global");
    }
    show<unsigned char>("1 byte");
    show<unsigned short>("2 bytes");
    show<unsigned>("4 bytes");
    show<uint2>("8 bytes");
    show<uint4>("16 bytes");
}
