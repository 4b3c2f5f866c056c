// Memory that the host and kernels share: a list in managed memory, managed variables, the addresses of variables.
#include <cstdio>

struct Node {
    int value;
    Node* next;
};
__managed__ Node* head;
__managed__ int total = 1;
__device__ int counter = 3;
__device__ int* where;

__global__ void walk() {
    for (Node* node = head; node; node = node->next) total += node->value, node->value *= 2;
    *where = ++counter;
}

int main() {
    for (int i = 0; i < 9; ++i) {
        Node* node;
        cudaMallocManaged(&node, sizeof *node);
        *node = {i, head};
        head = node;
    }
    int *memory, *address, values[2];
    cudaMalloc(&memory, sizeof(int));
    cudaMemcpyToSymbol(where, &memory, sizeof memory);
    cudaGetSymbolAddress((void**)&address, counter);
    cudaMemset(address, 0, 1);  // of 3, nothing is left
    walk<<<1, 1>>>();
    cudaMemcpy(values, memory, sizeof(int), cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(values + 1, counter, sizeof(int));
    printf("%d %d %d %d\n", total, head->value, values[0], values[1]);
}
