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
namespace c10 {
using Half = __half;
using BFloat16 = __nv_bfloat16;
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
template <class T> struct OpMathType { using type = T; };
template <> struct OpMathType<Half> { using type = float; };
template <> struct OpMathType<BFloat16> { using type = float; };
template <class T> using opmath_type = typename OpMathType<T>::type;
template <class T, bool is_cuda> using acc_type = opmath_type<T>;
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
using at::PackedTensorAccessor32, at::PackedTensorAccessor64;
template <class T, size_t N, template <class> class Traits = DefaultPtrTraits, class Index = int64_t>
using PackedTensorAccessor = GenericPackedTensorAccessor<T, N, Traits, Index>;
}  // namespace torch
namespace pybind11 {}
template <class T, class Value> C10_DEVICE T gpuAtomicAdd(T* address, Value value) { return atomicAdd(address, T(value)); }
template <class T, class Value> C10_DEVICE void gpuAtomicAddNoReturn(T* address, Value value) { atomicAdd(address, T(value)); }
