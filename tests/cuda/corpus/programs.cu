// Small programs from physics, finance and pictures.

typedef unsigned int u32;

extern "C" __global__ void mandelbrot(int* out, int width, int height, int most) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x >= width || y >= height) return;
    float cr = 3.0f * x / width - 2.0f, ci = 2.0f * y / height - 1.0f, zr = 0, zi = 0;
    int k = 0;
    while (k < most && zr * zr + zi * zi < 4) {
        float next = zr * zr - zi * zi + cr;
        zi = 2 * zr * zi + ci, zr = next, ++k;
    }
    out[y * width + x] = k;
}

extern "C" __global__ void nbody(const float4* bodies, float3* forces, int n) {
    __shared__ float4 tile[64];
    int i = blockIdx.x * 64 + threadIdx.x;
    float4 own = bodies[i];
    float3 f = make_float3(0, 0, 0);
    for (int first = 0; first < n; first += 64) {
        tile[threadIdx.x] = bodies[first + threadIdx.x];
        __syncthreads();
        for (int j = 0; j < 64; ++j) {
            float dx = tile[j].x - own.x, dy = tile[j].y - own.y, dz = tile[j].z - own.z;
            float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + 0.01f), s = tile[j].w * inverse * inverse * inverse;
            f.x += dx * s, f.y += dy * s, f.z += dz * s;
        }
        __syncthreads();
    }
    forces[i] = f;
}

__device__ float normal(float d) {
    float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
    float tail = 0.39894228f * expf(-0.5f * d * d) * k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
    return d > 0 ? 1.0f - tail : tail;
}

extern "C" __global__ void black_scholes(const float* price, const float* strike, const float* years, float* call, float* put, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float root = sqrtf(years[i]), d1 = (logf(price[i] / strike[i]) + (0.02f + 0.5f * 0.09f) * years[i]) / (0.3f * root), d2 = d1 - 0.3f * root;
    float rest = strike[i] * expf(-0.02f * years[i]);
    call[i] = price[i] * normal(d1) - rest * normal(d2);
    put[i] = rest * (1.0f - normal(d2)) - price[i] * (1.0f - normal(d1));
}

// A fast Fourier transform of 256 complex numbers in each block.
extern "C" __global__ void fft(float2* x) {
    __shared__ float2 s[256];
    int t = threadIdx.x;
    for (int i = t; i < 256; i += 128) s[__brev(i) >> 24] = x[blockIdx.x * 256 + i];
    for (int half = 1; half < 256; half *= 2) {
        __syncthreads();
        int k = t % half, i = t / half * 2 * half + k;
        float angle = -3.14159265f * k / half, c, d;
        sincosf(angle, &d, &c);
        float2 a = s[i], b = s[i + half];
        float2 turned = make_float2(b.x * c - b.y * d, b.x * d + b.y * c);
        s[i] = make_float2(a.x + turned.x, a.y + turned.y);
        s[i + half] = make_float2(a.x - turned.x, a.y - turned.y);
    }
    __syncthreads();
    for (int i = t; i < 256; i += 128) x[blockIdx.x * 256 + i] = s[i];
}

extern "C" __global__ void heat(const double* x, double* out, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row == 0 || column == 0 || row >= n - 1 || column >= n - 1) return;
    int i = row * n + column;
    out[i] = x[i] + 0.1 * (x[i - 1] + x[i + 1] + x[i - n] + x[i + n] - 4 * x[i]);
}

extern "C" __global__ void life(const unsigned char* x, unsigned char* out, int n) {
    int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y, alive = 0;
    for (int k = 0; k < 9; ++k)
        if (k != 4) alive += x[(row + k / 3 - 1 + n) % n * n + (column + k % 3 - 1 + n) % n];
    out[row * n + column] = alive == 3 || (alive == 2 && x[row * n + column]);
}

extern "C" __global__ void breadth_first(const int* first, const int* edges, int* distance, int* changed, int level, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || distance[i] != level) return;
    for (int k = first[i]; k < first[i + 1]; ++k)
        if (atomicCAS(&distance[edges[k]], -1, level + 1) == -1) atomicExch(changed, 1);
}

extern "C" __global__ void sparse(const int* first, const int* columns, const float* values, const float* x, float* y, int rows) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0;
    for (int k = first[row] + lane; k < first[row + 1]; k += 32) sum += values[k] * x[columns[k]];
    for (int step = 16; step; step /= 2) sum += __shfl_down_sync(~0u, sum, step);
    if (lane == 0) y[row] = sum;
}

// Monte Carlo with a generator of each thread's own.
extern "C" __global__ void pi(u32* inside, int tries) {
    u32 state = (blockIdx.x * blockDim.x + threadIdx.x) * 747796405u + 2891336453u, hits = 0;
    for (int k = 0; k < tries; ++k) {
        float p[2];
        for (int d = 0; d < 2; ++d) {
            state = state * 747796405u + 2891336453u;
            u32 word = ((state >> ((state >> 28) + 4)) ^ state) * 277803737u;
            p[d] = (word >> 22 ^ word) * 2.3283064365386963e-10f;
        }
        hits += p[0] * p[0] + p[1] * p[1] < 1.0f;
    }
    atomicAdd(inside, hits);
}
