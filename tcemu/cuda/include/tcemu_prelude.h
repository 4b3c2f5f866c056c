// Included before every source, as nvcc includes cuda_runtime.h and, with it, parts of C's and C++'s libraries: a kernel
// that nvcc accepts finds the same names here. NVRTC has the functions of <math.h>, printf, assert, malloc and memcpy.
#pragma once
#include <tcemu_math.h>
#include <cuda/std/cfloat>
#include <cuda/std/climits>
#include <cuda/std/cstdint>

using ptrdiff_t = decltype(static_cast<int*>(nullptr) - static_cast<int*>(nullptr));
using uint = unsigned int;
using ulong = unsigned long;
using ushort = unsigned short;
using uchar = unsigned char;
using u_char = unsigned char;  // of <sys/types.h>, which <stdlib.h> includes
using u_short = unsigned short;
using u_int = unsigned int;
using u_long = unsigned long;
using u_int8_t = uint8_t;
using u_int16_t = uint16_t;
using u_int32_t = uint32_t;
using u_int64_t = uint64_t;
using FILE = struct _IO_FILE;  // a header may declare functions for the host that take one
using cudaStream_t = struct CUstream_st*;  // and a struct with a kernel's parameters have one of these
using cudaEvent_t = struct CUevent_st*;
using cudaGraph_t = struct CUgraph_st*;
using cudaGraphExec_t = struct CUgraphExec_st*;

// What gcc has beside the standard's words, and what C++17 has no more.
#define __asm__ asm
#define __volatile__ volatile
#define __inline__ inline
#define register
#define typeof(...) tcemu::of<decltype(__VA_ARGS__)>
#define __typeof typeof
#define __typeof__ typeof
namespace tcemu {
template <class T> struct Of { using type = T; };
template <class T> struct Of<T&> { using type = T; };
template <class T> struct Of<T&&> { using type = T; };
template <class T> using of = typename Of<T>::type;
}  // namespace tcemu
__host__ __device__ inline int __builtin_popcount(unsigned x) { return __popc(x); }
__host__ __device__ inline int __builtin_popcountll(unsigned long long x) { return __popcll(x); }
__host__ __device__ inline int __builtin_clz(unsigned x) { return __clz(x); }
__host__ __device__ inline int __builtin_clzll(unsigned long long x) { return __clzll(x); }
__host__ __device__ inline int __builtin_ffs(int x) { return __ffs(x); }
__host__ __device__ inline int __builtin_ffsll(long long x) { return __ffsll(x); }
#define __builtin_memcpy memcpy
#define __builtin_memset memset

#ifndef INFINITY
#define INFINITY __builtin_bit_cast(float, 0x7f800000)
#endif
#ifndef NAN
#define NAN __builtin_bit_cast(float, 0x7fc00000)
#endif
#ifndef HUGE_VALF
#define HUGE_VALF __builtin_bit_cast(float, 0x7f800000)
#endif
#ifndef HUGE_VAL
#define HUGE_VAL __builtin_bit_cast(double, 0x7ff0000000000000)
#endif
#define M_E 2.7182818284590452354
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440

// ThunderKittens: compile for the device alone.
#define KITTENS_NO_HOST

#ifndef FLT_MAX  // older releases of <cuda/std/cfloat> leave these to the host's library
#define FLT_RADIX 2
#define FLT_MANT_DIG 24
#define FLT_DIG 6
#define FLT_MIN_EXP (-125)
#define FLT_MAX_EXP 128
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.1920928955078125e-7f
#define FLT_TRUE_MIN 1.401298464324817e-45f
#define DBL_MANT_DIG 53
#define DBL_DIG 15
#define DBL_MIN_EXP (-1021)
#define DBL_MAX_EXP 1024
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#endif

#define CLOCKS_PER_SEC ((clock_t)1000000)

namespace std {
using ::int8_t, ::int16_t, ::int32_t, ::int64_t, ::uint8_t, ::uint16_t, ::uint32_t, ::uint64_t;
using ::size_t, ::intptr_t, ::uintptr_t, ::intmax_t, ::uintmax_t, ::ptrdiff_t;
using nullptr_t = decltype(nullptr);
using ::abs, ::acos, ::acosh, ::asin, ::asinh, ::atan, ::atan2, ::atanh, ::cbrt, ::ceil, ::copysign, ::cos, ::cosh, ::erf,
    ::erfc, ::exp, ::exp2, ::expm1, ::fabs, ::fdim, ::floor, ::fma, ::fmax, ::fmin, ::fmod, ::fpclassify, ::hypot, ::ilogb, ::isfinite,
    ::isinf, ::isnan, ::isnormal, ::ldexp, ::lgamma, ::llrint, ::llround, ::log, ::log10, ::log1p, ::log2, ::logb, ::lrint, ::lround,
    ::nearbyint, ::nextafter, ::pow, ::remainder, ::rint, ::round, ::scalbn, ::signbit, ::sin, ::sinh, ::sqrt, ::tan,
    ::tanh, ::tgamma, ::trunc;
using ::acoshf, ::asinhf, ::atanhf, ::cbrtf, ::copysignf, ::erfcf, ::erff, ::exp2f, ::expm1f, ::fdimf, ::fmaf, ::fmaxf,
    ::fminf, ::hypotf, ::ilogbf, ::lgammaf, ::llrintf, ::llroundf, ::log1pf, ::log2f, ::logbf, ::lrintf, ::lroundf,
    ::nearbyintf, ::nextafterf, ::remainderf, ::rintf, ::roundf, ::scalbnf, ::tgammaf, ::truncf;
using ::free, ::malloc, ::memcpy, ::memset, ::printf;

template <class T> __host__ __device__ constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> __host__ __device__ constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> __host__ __device__ constexpr T max(initializer_list<T> list) {
    T most = *list.begin();
    for (const T& each : list) most = most < each ? each : most;
    return most;
}
template <class T> __host__ __device__ constexpr T min(initializer_list<T> list) {
    T least = *list.begin();
    for (const T& each : list) least = each < least ? each : least;
    return least;
}
}  // namespace std

// From cuda_device_runtime_api.h, whose other functions only the host calls here. Templates give way to the header's own.
template <int = 0> inline __device__ void cudaGridDependencySynchronize() {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}
template <int = 0> inline __device__ void cudaTriggerProgrammaticLaunchCompletion() {
    asm volatile("griddepcontrol.launch_dependents;" :::);
}
