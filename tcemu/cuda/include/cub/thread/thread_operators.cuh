// CUB's operators, with those that CUDA 13 has no more, which kernels written for CUDA 12 name.
#pragma once
#include_next <cub/thread/thread_operators.cuh>
#if CCCL_MAJOR_VERSION >= 3
CUB_NAMESPACE_BEGIN
using Sum = ::cuda::std::plus<>;
using Difference = ::cuda::std::minus<>;
using Division = ::cuda::std::divides<>;
using Equality = ::cuda::std::equal_to<>;
using Inequality = ::cuda::std::not_equal_to<>;
using Max = ::cuda::maximum<>;
using Min = ::cuda::minimum<>;
CUB_NAMESPACE_END
#endif
