// Mathematical functions as CUDA's headers and libdevice make them: each row of `out` is one function of x (and y).
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#define EACH int i = blockIdx.x * blockDim.x + threadIdx.x; if (i >= n) return; int row = 0
#define PUT(value) out[row++ * n + i] = (value)

extern "C" __global__ void exponentials(const float* x, float* out, int n) {
    EACH;
    float v = x[i];
    PUT(expf(v)); PUT(exp2f(v)); PUT(exp10f(v)); PUT(expm1f(v));
    PUT(logf(v)); PUT(log2f(v)); PUT(log10f(v)); PUT(log1pf(v)); PUT(logbf(v));
}

extern "C" __global__ void fast_math(const float* x, const float* y, float* out, int n) {
    EACH;
    float v = x[i], w = y[i];
    PUT(__expf(v)); PUT(__exp10f(v)); PUT(__logf(v)); PUT(__log2f(v)); PUT(__log10f(v));
    PUT(__sinf(v)); PUT(__cosf(v)); PUT(__tanf(v)); PUT(__powf(v, w)); PUT(__fdividef(v, w));
    PUT(__frsqrt_rn(v)); PUT(__saturatef(v)); PUT(rsqrtf(v)); PUT(__tanhf(v));
}

extern "C" __global__ void trigonometry(const float* x, float* out, int n) {
    EACH;
    float v = x[i], s, c;
    PUT(sinf(v)); PUT(cosf(v)); PUT(tanf(v)); PUT(asinf(v)); PUT(acosf(v)); PUT(atanf(v));
    PUT(sinhf(v)); PUT(coshf(v)); PUT(tanhf(v)); PUT(asinhf(v)); PUT(acoshf(v)); PUT(atanhf(v));
    PUT(sinpif(v)); PUT(cospif(v));
    sincosf(v, &s, &c);
    PUT(s); PUT(c);
}

extern "C" __global__ void powers(const float* x, const float* y, float* out, int n) {
    EACH;
    float v = x[i], w = y[i];
    PUT(powf(v, w)); PUT(cbrtf(v)); PUT(rcbrtf(v)); PUT(hypotf(v, w)); PUT(rhypotf(v, w)); PUT(atan2f(v, w));
    PUT(fmodf(v, w)); PUT(remainderf(v, w)); PUT(fdimf(v, w)); PUT(ldexpf(v, (int)w & 15)); PUT(nextafterf(v, w));
    PUT(copysignf(v, w)); PUT(fminf(v, w)); PUT(fmaxf(v, w)); PUT(fmaf(v, w, 1.0f)); PUT(sqrtf(v));
}

extern "C" __global__ void specials(const float* x, float* out, int n) {
    EACH;
    float v = x[i];
    PUT(erff(v)); PUT(erfcf(v)); PUT(erfcxf(v)); PUT(erfinvf(v)); PUT(normcdff(v)); PUT(normcdfinvf(v));
    PUT(lgammaf(v)); PUT(tgammaf(v)); PUT(j0f(v)); PUT(y1f(v)); PUT(cyl_bessel_i0f(v));
}

extern "C" __global__ void roundings(const float* x, const float* y, float* out, int n) {
    EACH;
    float v = x[i], w = y[i];
    PUT(__fadd_rz(v, w)); PUT(__fadd_ru(v, w)); PUT(__fadd_rd(v, w)); PUT(__fmul_rz(v, w)); PUT(__fmul_ru(v, w));
    PUT(__fmaf_rz(v, w, v)); PUT(__fmaf_ru(v, w, v)); PUT(__fmaf_rd(v, w, v)); PUT(__fdiv_rn(v, w));
    PUT(__fdiv_rz(v, w)); PUT(__fdiv_ru(v, w)); PUT(__fdiv_rd(v, w)); PUT(__frcp_rz(v)); PUT(__frcp_ru(v));
    PUT(__fsqrt_rz(v)); PUT(__fsqrt_ru(v)); PUT(__fsqrt_rd(v)); PUT(v / w);
    PUT(floorf(v)); PUT(ceilf(v)); PUT(truncf(v)); PUT(rintf(v)); PUT(roundf(v));
}

extern "C" __global__ void doubles(const double* x, const double* y, double* out, int n) {
    EACH;
    double v = x[i], w = y[i];
    PUT(exp(v)); PUT(log(v)); PUT(sin(v)); PUT(cos(v)); PUT(tan(v)); PUT(tanh(v)); PUT(pow(v, w)); PUT(cbrt(v));
    PUT(v / w); PUT(sqrt(v)); PUT(rsqrt(v)); PUT(fma(v, w, 1.0)); PUT(erf(v)); PUT(lgamma(v)); PUT(atan2(v, w));
    PUT(__dadd_rz(v, w)); PUT(__dmul_ru(v, w)); PUT(__fma_rd(v, w, v)); PUT(__ddiv_rz(v, w)); PUT(__dsqrt_ru(v));
    PUT(floor(v)); PUT(round(v)); PUT(fmod(v, w));
}

extern "C" __global__ void conversions(const float* x, const double* y, long long* out, int n) {
    EACH;
    float v = x[i];
    double w = y[i];
    PUT(__float2int_rn(v)); PUT(__float2int_rz(v)); PUT(__float2int_ru(v)); PUT(__float2int_rd(v));
    PUT(__float2uint_rn(v)); PUT(__float2ll_rn(v)); PUT((long long)__float2ull_rz(v)); PUT(__double2int_rd(w));
    PUT(__double2ll_rn(w)); PUT((long long)__double2ull_ru(w)); PUT(__double2loint(w)); PUT(__double2hiint(w));
    PUT(__float_as_int(__double2float_rn(w))); PUT(__float_as_int(__double2float_rz(w)));
    PUT(__float_as_int(__double2float_ru(w))); PUT((long long)(short)v); PUT((long long)(unsigned char)(int)v);
    int k = __float_as_int(v);
    PUT(__float_as_int(__int2float_rn(k))); PUT(__float_as_int(__int2float_rz(k)));
    PUT(__float_as_int(__uint2float_ru(k))); PUT(__double_as_longlong(__ll2double_rd(out[i])));
    PUT(__float_as_int(__ull2float_rn((unsigned long long)out[i])));
}

extern "C" __global__ void halves(const float* x, const float* y, unsigned short* out, int n) {
    EACH;
    __half v = __float2half(x[i]), w = __float2half(y[i]);
#define HALF(value) PUT(__half_as_ushort(value))
    HALF(v); HALF(__float2half_rz(x[i])); HALF(__float2half_ru(x[i])); HALF(__hadd(v, w)); HALF(__hsub(v, w));
    HALF(__hmul(v, w)); HALF(__hdiv(v, w)); HALF(__hfma(v, w, v)); HALF(__hfma_relu(v, w, v)); HALF(__hadd_sat(v, w));
    HALF(__hmin(v, w)); HALF(__hmax_nan(v, w)); HALF(__hneg(v)); HALF(__habs(v)); HALF(hexp(v)); HALF(hexp2(v));
    HALF(hlog(v)); HALF(hlog2(v)); HALF(hsqrt(v)); HALF(hrsqrt(v)); HALF(hrcp(v)); HALF(hsin(v)); HALF(hcos(v));
    HALF(htanh_approx(v)); HALF(hfloor(v)); HALF(hrint(v));
    __half2 p = __halves2half2(v, w), q = __hfma2(p, p, __hmul2(p, __low2half2(p)));
    HALF(__low2half(q)); HALF(__high2half(q));
    q = h2exp2(p);
    HALF(__low2half(q)); HALF(__high2half(q));
    PUT(__heq(v, w)); PUT(__hltu(v, w)); PUT((unsigned short)__half2int_rn(v)); PUT((unsigned short)__half2short_rz(w));
}

extern "C" __global__ void bfloats(const float* x, const float* y, unsigned short* out, int n) {
    EACH;
    __nv_bfloat16 v = __float2bfloat16(x[i]), w = __float2bfloat16(y[i]);
#define BRAIN(value) PUT(__bfloat16_as_ushort(value))
    BRAIN(v); BRAIN(__float2bfloat16_rz(x[i])); BRAIN(__hadd(v, w)); BRAIN(__hmul(v, w)); BRAIN(__hfma(v, w, v));
    BRAIN(__hfma_relu(v, w, v)); BRAIN(__hdiv(v, w)); BRAIN(__hmin(v, w)); BRAIN(__hmax(v, w)); BRAIN(hexp(v));
    BRAIN(hlog(v)); BRAIN(hsqrt(v)); BRAIN(hrsqrt(v)); BRAIN(hrcp(v)); BRAIN(htanh(v));
    __nv_bfloat162 p = __halves2bfloat162(v, w), q = __hfma2(p, p, p);
    BRAIN(__low2bfloat16(q)); BRAIN(__high2bfloat16(q));
    q = __floats2bfloat162_rn(x[i], y[i]);
    BRAIN(__low2bfloat16(q)); BRAIN(__high2bfloat16(q));
}

extern "C" __global__ void eights(const float* x, const float* y, unsigned* out, int n) {
    EACH;
    float2 both = make_float2(x[i], y[i]);
    PUT(__nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E4M3)); PUT(__nv_cvt_float_to_fp8(x[i], __NV_SATFINITE, __NV_E5M2));
    PUT(__nv_cvt_float2_to_fp8x2(both, __NV_SATFINITE, __NV_E4M3)); PUT(__nv_cvt_float2_to_fp8x2(both, __NV_SATFINITE, __NV_E5M2));
    unsigned short raw = __half_as_ushort(__float2half(x[i]));
    __half_raw wide = __nv_cvt_fp8_to_halfraw((unsigned char)raw, __NV_E4M3), other = __nv_cvt_fp8_to_halfraw((unsigned char)raw, __NV_E5M2);
    PUT(wide.x); PUT(other.x);
}
