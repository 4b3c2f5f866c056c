#include <cuda_runtime.h>
__global__ void wild(int* x) { x[threadIdx.x + 1] = 1; }
int main() {
    int* x;
    cudaMalloc(&x, 128);
    wild<<<1, 32>>>(x);
    return 0;
}
