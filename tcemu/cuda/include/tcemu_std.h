// What g++'s headers bring along: a source that uses std::conditional without <type_traits> compiles with nvcc.
#pragma once
#include <cuda/std/array>
#include <functional>
#include <cuda/std/limits>
#include <cuda/std/tuple>
#include <cuda/std/type_traits>
#include <cuda/std/utility>
namespace std {
using namespace cuda::std;
}
