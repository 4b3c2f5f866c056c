"""What of a file is left for the device: whole files as people paste them, line by line."""

import re

import pytest

pytest.importorskip("tree_sitter_cuda")

from tcemu.cuda.host_code import Macros, device_side, without_restrict

PASTED = """#include <vector>
#define DEVICE __device__ __forceinline__
DEVICE float twice(float x) { return 2 * x; }
int ceil_div(int a, int b) { return (a + b - 1) / b; }
constexpr int THREADS = 128;
struct Shape { int m, n; };
struct Timer { std::chrono::time_point<int> begin; void stop(); };
Timer timer;
template <int N>
__global__ void __launch_bounds__(THREADS) scale(float *x, Shape shape) {
  x[threadIdx.x] = twice(x[ceil_div(threadIdx.x, N)]);
}
template <int N>
void launch(float *x) {
  scale<N><<<ceil_div(8, N), THREADS>>>(x, Shape{1, 2});
}
void start() { timer.stop(); }
namespace tools {
static cublasHandle_t handle;
__host__ __device__ int both(int a) { return a; }
void report() { printf("%d\\n", both(1)); start(); }
}
extern "C" {
__global__ void plain(int *x) { if (x == nullptr) printf("none"); }
}
int main(int argc, char **argv) {
  launch<4>(nullptr);
  return 0;
}
"""


def test_what_only_a_host_can_run_is_left_out():
    side = device_side(PASTED)
    assert side.left_out == ("Timer", "timer", "launch", "start", "handle", "report", "main")


def test_every_line_keeps_its_number_and_what_stays_is_unchanged():
    before, after = PASTED.splitlines(), device_side(PASTED).text.splitlines()
    assert len(before) == len(after)
    assert all(new in (old, "") or new.strip() == "" for old, new in zip(before, after, strict=True))
    for kept in (2, 3, 4, 5, 8, 9, 10, 19, 23):
        assert after[kept] == before[kept]


def test_a_file_of_kernels_comes_back_as_it_is():
    source = "__device__ int f(int x) { return x; }\n__global__ void k(int *x) { *x = f(1); }\n"
    assert device_side(source).text == source
    assert device_side(source).left_out == ()


def test_a_function_at_whose_line_the_compiler_stumbled_is_left_out_unless_it_is_for_the_device():
    source = "int odd(Unknown x) { return x.size(); }\n__global__ void k(int *x) { *x = nonsense; }\n"
    assert device_side(source, wrong=[1]).left_out == ("odd",)
    assert device_side(source, wrong=[2]).left_out == ()


def test_an_overload_for_the_device_keeps_the_name():
    overloads = "int f(std::vector<int> x) { return 1; }\n__device__ int f(int x) { return x; }\n"
    source = overloads + "int g(int x) { return f(x); }\n"
    assert device_side(source).left_out == ("f",)


@pytest.mark.parametrize("text", ["", "}", "int main(", "#if 1\nvoid f() { exit(1); }", "ünï __global__", "\0"])
def test_any_text_comes_back_with_as_many_lines(text):
    assert device_side(text).text.count("\n") == text.count("\n")


def test_names_of_host_functions_are_not_imported():
    source = """namespace M2 {
void launch(float* x) { f<<<1, 1>>>(x); }
__device__ int kept() { return 1; }
}
using M2::launch;
using M2::kept;
"""
    side = device_side(source)
    assert side.text.splitlines()[1:2] + side.text.splitlines()[4:] == [" " * 41, " " * 17, "using M2::kept;"]
    assert side.left_out == ("launch",)


def test_a_class_for_either_side_keeps_what_a_device_can_use():
    source = """struct Params {
  int n;
  __host__ __device__ int twice() const { return 2 * n; }
  void show() const { std::cout << n; }
};
__global__ void f(Params p, int* x) { *x = p.twice(); }
"""
    lines = device_side(source).text.splitlines()
    assert lines[3].strip() == ""
    assert lines[:3] + lines[4:] == source.splitlines()[:3] + source.splitlines()[4:]


def test_what_names_a_host_function_again_goes_with_it():
    source = """template <class T> void reduce(int n, T* x) { f<<<1, 1>>>(x); }
template void reduce<int>(int n, int* x);
template <class T> __global__ void f(T* x) {}
template __global__ void f<float>(float* x);
extern "C" void start(int* x) { reduce(1, x); }
"""
    side = device_side(source)
    assert [line.strip() for line in side.text.splitlines()] == ["", "", *source.splitlines()[2:4], ""]
    assert side.left_out == ("reduce", "start")


def test_calls_of_macros_for_the_host_are_left_out():
    source = """#define BINDING(name, type, T) \\
  void name(torch::Tensor x) { name##_kernel<<<1, 1>>>((T*)x.data_ptr()); }
#define ADD(T) __device__ T add(T x, T y) { return x + y; }
ADD(float)
__global__ void f32_kernel(float* x) {}
BINDING(f32, torch::kFloat32, float)
BINDING(f16, torch::kHalf,
        (half))
PYBIND11_MODULE(NAME, m) {
  m.def("f32", &f32);
}
"""
    side = device_side(source)
    assert [line.strip() for line in side.text.splitlines()[5:]] == [""] * 6
    assert side.text.splitlines()[:5] == source.splitlines()[:5]
    assert side.left_out == ("BINDING", "PYBIND11_MODULE")


def test_calls_of_macros_that_nobody_defines_are_left_out_where_the_compiler_stumbled():
    source = """__global__ void f(float* x) {}
void f_bench(state& s) { s.exec(f); }
REGISTER(f_bench)
    .set_name("f")
    .add_axis("n", {1, 2});
DEFINE(f)
;
"""
    side = device_side(source, {2, 3})
    assert [line.strip() for line in side.text.splitlines()] == [source.splitlines()[0], *[""] * 4, "DEFINE(f)", ";"]
    assert side.left_out == ("f_bench",)


def test_conditions_inside_what_is_left_out_stay_whole():
    source = """struct Error { int code; };
extern "C"
#if defined(_WIN32) && \\
    !defined(__HIP__)
__declspec(dllexport)
#else
__attribute__((visibility("default")))
#endif
Error start() { return {cudaDeviceSynchronize()}; }
__global__ void f(int* x) { *x = 1; }
"""
    lines = device_side(source).text.splitlines()
    assert [line for line in lines if line.strip().startswith("#")] == ["#if defined(_WIN32) && \\", "#else", "#endif"]
    assert [line.strip() for line in lines[8:]] == ["", "__global__ void f(int* x) { *x = 1; }"]


def test_a_directive_between_a_template_and_its_function_hides_nothing():
    source = """template <int N>  // threads
#if !defined(OTHER)
__launch_bounds__(N)
#endif
static __global__ void f(int* x) { *x = N; }
static void complain(int n) {
    fprintf(stderr, "%d", n);
}
"""
    side = device_side(source)
    assert side.left_out == ("complain",)
    assert side.text.splitlines()[:5] == source.splitlines()[:5]


def test_macros_that_annotate_keep_a_function():
    other = "#define INLINE __device__ __forceinline__\n"
    source = """#define KERNEL(name, ...) \\
template <class T, __VA_ARGS__> \\
__global__ void name(T* x)
KERNEL(f, int N) { *x = std::max(N, g()); }
INLINE int g() { return std::sort(1, 2); }
void h() { std::sort(1, 2); }
"""
    assert device_side(source, {4, 5, 6}, Macros.of(source, other)).left_out == ("h",)
    either = "#define BOTH __host__ __device__\n#define INLINE BOTH __forceinline__\n"
    assert device_side(source, {4, 5, 6}, Macros.of(source, either)).left_out == ("h",)
    assert device_side(source).left_out == ("g", "h")


def test_members_that_only_a_host_has_are_left_out_where_they_are_declared():
    source = """struct Table {
  int* keys;
  int (*hash)(int);
  void insert(std::vector<int> keys);
  std::vector<int>& all();
  __device__ int find(int key) { return keys[key]; }
};
"""
    lines, text = source.splitlines(), device_side(source).text.splitlines()
    assert [each.strip() for each in text[3:5]] == ["", ""]
    assert text[:3] + text[5:] == lines[:3] + lines[5:]


def test_what_the_parser_takes_for_a_name_takes_nothing_along():
    source = """template <class T> struct Two { T value; };
HOST std::ostream& operator<<(std::ostream& os, Two<int> const&) { return os; }
struct One { int value() const noexcept { return 1; } bool operator()(One const&) const { return true; } };
__global__ void f(Two<const int>* x) { x->value; }
"""
    lines, text = source.splitlines(), device_side(source).text.splitlines()
    assert text[1].strip() == ""
    assert text[:1] + text[2:] == lines[:1] + lines[2:]


def test_restrict_goes_where_it_stands_behind_no_pointer():
    source = (
        "void f(half __restrict__ (*a)[4], int __restrict__ b[][4], int* __restrict__ c, int* const __restrict__ d)"
    )
    bare, files = without_restrict(source, {"a.h": ("/a.h", source)})
    assert re.sub(" +", " ", bare) == "void f(half (*a)[4], int b[][4], int* __restrict__ c, int* const __restrict__ d)"
    assert files == {"a.h": ("/a.h", bare)}
    assert len(bare) == len(source)


def test_a_macro_annotates_no_function_behind_it():
    source = "#define DEVICE __device__\n\nint devices() { return cudaGetDeviceCount(0); }\n"
    assert device_side(source).left_out == ("devices",)


def test_comments_and_strings_are_no_code():
    source = """struct Params {  // what at::PhiloxCudaState holds; see std::vector
    int n; /* exit(1) */
};
inline int f(int n) { check(n, "no std::string // here"); return n; }
int g() { exit(1); }  // __device__
"""
    assert device_side(source).left_out == ("g",)


def test_macros_of_other_files_make_host_code_and_pragmas():
    other = """#define START(T) template void start<T>(T* x, cudaStream_t stream)
#define ATOMIC(T) __device__ T add(T x) { return at::Half(x); }
#define UNROLL #pragma unroll
"""
    source = """START(int);
ATOMIC(float)
__global__ void f(int* x) {
  UNROLL 4
  for (int i = 0; i < UNROLLED; i++) x[i] = 0;
}
"""
    lines = device_side(source, macros=Macros.of(source, other)).text.splitlines()
    assert lines[0].strip() == ""
    assert lines[3] == "  #pragma unroll 4"
    assert lines[1:3] + lines[4:] == source.splitlines()[1:3] + source.splitlines()[4:]


def test_a_constant_at_whose_line_the_compiler_stumbled_may_be_for_the_host():
    source = """constexpr auto table = std::array{f<1>, f<2>};
constexpr int odd(int n) { return n.size(); }
__device__ constexpr int m = 1;
"""
    assert device_side(source, wrong=[1, 2, 3]).left_out == ("table",)


def test_constants_computed_by_the_host_may_be_used_by_a_kernel():
    source = """__host__ static consteval int f() { return 1; }
constexpr __host__ int g() { return 1; }
__host__ __device__ constexpr int h() { return 1; }
"""
    expected = source.replace("__host__ static", "         static").replace("__host__ int", "         int")
    assert device_side(source).text == expected


def test_conditions_inside_a_kernel_do_not_hide_what_follows_it():
    source = """namespace tools {
template <class T, class... More>
__launch_bounds__((A + B) * 32, 1)
__cluster_dims__(size<T>)
__global__ void kernel(
#ifdef WIDE
    long n
#else
    int n
#endif
) {
    State state{
        0,
#ifdef TIMED
        &timings[0], std::cout,
#endif
        nullptr
    };
#ifdef WIDE
    if (n > 1) {
#else
    if (n > 2) {
#endif
        n = '{';
    }
}
template <class T, class... More>
__host__ void run(T &x) {
    kernel<T, More...><<<1, 1>>>(x);
}
}
"""
    side = device_side(source)
    assert side.left_out == ("run",)
    lines, before = side.text.splitlines(), source.splitlines()
    assert [each.strip() for each in lines[26:30]] == [""] * 4
    assert lines[:26] + lines[30:] == before[:26] + before[30:]
