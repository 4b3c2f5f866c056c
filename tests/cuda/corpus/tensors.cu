// Tensor cores from CUDA C++: wmma, and mma.sync and ldmatrix in inline PTX.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;
typedef unsigned int u32;

template <typename In, typename Out, int M, int N, int K>
__device__ void tile(const In* a, const In* b, Out* c, int n, int k) {
    wmma::fragment<wmma::matrix_a, M, N, K, In, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, M, N, K, In, wmma::col_major> fb;
    wmma::fragment<wmma::accumulator, M, N, K, Out> fc;
    int row = blockIdx.y * M, column = blockIdx.x * N;
    wmma::fill_fragment(fc, (Out)0);
    for (int i = 0; i < k; i += K) {
        wmma::load_matrix_sync(fa, a + row * k + i, k);
        wmma::load_matrix_sync(fb, b + column * k + i, k);
        wmma::mma_sync(fc, fa, fb, fc);
    }
    for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + (Out)i;
    wmma::store_matrix_sync(c + row * n + column, fc, n, wmma::mem_row_major);
}

extern "C" __global__ void wmma_f16(const half* a, const half* b, float* c, int n, int k) { tile<half, float, 16, 16, 16>(a, b, c, n, k); }
extern "C" __global__ void wmma_f16_f16(const half* a, const half* b, half* c, int n, int k) { tile<half, half, 32, 8, 16>(a, b, c, n, k); }
extern "C" __global__ void wmma_bf16(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c, int n, int k) { tile<__nv_bfloat16, float, 8, 32, 16>(a, b, c, n, k); }
extern "C" __global__ void wmma_s8(const signed char* a, const signed char* b, int* c, int n, int k) { tile<signed char, int, 16, 16, 16>(a, b, c, n, k); }
extern "C" __global__ void wmma_f64(const double* a, const double* b, double* c, int n, int k) { tile<double, double, 8, 8, 4>(a, b, c, n, k); }

// Attention of one warp: 16 queries, 64 keys of 16 numbers; scores stay in registers.
extern "C" __global__ void attention(const half* q, const half* k, const half* v, float* out) {
    __shared__ __align__(16) half qs[16 * 16], ks[64 * 16], vs[64 * 16];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) qs[i] = q[i];
    for (int i = lane; i < 1024; i += 32) ks[i] = k[i], vs[i] = v[i];
    __syncwarp();
    u32 a[4];
    u32 at = __cvta_generic_to_shared(&qs[(lane % 16) * 16 + lane / 16 * 8]);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3]) : "r"(at));
    float s[8][4] = {};
    for (int n = 0; n < 8; ++n) {
        u32 b0, b1;
        at = __cvta_generic_to_shared(&ks[(n * 8 + lane % 8) * 16 + lane / 8 % 2 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];" : "=r"(b0), "=r"(b1) : "r"(at));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                     : "+f"(s[n][0]), "+f"(s[n][1]), "+f"(s[n][2]), "+f"(s[n][3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
    }
    float sum[2] = {};
    for (int h = 0; h < 2; ++h) {
        float most = -1e30f;
        for (int n = 0; n < 8; ++n) most = fmaxf(most, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 1));
        most = fmaxf(most, __shfl_xor_sync(~0u, most, 2));
        for (int n = 0; n < 8; ++n)
            for (int p = 0; p < 2; ++p) sum[h] += s[n][2 * h + p] = __expf((s[n][2 * h + p] - most) * 0.25f);
        sum[h] += __shfl_xor_sync(~0u, sum[h], 1);
        sum[h] += __shfl_xor_sync(~0u, sum[h], 2);
    }
    float o[2][4] = {};
    for (int n = 0; n < 4; ++n) {
        u32 p[4];
        for (int i = 0; i < 4; ++i) {
            half2 pair = __floats2half2_rn(s[2 * n + i / 2][2 * (i % 2)], s[2 * n + i / 2][2 * (i % 2) + 1]);
            p[i] = *(u32*)&pair;
        }
        for (int half_ = 0; half_ < 2; ++half_) {
            u32 b0, b1;
            at = __cvta_generic_to_shared(&vs[(n * 16 + lane % 16) * 16 + half_ * 8]);
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];" : "=r"(b0), "=r"(b1) : "r"(at));
            asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                         : "+f"(o[half_][0]), "+f"(o[half_][1]), "+f"(o[half_][2]), "+f"(o[half_][3])
                         : "r"(p[0]), "r"(p[1]), "r"(p[2]), "r"(p[3]), "r"(b0), "r"(b1));
        }
    }
    for (int half_ = 0; half_ < 2; ++half_)
        for (int i = 0; i < 4; ++i) out[(lane / 4 + i / 2 * 8) * 16 + half_ * 8 + lane % 4 * 2 + i % 2] = o[half_][i] / sum[i / 2];
}
