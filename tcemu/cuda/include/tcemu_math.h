// What C++ adds to <math.h>: a function of an integer is one of double, and so is one of two numbers that are not both
// floats. NVRTC has its functions for float and for double alone, to which sqrt(int) is ambiguous, and pow(float, int)
// one of floats.
#pragma once
namespace tcemu {
template <class> constexpr int kind = 0;  // 1: an integer, 2: a float, 3: a double
template <> constexpr int kind<bool> = 1;
template <> constexpr int kind<char> = 1;
template <> constexpr int kind<signed char> = 1;
template <> constexpr int kind<unsigned char> = 1;
template <> constexpr int kind<wchar_t> = 1;
template <> constexpr int kind<short> = 1;
template <> constexpr int kind<unsigned short> = 1;
template <> constexpr int kind<int> = 1;
template <> constexpr int kind<unsigned> = 1;
template <> constexpr int kind<long> = 1;
template <> constexpr int kind<unsigned long> = 1;
template <> constexpr int kind<long long> = 1;
template <> constexpr int kind<unsigned long long> = 1;
template <> constexpr int kind<float> = 2;
template <> constexpr int kind<double> = 3;

template <class Result, bool> struct If {};
template <class Result> struct If<Result, true> { using type = Result; };
template <class T, class Result = double> using of_integer = typename If<Result, kind<T> == 1>::type;
template <class A, class B> constexpr bool own = kind<A> == kind<B> && kind<A> != 1;  // NVRTC has this one itself
template <class A, class B> using of_mixed = typename If<double, kind<A> && kind<B> && !own<A, B>>::type;
}  // namespace tcemu

#define TCEMU_ONE(name) \
    template <class T> __host__ __device__ inline tcemu::of_integer<T> name(T x) { return name(double(x)); }
TCEMU_ONE(acos) TCEMU_ONE(acosh) TCEMU_ONE(asin) TCEMU_ONE(asinh) TCEMU_ONE(atan) TCEMU_ONE(atanh) TCEMU_ONE(cbrt)
TCEMU_ONE(ceil) TCEMU_ONE(cos) TCEMU_ONE(cosh) TCEMU_ONE(erf) TCEMU_ONE(erfc) TCEMU_ONE(exp) TCEMU_ONE(exp2)
TCEMU_ONE(expm1) TCEMU_ONE(fabs) TCEMU_ONE(floor) TCEMU_ONE(lgamma) TCEMU_ONE(log) TCEMU_ONE(log10) TCEMU_ONE(log1p)
TCEMU_ONE(log2) TCEMU_ONE(logb) TCEMU_ONE(nearbyint) TCEMU_ONE(rint) TCEMU_ONE(round) TCEMU_ONE(sin) TCEMU_ONE(sinh)
TCEMU_ONE(sqrt) TCEMU_ONE(tan) TCEMU_ONE(tanh) TCEMU_ONE(tgamma) TCEMU_ONE(trunc)
#undef TCEMU_ONE

#define TCEMU_ONE_TO(result, name) \
    template <class T> __host__ __device__ inline tcemu::of_integer<T, result> name(T x) { return name(double(x)); }
TCEMU_ONE_TO(bool, isfinite) TCEMU_ONE_TO(bool, isinf) TCEMU_ONE_TO(bool, isnan) TCEMU_ONE_TO(bool, signbit)
TCEMU_ONE_TO(int, ilogb) TCEMU_ONE_TO(long, lrint) TCEMU_ONE_TO(long, lround) TCEMU_ONE_TO(long long, llrint)
TCEMU_ONE_TO(long long, llround)

#define TCEMU_TWO(name)                                                                      \
    template <class A, class B> __host__ __device__ inline tcemu::of_mixed<A, B> name(A a, B b) { \
        return name(double(a), double(b));                                                   \
    }
TCEMU_TWO(atan2) TCEMU_TWO(copysign) TCEMU_TWO(fdim) TCEMU_TWO(fmax) TCEMU_TWO(fmin) TCEMU_TWO(fmod) TCEMU_TWO(hypot)
TCEMU_TWO(nextafter) TCEMU_TWO(pow) TCEMU_TWO(remainder)
#undef TCEMU_TWO

template <class T> __host__ __device__ inline tcemu::of_integer<T> ldexp(T x, int e) { return ldexp(double(x), e); }
template <class T> __host__ __device__ inline tcemu::of_integer<T> scalbn(T x, int e) { return scalbn(double(x), e); }

// Names rather than macros: a header may begin an enum of its own with FP_NAN.
enum { FP_NAN, FP_INFINITE, FP_ZERO, FP_SUBNORMAL, FP_NORMAL };
namespace tcemu {
template <class T> __host__ __device__ inline int class_of(T x, T least) {
    return isnan(x) ? FP_NAN : isinf(x) ? FP_INFINITE : x == 0 ? FP_ZERO : fabs(x) < least ? FP_SUBNORMAL : FP_NORMAL;
}
}  // namespace tcemu
__host__ __device__ inline int fpclassify(float x) { return tcemu::class_of(x, 0x1p-126f); }
__host__ __device__ inline int fpclassify(double x) { return tcemu::class_of(x, 0x1p-1022); }
TCEMU_ONE_TO(int, fpclassify)
#undef TCEMU_ONE_TO
template <class T> __host__ __device__ inline bool isnormal(T x) { return fpclassify(x) == FP_NORMAL; }
