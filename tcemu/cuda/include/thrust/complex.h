// Thrust's own has streams, which only a host has; it computes the same.
#pragma once
#include <cuda/std/complex>
namespace thrust {
using cuda::std::abs, cuda::std::arg, cuda::std::complex, cuda::std::conj, cuda::std::norm, cuda::std::polar;
using cuda::std::exp, cuda::std::log, cuda::std::pow, cuda::std::sqrt, cuda::std::sin, cuda::std::cos, cuda::std::tan;
}  // namespace thrust
