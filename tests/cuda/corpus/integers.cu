// Integers: bits, wide arithmetic, division, random numbers, and loops in which threads part.

#define EACH int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; int row = 0
#define PUT(value) out[row++ * n + i] = (value)
typedef unsigned int u32;
typedef unsigned long long u64;

extern "C" __global__ void bits(const u32* x, const u32* y, u32* out, int n) {
    EACH;
    u32 a = x[i], b = y[i];
    u64 wide = (u64)a << 32 | b;
    PUT(__popc(a)); PUT(__clz(a)); PUT(__ffs(a)); PUT(__brev(a)); PUT(__popcll(wide)); PUT(__clzll(wide));
    PUT(__ffsll(wide)); PUT((u32)(__brevll(wide) >> 16)); PUT(__byte_perm(a, b, a >> 16)); PUT(__funnelshift_l(a, b, a));
    PUT(__funnelshift_r(a, b, b)); PUT(__funnelshift_lc(a, b, b & 63)); PUT(__mulhi(a, b)); PUT(__umulhi(a, b));
    PUT(__mul24(a, b)); PUT(__umul24(a, b)); PUT(__sad(a, b, a)); PUT(__usad(a, b, a)); PUT(__hadd(a, b)); PUT(__rhadd(a, b));
    PUT(__uhadd(a, b)); PUT((u32)__umul64hi(wide, ~wide)); PUT((u32)__mul64hi(wide, wide));
    PUT(a << (b & 31)); PUT(a >> (b & 31)); PUT((u32)((int)a >> (b & 31))); PUT((a & b) ^ (~a | b)); PUT(min(a, b));
    PUT((u32)max((int)a, (int)b)); PUT((u32)abs((int)a)); PUT((u32)(wide >> (b & 63)));
}

extern "C" __global__ void dots(const u32* x, const u32* y, u32* out, int n) {
    EACH;
    u32 a = x[i], b = y[i];
    PUT(__dp4a((int)a, (int)b, (int)a)); PUT(__dp4a(a, b, a)); PUT(__dp2a_lo((int)a, (int)b, 7)); PUT(__dp2a_hi(a, b, 9u));
    PUT(__vadd4(a, b)); PUT(__vsub2(a, b)); PUT(__vabsdiffu4(a, b)); PUT(__vmaxs2(a, b)); PUT(__vcmpgtu4(a, b));
    PUT(__vsadu4(a, b)); PUT(__viaddmax_s32(a, b, 3)); PUT(__vimax3_s32(a, b, -5)); PUT(__vimin_s32_relu(a, b));
}

extern "C" __global__ void divisions(const u32* x, const u32* y, u64* out, int n) {
    EACH;
    u32 a = x[i], b = y[i] | 1;
    u64 c = (u64)a * 0x9e3779b97f4a7c15ull, d = ((u64)b << (a & 31)) | 1;
    PUT(a / b); PUT(a % b); PUT((u64)((int)a / (int)b)); PUT((u64)((int)a % (int)b)); PUT(c / d); PUT(c % d);
    PUT((u64)((long long)c / (long long)d)); PUT((u64)((long long)c % (long long)d)); PUT(a / 7); PUT(a % 1000003);
    PUT((unsigned short)a / (unsigned short)(b)); PUT((u64)((signed char)a / (signed char)b));
}

extern "C" __global__ void wide(const u64* x, const u64* y, u64* out, int n) {
    EACH;
    unsigned __int128 a = (unsigned __int128)x[i] << 64 | y[i], b = (unsigned __int128)y[i] << 61 | x[i];
    unsigned __int128 sum = a + b, product = a * b, difference = a - b;
    PUT((u64)sum); PUT((u64)(sum >> 64)); PUT((u64)product); PUT((u64)(product >> 64)); PUT((u64)(difference >> 64));
    PUT((u64)(a >> (x[i] & 127))); PUT(a < b); PUT(__umul64hi(x[i], y[i]));
    u32 low, high;
    asm("{ add.cc.u32 %0, %2, %3; addc.u32 %1, %4, %5; }" : "=r"(low), "=r"(high)
        : "r"((u32)x[i]), "r"((u32)y[i]), "r"((u32)(x[i] >> 32)), "r"((u32)(y[i] >> 32)));
    PUT((u64)high << 32 | low);
    asm("{ mad.lo.cc.u32 %0, %2, %3, %4; madc.hi.u32 %1, %2, %3, 0; }" : "=r"(low), "=r"(high)
        : "r"((u32)x[i]), "r"((u32)y[i]), "r"((u32)(x[i] >> 32)));
    PUT((u64)high << 32 | low);
}

__device__ uint4 philox(uint4 counter, uint2 key) {
    for (int round = 0; round < 10; ++round) {
        u32 h0 = __umulhi(0xD2511F53u, counter.x), l0 = 0xD2511F53u * counter.x;
        u32 h1 = __umulhi(0xCD9E8D57u, counter.z), l1 = 0xCD9E8D57u * counter.z;
        counter = make_uint4(h1 ^ counter.y ^ key.x, l1, h0 ^ counter.w ^ key.y, l0);
        key.x += 0x9E3779B9u, key.y += 0xBB67AE85u;
    }
    return counter;
}

extern "C" __global__ void random(uint4* out, u32 seed, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = philox(make_uint4(i, 0, 0, 0), make_uint2(seed, 42));
}

extern "C" __global__ void collatz(u32* steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u64 value = i + 1;
    u32 count = 0;
    while (value != 1) {
        value = value % 2 ? 3 * value + 1 : value / 2;
        ++count;
    }
    steps[i] = count;
}

extern "C" __global__ void gcd(const u32* x, const u32* y, u32* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u32 a = x[i] % 100000, b = y[i] % 100000;
    for (;;) {
        if (b == 0) break;
        u32 rest = a % b;
        a = b, b = rest;
        if (a == 1) { b = 0; continue; }
    }
    out[i] = a;
}

__device__ __noinline__ u32 ackermann(u32 m, u32 k) {
    if (m == 0) return k + 1;
    if (k == 0) return ackermann(m - 1, 1);
    return ackermann(m - 1, ackermann(m, k - 1));
}

extern "C" __global__ void recursion(u32* out) { out[threadIdx.x] = ackermann(threadIdx.x % 3, threadIdx.x / 3); }

extern "C" __global__ void chosen(const u32* x, u32* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u32 a = x[i];
    switch (a % 9) {
        case 0: out[i] = a * 3; break;
        case 1: out[i] = a ^ 0x55; break;
        case 2: out[i] = __popc(a); break;
        case 3: a += 7;  // falls through
        case 4: out[i] = a >> 3; break;
        case 5: return;
        case 6: out[i] = a / 11; break;
        case 7: out[i] = ~a; break;
        default: out[i] = 1;
    }
}

extern "C" __global__ void sieve(unsigned char* composite, int n) {
    for (int p = 2; p * p < n; ++p) {
        if (!composite[p])
            for (int q = p * p + threadIdx.x * p; q < n; q += p * blockDim.x) composite[q] = 1;
        __syncthreads();
    }
}

extern "C" __global__ void hash(const u32* words, u32* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u32 table[16];  // in local memory: the index is not known
    for (int k = 0; k < 16; ++k) table[k] = words[(i + k) % n];
    u32 state = 0x811c9dc5u;
    for (int k = 0; k < 64; ++k) {
        u32& word = table[(state ^ k) % 16];
        state = (state ^ word) * 16777619u;
        word = __funnelshift_l(word, state, k);
    }
    out[i] = state;
}
