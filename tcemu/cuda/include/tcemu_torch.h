// What kernels in an extension of PyTorch use of its headers; everything else there is for the host.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <tuple>
#ifndef C10_HOST_DEVICE
#define C10_DEVICE __device__
#define C10_HOST __host__
#define C10_HOST_DEVICE __host__ __device__
#define C10_LAUNCH_BOUNDS_1(threads) __launch_bounds__(threads)
#define C10_LAUNCH_BOUNDS_2(threads, blocks) __launch_bounds__(threads, blocks)
#define C10_WARP_SIZE 32
#define WARP_SHFL(value, lane) __shfl_sync(0xffffffff, value, lane)
#define WARP_SHFL_XOR(value, mask) __shfl_xor_sync(0xffffffff, value, mask)
#define WARP_SHFL_DOWN(value, delta) __shfl_down_sync(0xffffffff, value, delta)
#define CUDA_KERNEL_LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); i += blockDim.x * gridDim.x)
#endif
// PyTorch's own numbers: each operation is one of floats, rounded; beside another number, a Half takes its type.
#define TCEMU_NUMBER(Name, Native, to_float, of_float)                                                       \
    struct alignas(2) Name {                                                                                 \
        unsigned short x;                                                                                    \
        struct from_bits_t {};                                                                               \
        C10_HOST_DEVICE static constexpr from_bits_t from_bits() { return {}; }                              \
        Name() = default;                                                                                    \
        C10_HOST_DEVICE constexpr Name(unsigned short bits, from_bits_t) : x(bits) {}                        \
        C10_HOST_DEVICE Name(float value) : Name(of_float(value)) {}                                         \
        C10_HOST_DEVICE Name(const Native& value) : x(__builtin_bit_cast(unsigned short, value)) {}          \
        C10_HOST_DEVICE operator float() const { return to_float(__builtin_bit_cast(Native, x)); }           \
        C10_HOST_DEVICE operator Native() const { return __builtin_bit_cast(Native, x); }                    \
        C10_HOST_DEVICE Name operator-() const { return -float(*this); }                                     \
    };                                                                                                       \
    TCEMU_OPERATOR(Name, +) TCEMU_OPERATOR(Name, -) TCEMU_OPERATOR(Name, *) TCEMU_OPERATOR(Name, /)          \
    TCEMU_COMPARED(Name, ==) TCEMU_COMPARED(Name, !=) TCEMU_COMPARED(Name, <) TCEMU_COMPARED(Name, <=)       \
    TCEMU_COMPARED(Name, >) TCEMU_COMPARED(Name, >=)
#define TCEMU_COMPARED(Name, op)                                                                             \
    C10_HOST_DEVICE inline bool operator op(Name a, Name b) { return float(a) op float(b); }
#define TCEMU_BESIDE(Name, op, Other, Result)                                                                \
    C10_HOST_DEVICE inline Result operator op(Name a, Other b) { return float(a) op Result(b); }             \
    C10_HOST_DEVICE inline Result operator op(Other a, Name b) { return Result(a) op float(b); }
#define TCEMU_OPERATOR(Name, op)                                                                             \
    C10_HOST_DEVICE inline Name operator op(Name a, Name b) { return float(a) op float(b); }                 \
    TCEMU_BESIDE(Name, op, float, float) TCEMU_BESIDE(Name, op, double, double)                              \
    TCEMU_WHOLE(Name, op, int) TCEMU_WHOLE(Name, op, long) TCEMU_WHOLE(Name, op, long long)                  \
    C10_HOST_DEVICE inline Name& operator op##=(Name& a, Name b) { return a = a op b; }                      \
    C10_HOST_DEVICE inline float& operator op##=(float& a, Name b) { return a = a op float(b); }
#define TCEMU_WHOLE(Name, op, Other)                                                                         \
    C10_HOST_DEVICE inline Name operator op(Name a, Other b) { return a op Name(float(b)); }                 \
    C10_HOST_DEVICE inline Name operator op(Other a, Name b) { return Name(float(a)) op b; }
namespace c10 {
TCEMU_NUMBER(Half, __half, __half2float, __float2half_rn)
TCEMU_NUMBER(BFloat16, __nv_bfloat16, __bfloat162float, __float2bfloat16_rn)
C10_DEVICE inline Half __ldg(const Half* address) { return ::__ldg(reinterpret_cast<const __half*>(address)); }
C10_DEVICE inline BFloat16 __ldg(const BFloat16* address) {
    return ::__ldg(reinterpret_cast<const __nv_bfloat16*>(address));
}
#undef TCEMU_NUMBER
#undef TCEMU_COMPARED
#undef TCEMU_BESIDE
#undef TCEMU_OPERATOR
#undef TCEMU_WHOLE
template <class T> struct alignas(2 * sizeof(T)) complex {
    T real_ = T(0), imag_ = T(0);
    constexpr complex() = default;
    C10_HOST_DEVICE constexpr complex(T real, T imag = T(0)) : real_(real), imag_(imag) {}
    C10_HOST_DEVICE constexpr T real() const { return real_; }
    C10_HOST_DEVICE constexpr T imag() const { return imag_; }
    C10_HOST_DEVICE friend constexpr complex operator+(complex a, complex b) {
        return {a.real_ + b.real_, a.imag_ + b.imag_};
    }
    C10_HOST_DEVICE friend constexpr complex operator-(complex a, complex b) {
        return {a.real_ - b.real_, a.imag_ - b.imag_};
    }
    C10_HOST_DEVICE friend constexpr complex operator*(complex a, complex b) {
        return {a.real_ * b.real_ - a.imag_ * b.imag_, a.real_ * b.imag_ + a.imag_ * b.real_};
    }
    C10_HOST_DEVICE constexpr complex operator-() const { return {-real_, -imag_}; }
    C10_HOST_DEVICE constexpr complex& operator+=(complex other) { return *this = *this + other; }
    C10_HOST_DEVICE constexpr complex& operator*=(complex other) { return *this = *this * other; }
};
}  // namespace c10
namespace at {
using c10::Half, c10::BFloat16;
template <class T> struct DefaultPtrTraits { using PtrType = T*; };
template <class T> struct RestrictPtrTraits { using PtrType = T* __restrict__; };
/// Elements of a tensor, whose sizes and strides lie elsewhere.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t> struct TensorAccessor {
    using PtrType = typename Traits<T>::PtrType;
    PtrType data_;
    const Index *sizes_, *strides_;
    C10_HOST_DEVICE TensorAccessor(PtrType data, const Index* sizes, const Index* strides)
        : data_(data), sizes_(sizes), strides_(strides) {}
    C10_HOST_DEVICE Index size(Index i) const { return sizes_[i]; }
    C10_HOST_DEVICE Index stride(Index i) const { return strides_[i]; }
    C10_HOST_DEVICE PtrType data() const { return data_; }
    C10_HOST_DEVICE decltype(auto) operator[](Index i) const {
        if constexpr (N == 1) return (data_[strides_[0] * i]);
        else return TensorAccessor<T, N - 1, Traits, Index>(data_ + strides_[0] * i, sizes_ + 1, strides_ + 1);
    }
};
/// The same with its sizes and strides, as a kernel's argument.
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
struct GenericPackedTensorAccessor {
    using PtrType = typename Traits<T>::PtrType;
    PtrType data_;
    Index sizes_[N], strides_[N];
    C10_HOST_DEVICE Index size(Index i) const { return sizes_[i]; }
    C10_HOST_DEVICE Index stride(Index i) const { return strides_[i]; }
    C10_HOST_DEVICE PtrType data() const { return data_; }
    C10_HOST_DEVICE decltype(auto) operator[](Index i) const {
        return TensorAccessor<T, N, Traits, Index>(data_, sizes_, strides_)[i];
    }
};
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor32 = GenericPackedTensorAccessor<T, N, Traits, int32_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits>
using PackedTensorAccessor64 = GenericPackedTensorAccessor<T, N, Traits, int64_t>;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, Index>;
template <class T> struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <class T> using opmath_type = typename OpMathType<T>::type;
template <class T, bool is_cuda> using acc_type = opmath_type<T>;
namespace cuda::detail {
template <class T, class Index> struct TensorInfo {  // a tensor of as many dimensions as there may be
    T* data;
    Index sizes[25], strides[25];
    int dims;
};
template <class T, class Index, int Dims> struct IndexToOffset {
    static C10_HOST_DEVICE Index get(Index index, const TensorInfo<T, Index>& info) {
        Index offset = 0;
        for (int each = (Dims < 0 ? info.dims : Dims) - 1; each > 0; --each) {
            offset += index % info.sizes[each] * info.strides[each];
            index /= info.sizes[each];
        }
        return offset + index * info.strides[0];
    }
};
}  // namespace cuda::detail
struct PhiloxCudaState {  // of the random numbers of a launch; while a graph is captured, seed and offset are pointers
    union Number {
        uint64_t val;
        int64_t* ptr;
    };
    Number seed_, offset_;
    uint64_t offset_intragraph_;
    bool captured_;
};
namespace cuda::philox {
C10_DEVICE inline std::tuple<uint64_t, uint64_t> unpack(PhiloxCudaState state) {
    if (!state.captured_) return {state.seed_.val, state.offset_.val};
    return {uint64_t(*state.seed_.ptr), uint64_t(*state.offset_.ptr) + state.offset_intragraph_};
}
}  // namespace cuda::philox
}  // namespace at
namespace torch {
using c10::Half, c10::BFloat16;
using at::DefaultPtrTraits, at::RestrictPtrTraits, at::TensorAccessor, at::GenericPackedTensorAccessor;
using at::PackedTensorAccessor, at::PackedTensorAccessor32, at::PackedTensorAccessor64;
}  // namespace torch
namespace pybind11 {}
// An atomicAdd of PyTorch's numbers is one of CUDA's. Templates give way to a kernel's own.
template <int = 0> C10_DEVICE inline c10::Half atomicAdd(c10::Half* address, c10::Half value) {
    return atomicAdd(reinterpret_cast<__half*>(address), __half(value));
}
template <int = 0> C10_DEVICE inline c10::BFloat16 atomicAdd(c10::BFloat16* address, c10::BFloat16 value) {
    return atomicAdd(reinterpret_cast<__nv_bfloat16*>(address), __nv_bfloat16(value));
}
template <class T, class Value> C10_DEVICE T gpuAtomicAdd(T* address, Value value) { return atomicAdd(address, T(value)); }
template <class T, class Value> C10_DEVICE void gpuAtomicAddNoReturn(T* address, Value value) { atomicAdd(address, T(value)); }
