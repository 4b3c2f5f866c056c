"""CUDA C++ through NVRTC: kernels by name, templates, variables, headers, host code, messages, a compiler that dies."""

import linecache

import ml_dtypes
import numpy as np
import pytest

import tcemu
from tcemu import cuda
from tcemu.child import Child
from tcemu.cuda import compiler, toolkit
from tcemu.cuda.module import dialect_in_words
from tcemu.errors import (
    CompilationError,
    Interrupted,
    LaunchError,
    MissingPackage,
    OperandError,
    TargetError,
    UnknownKey,
)

pytestmark = pytest.mark.usefixtures("nvrtc")

SCALE = """__global__ void scale(float* x, float k, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= k;
}
"""


def test_a_kernel_by_name():
    module = cuda.compile(SCALE, name="scale.cu")
    scale = module["scale"]
    assert repr(scale) == "<kernel scale(float* x, float k, int n) for sm_90a>"
    assert repr(module) == "<scale.cu for sm_90a:\n    kernel scale(float* x, float k, int n)>"
    assert (module.kernels, list(module), "scale" in module, "x" in module) == (("scale",), ["scale"], True, False)
    assert module["scale"] is module["_Z5scalePffi"] is module["scale(float*, float, int)"] is scale
    x = np.arange(64, dtype=np.float32)
    assert scale[2, 32](x, 2.0, 50).target == "sm_90a"
    assert np.array_equal(x, np.arange(64) * np.where(np.arange(64) < 50, 2, 1))
    scale(2, 32, x, 0.5, 50, seed=3)
    assert np.array_equal(x, np.arange(64))
    assert cuda.compile(SCALE, "sm_80", name="scale.cu")["scale"](2, 32, x, 2, 1).target == "sm_80"


def test_templates_are_instantiated_on_demand():
    source = """
    namespace tools {
    template <int N, class T> __global__ void __launch_bounds__(128) add(T* x, T y) { x[threadIdx.x] += N + y; }
    }
    __constant__ float one[1] = {1};
    template <class S, class T> __global__ static __launch_bounds__(decltype(size(S{}))::value) void sized(T* x) {}
    template <typename T> __global__ void plus(T* x) { x[threadIdx.x] += one[0]; }
    template __global__ void plus<double>(double* x);
    """
    module = cuda.compile(source)
    assert (module.kernels, module.templates) == (("plus<double>",), ("add", "sized", "plus"))
    x, y = np.zeros(32, np.float32), np.zeros(32, np.int32)
    module["plus<float>"][1, 32](x)
    module["one"] = 5
    module["plus<float>"][1, 32](x)
    module["tools::add<3, int>"][1, 32](y, 4)
    assert (x == 6).all()  # instantiations share the module's variables
    assert (y == 7).all()
    assert repr(module["tools::add<3, int>"]) == "<kernel tools::add<3, int>(int* x, int y) for sm_90a>"
    assert module["plus"] is module["plus<double>"]
    with pytest.raises(
        UnknownKey,
        match=r"add<3> is no instantiation of the template add, template <int N, class T>: .* namespace is missing",
    ):
        module["add<3>"]


def test_what_only_templates_use_is_used_and_auto_makes_one():
    module = cuda.compile("""
    static __device__ int used(int x) { return x + 1; }
    static __device__ int unused(int x) { return x; }
    template <typename T> __global__ void f(T* x) { *x = used(*x); }
    __global__ void g(auto* x, const auto y) { *x = y; }""")
    assert [each.line for each in module.warnings] == [3]
    assert module.templates == ("f", "g")
    assert repr(module).endswith(" for sm_90a:\n    template f<...>\n    template g<...>>")
    x = np.zeros(1, np.int32)
    module["g<int, int>"][1, 1](x, 5)
    assert x == 5


def test_printf_returns_how_many_values_it_prints(capsys):
    """As an H200 does."""
    source = r"""__global__ void f(int* x) {
        x[0] = printf("%d %*d\n", 1, 4, 2), x[1] = printf("plain\n");
        x[2] = printf(nullptr), x[3] = printf("%d %d\n", 1, 2);
    }"""
    x = np.zeros(4, np.int32)
    cuda.compile(source)["f"][1, 1](x)
    assert capsys.readouterr().out == "1    2\nplain\n1 2\n"
    assert x.tolist() == [3, 0, -1, 2]


def test_an_interrupt_ends_the_compilers_process(monkeypatch):
    def interrupted(seconds):
        raise KeyboardInterrupt

    compiler.version()
    monkeypatch.setattr(compiler._held[1], "next", interrupted)
    with pytest.raises(Interrupted, match=r"the compilation was interrupted\. Your session continues"):
        cuda.compile("__global__ void interrupted() {}")
    assert cuda.compile("__global__ void interrupted() {}").kernels == ("interrupted",)


def test_the_parts_of_vectors_in_variables_are_a_dimension():
    module = cuda.compile("""
    __device__ float2 pairs[3]; __constant__ float4 one; __constant__ int3 rows[] = {{1, 2, 3}, {4, 5, 6}};
    __global__ void f(float* x) { *x = pairs[1].y + one.w + rows[1].z; }""")
    module["pairs"], module["one"], x = [[1, 2], [3, 4], [5, 6]], (1, 2, 3, 4), np.zeros(1, np.float32)
    module["f"][1, 1](x)
    assert (x[0], module["rows"].shape, module["pairs"].dtype) == (14, (2, 3), np.float32)


def test_managed_variables_have_their_type_and_tables_of_classes_are_none():
    module = tcemu.cuda.compile("""
    __managed__ float first[4];
    __device__ __managed__ short second[2][3];
    struct Shape { __device__ virtual ~Shape() {} virtual __device__ float area() const = 0; };
    struct Square : Shape {
        float side;
        __device__ Square(float side) : side(side) {}
        __device__ float area() const override { return side * side; }
    };
    __global__ void k(float side) { Shape* shape = new Square(side); first[1] = shape->area(); second[1][2] = 7; }
    """)
    assert module.variables == ("first", "second")
    module["k"][1, 1](3.0)
    assert module["first"].tolist() == [0, 9, 0, 0]
    assert (module["second"].dtype, module["second"].tolist()) == (np.int16, [[0, 0, 0], [0, 0, 7]])


def test_a_long_double_is_a_double():
    kernel = tcemu.cuda.compile("__global__ void k(long double* x, long double y) { x[0] += y; }")["k"]
    x = np.ones(1)
    kernel(1, 1, x, 0.25)
    assert x == 1.25
    wide = np.ones(1, np.longdouble)
    if wide.itemsize > x.itemsize:
        with pytest.raises(OperandError, match=r"points to elements of long double, np\.float64; got an array of"):
            kernel(1, 1, wide, 0.25)


def test_variables_keep_their_content():
    source = """
    __constant__ float table[2][3] = {{1, 2, 3}, {4}};
    __device__ int counter;  __device__ unsigned long long big = 5;  __device__ float grid[4];
    namespace inner { __device__ short s[2] = {-1, 7}; }
    __global__ void count() {
        atomicAdd(&counter, 1);
        if (blockIdx.x + threadIdx.x == 0) big += inner::s[1], grid[3] = table[1][0];
    }
    """
    module = cuda.compile(source)
    assert np.array_equal(module["table"], np.array([[1, 2, 3], [4, 0, 0]], np.float32))
    assert (module["big"].dtype, module["big"], module["counter"]) == (np.uint64, 5, 0)
    assert module["inner::s"].dtype == np.int16
    module["table"][1, 0] = 9
    for _ in range(2):
        module["count"][2, 32]()
    assert (module["counter"], module["counter"].dtype, module["grid"][3]) == (128, np.int32, 9)
    assert module["big"] == 19
    module["counter"] = -4
    module["count"][1, 1]()
    assert module["counter"] == -3
    with pytest.raises(OperandError, match=r"table takes values of shape \(2, 3\), float32; got \[1, 2\]"):
        module["table"] = [1, 2]
    with pytest.raises(UnknownKey, match=r"no kernel or variable 'tables'\. Did you mean 'table'"):
        module["tables"] = 3


def test_what_cub_reads_and_does_not_use_is_a_hint():
    source = """#include <cub/warp/warp_merge_sort.cuh>
    struct Less { __device__ bool operator()(int a, int b) const { return a < b; } };
    __global__ void sort(int* x) {
        using Sort = cub::WarpMergeSort<int, 4, 32>;
        __shared__ Sort::TempStorage storage;
        int items[4] = {x[threadIdx.x], x[32 + threadIdx.x], x[64 + threadIdx.x], x[96 + threadIdx.x]};
        Sort(storage).Sort(items, Less());
        for (int i = 0; i < 4; i++) x[4 * threadIdx.x + i] = items[i];
    }"""
    x = np.random.default_rng(46).integers(-100, 100, 128).astype(np.int32)
    expected = np.sort(x)
    reports = cuda.compile(source)["sort"][1, 32](x).reports
    assert np.array_equal(x, expected)
    assert {(each.rule, each.severity) for each in reports} == {("uninitialised-shared", "hint")}
    assert "which CUB does not use: as its documentation says, it may read one item more" in str(reports[0])


def test_comments_in_another_encoding(tmp_path):
    file = tmp_path / "old.cu"
    file.write_bytes("__global__ void f(int* x) { *x = 1; }  // Größe".encode("latin-1"))
    assert cuda.compile(file).kernels == ("f",)


def test_a_template_is_no_kernel():
    module = cuda.compile("template <typename T> __global__ void f(T* x) { *x = 1; }")
    with pytest.raises(UnknownKey, match=r"f is a template: f<\.\.\.>, with its arguments, is a kernel"):
        module["f"]


def test_what_kernels_use_of_pytorch():
    source = """#include <ATen/cuda/CUDAContext.h>
    #include <pybind11/pybind11.h>
    namespace py = pybind11;
    __global__ void f(const unsigned long long* state, unsigned long long* out, at::Half* sum) {
        auto seed = at::cuda::philox::unpack(*reinterpret_cast<const at::PhiloxCudaState*>(state));
        out[0] = std::get<0>(seed), out[1] = std::get<1>(seed);
        gpuAtomicAdd(sum, 1.5f);
    }"""
    out, total = np.zeros(2, np.uint64), np.zeros(1, np.float16)
    cuda.compile(source)["f"][1, 1](np.array([5, 6, 7, 0], np.uint64), out, total)
    assert (out.tolist(), total) == ([5, 6], 1.5)


def test_structs_and_tensor_maps():
    source = """#include <cuda.h>
    struct Inner { char tag; int* out; };
    struct Params { short n; Inner inner[2]; float scale; };
    __global__ void f(Params p) { p.inner[1].out[threadIdx.x] = p.n + p.inner[0].tag + __float_as_int(p.scale); }
    __global__ void g(const __grid_constant__ CUtensorMap map, const CUtensorMap* there, unsigned long long* out) {
        for (int i = 0; i < 16; i++) out[i] = map.opaque[i], out[16 + i] = there->opaque[i];
    }"""
    module = cuda.compile(source)
    a, b = np.zeros(4, np.int32), np.zeros(4, np.int32)
    inner = [cuda.struct("Inner", tag=np.int8(t), out=x) for t, x in ((3, a), (4, b))]
    module["f"][1, 4](cuda.struct("Params", n=np.int16(5), inner=inner, scale=np.float32(2)))
    assert (a == 0).all()
    assert (b == 8 + np.float32(2).view(np.int32)).all()
    words, matrix = np.zeros(32, np.uint64), np.zeros((16, 64), np.float16)
    mapped = tcemu.tensor_map(matrix, (64, 8), swizzle=128)
    module["g"][1, 1](mapped, mapped, words)
    assert np.array_equal(words[:16], words[16:])
    assert words[0] % 256 == 0 != words[1]


def test_what_nvcc_knows_without_a_header():
    source = """#include <cstdint>
    #include <iostream>
    #include <cuda_runtime.h>
    #include <cmath>
    #include <cassert>
    void print(FILE* to, float x);
    __device__ float lowest = -INFINITY, most = FLT_MAX, tick = 1.0f / CLOCKS_PER_SEC;
    __global__ void f(uint32_t* x, size_t n) {
        assert(n > 0);
        x[0] = std::max(1, 2) + std::min(7u, 5u) + (INT_MAX == 2147483647) + isnan(NAN) + sizeof(std::int64_t);
        x[1] = __float_as_uint(std::sqrt(16.f) + std::fmaxf(-3.f, std::abs(-3.f))) + int(M_PI);
    }"""
    x = np.zeros(2, np.uint32)
    cuda.compile(source)["f"][1, 1](x, 2)
    assert x.tolist() == [17, np.float32(7).view(np.uint32) + 3]


def test_functions_of_integers_are_those_of_doubles():
    """As with nvcc: [cmath.syn] of the standard. NVRTC alone finds sqrt(int) ambiguous."""
    source = """
    __global__ void of(double* y, int n, long l, unsigned char c, bool b, float f, double d) {
        static_assert(sizeof(sqrt(n)) == 8 && sizeof(std::exp(c)) == 8 && sizeof(log2(b)) == 8);
        static_assert(sizeof(floor(l)) == 8);
        static_assert(sizeof(sqrt(f)) == 4 && sizeof(pow(f, f)) == 4 && sizeof(std::fmin(f, f)) == 4);
        static_assert(sizeof(pow(n, f)) == 8 && sizeof(fmod(f, n)) == 8 && sizeof(atan2(f, d)) == 8);
        static_assert(sizeof(ilogb(n)) == 4 && sizeof(isnan(n)) == 1 && sizeof(ldexp(n, 2)) == 8);
        y[0] = sqrt(n), y[1] = pow(2, n), y[2] = std::log2(l), y[3] = fmax(n, c), y[4] = std::hypot(f, n);
        y[5] = lround(n), y[6] = FLT_MAX, y[7] = DBL_MIN;
    }"""
    module = cuda.compile(source)
    assert not module.warnings
    y = np.zeros(8)
    module["of"](1, 1, y, 9, 1 << 30, 200, True, 12, 0.0)
    limits = np.finfo(np.float32).max, np.finfo(np.float64).tiny
    assert y.tolist() == [3, 512, 30, 200, 15, 9, *map(float, limits)]


def test_kinds_of_numbers_have_their_names_also_for_who_declares_them_again():
    """C's <math.h> has FP_NAN and its like. CUTLASS uses them in one header before another makes macros of them."""
    source = """
    static_assert(FP_NAN == 0 && FP_INFINITE == 1 && FP_ZERO == 2 && FP_SUBNORMAL == 3 && FP_NORMAL == 4);
    namespace own {
    __device__ int kind(float x) { return isnan(x) ? FP_NAN : FP_NORMAL; }
    enum { FP_NAN =
    # define FP_NAN 0
    FP_NAN };
    }
    __global__ void f(float* x, int* of) {
        of[threadIdx.x] = fpclassify(x[threadIdx.x]) + 10 * std::isnormal(x[threadIdx.x]) + 100 * std::fpclassify(3);
        x[threadIdx.x] = own::kind(x[threadIdx.x]);
    }"""
    x, of = np.array([np.nan, -np.inf, -0.0, 1e-40, -1e-37], np.float32), np.zeros(5, np.int32)
    cuda.compile(source)["f"][1, 5](x, of)
    assert x.tolist() == [0, 4, 4, 4, 4]
    assert of.tolist() == [400, 401, 402, 403, 414]


def test_types_that_kernels_take_from_libraries_of_the_host():
    source = """#include <cufft.h>
#include <torch/extension.h>
using number = at::Half;
__global__ void scale(cufftComplex* x, number* y) { x->x *= 2, x->y = *y; }
"""
    x, y = np.ones(2, np.float32), np.full(1, 3, np.float16)
    cuda.compile(source)["scale"](1, 1, x, y)
    assert x.tolist() == [2, 3]


def test_parameters_may_hold_the_stream_of_the_launch():
    source = """struct Params { int n; cudaStream_t stream; float scale; };
void run(Params params, cudaStream_t stream) { fill<<<1, 1, 0, stream>>>(params, nullptr); }
__global__ void fill(Params params, float* x) { *x = params.n * params.scale; }
"""
    module, x = cuda.compile(source), np.zeros(1, np.float32)
    module["fill"](1, 1, cuda.struct("Params", n=np.int32(3), stream=None, scale=np.float32(0.5)), x)
    assert (x[0], module.left_out) == (1.5, ("run",))


def test_narrowing_is_a_warning_as_with_nvcc():
    source = """struct Place { int x; __device__ Place(int x) : x(x) {} };
__global__ void k(int* y) { Place here = {blockIdx.x}; *y = here.x; }
"""
    module = cuda.compile(source)
    assert [each.line for each in module.warnings] == [2]
    assert "k" in module


def test_a_file_may_end_in_cc_and_include_what_cuda_fp16_h_includes(tmp_path):
    path = tmp_path / "fill.cu.cc"
    path.write_text(
        "#include <cuda_fp16.h>\n#include <cuda_fp16.hpp>\n__global__ void fill(half* x) { *x = __float2half(1.5f); }\n"
    )
    x = np.zeros(1, np.float16)
    cuda.compile(str(path))["fill"](1, 1, x)
    assert x[0] == 1.5


def test_overloads_are_called_with_their_types():
    source = """
    __global__ void f(int* x) { *x = 1; }
    __global__ void f(float* x) { *x = 2; }
    __global__ void g(float* x) { *x = 3; }"""
    module, x = cuda.compile(source, name="overloads.cu"), np.zeros(1, np.float32)
    assert module.kernels == ("f(int*)", "f(float*)", "g")
    assert repr(module).splitlines()[1:] == [
        f"    kernel {name}" for name in ("f(int* x)", "f(float* x)", "g(float* x)>")
    ]
    module["f(float*)"][1, 1](x)
    assert x == 2
    with pytest.raises(UnknownKey, match=r"2 kernels are called f: f\(int\*\) or f\(float\*\)"):
        module["f"]


def test_a_long_header_for_the_host_goes_whole(tmp_path):
    """The compiler stops at 100 errors: it would take as many goes as the header has hundreds."""
    window = ["#define OF(x) \\", " x /* pixels", "#if */", *(f"void draw{n}(Window* window{n});" for n in range(3000))]
    (tmp_path / "window.h").write_text("\n".join(window))
    (tmp_path / "show.h").write_text('#include "window.h"\nstruct Picture { Window* w; };\n#define SIDE 4\n')
    file = tmp_path / "picture.cu"
    file.write_text('#include "show.h"\n__global__ void fill(int* x) { x[threadIdx.x] = OF(SIDE); }\n')
    x = np.zeros(4, np.int32)
    cuda.compile(file)["fill"][1, 4](x)
    assert (x == 4).all()


@pytest.mark.parametrize(
    "source",
    [
        "template <class T> concept Four = sizeof(T) == 4; template <Four T> __device__ T one(T x) { return x / x; }",
        "template <class T> requires (sizeof(T) == 4) __device__ T one(T x) { return x / x; }",
        "__device__ int one(auto x) { return [=]<int N>() { return x / x + N; }.template operator()<0>(); }",
        "struct P { int a, b; }; __device__ int one(int x) { return P{.b = x / x}.b; }",
        "struct P { int a; }; template <P p> __device__ int of() { return p.a; } #define one(x) of<P{1}>()",
    ],
)
def test_cpp20_need_not_be_asked_for(source):
    source = source.replace("#define", "\n#define") + "\n__global__ void f(int* x) { *x = one(7); }"
    x = np.zeros(1, np.int32)
    module = cuda.compile(source)
    module["f"][1, 1](x)
    assert x == 1
    assert dialect_in_words(module) == "this is C++20, which nvcc compiles with -std=c++20"
    asked = cuda.compile(source, options="-std=c++20")
    assert not dialect_in_words(asked)
    with pytest.raises(CompilationError):
        cuda.compile(source, options="-std=c++17")


def test_what_is_neither_is_told_once():
    with pytest.raises(CompilationError, match=r'^mine.cu:1: identifier "z" is undefined') as caught:
        cuda.compile("__global__ void f(int* x) { *x = z; }", name="mine.cu")
    assert str(caught.value).count("undefined") == 1
    newer = "struct P { int a, b; };\n__global__ void f(int* x) { P p{.b = 1}; *x = z + p.b; }"
    with pytest.raises(CompilationError, match=r'^mine.cu:2: identifier "z" is undefined'):
        cuda.compile(newer, name="mine.cu")


def test_errors_in_host_code_do_not_hide_those_of_the_kernel(tmp_path):
    (tmp_path / "gui.h").write_text("Handle open(Handle);\n#include <no/such/gui.h>\n")
    file = tmp_path / "k.cu"
    file.write_text('#include "gui.h"\n__global__ void f(int* x) { *x = lost; }\nint main() { show::all(); }\n')
    with pytest.raises(CompilationError, match=r'^\S*k.cu:2: identifier "lost" is undefined') as caught:
        cuda.compile(file)
    assert [line.split(": ")[1] for line in str(caught.value).splitlines() if line.startswith(str(tmp_path))] == [
        'identifier "lost" is undefined',
        'cannot open source file "no/such/gui.h"',
    ]
    assert str(caught.value).endswith(
        "no/such/gui.h is none of CUDA's headers; include=[FOLDER] adds a folder (in a cell: %%cuda -I FOLDER)"
    )


def test_a_template_in_a_header_that_does_not_exist(tmp_path):
    (tmp_path / "deep.cuh").write_text("namespace deep { template <int N> __global__ void fill(int* x) { *x = N; } }\n")
    file = tmp_path / "k.cu"
    file.write_text('#include "deep.cuh"\n__global__ void f() {}\n')
    module, x = cuda.compile(file), np.zeros(1, np.int32)
    module["deep::fill<5>"][1, 1](x)
    assert x == 5
    with pytest.raises(
        UnknownKey, match=r"has no kernel or variable 'fill<5>'.* The compiler says: identifier \"fill\" is"
    ):
        module["fill<5>"]


@pytest.mark.slow
def test_headers_of_cuda():
    source = """#include <cooperative_groups.h>
    #include <cuda/barrier>
    #include <cublas_v2.h>
    #include <cub/cub.cuh>
    using Barrier = cuda::barrier<cuda::thread_scope_block>;
    __device__ int total;
    __global__ void sum(int* x, __nv_bfloat16* one) {
        using Reduce = cub::BlockReduce<int, 64>;
        __shared__ typename Reduce::TempStorage storage;
        __shared__ Barrier barrier;
        auto block = cooperative_groups::this_thread_block();
        if (block.thread_rank() == 0) init(&barrier, 64);
        block.sync();
        int all = Reduce(storage).Sum(x[block.thread_rank()]);
        barrier.arrive_and_wait();
        if (block.thread_rank() == 0) total = all, *one = __float2bfloat16(1);
    }"""
    module, one = cuda.compile(source), np.zeros(1, ml_dtypes.bfloat16)
    assert module.variables == ("total",)  # not those of the headers
    assert module["sum"](1, 64, np.arange(64, dtype=np.int32), one, sanitizer="collect").reports == []
    assert (module["total"], one[0]) == (2016, 1)


def test_files_and_what_they_include(tmp_path):
    (tmp_path / "tools").mkdir()
    (tmp_path / "kernel.cu").write_text('#include "tools/one.cuh"\n__global__ void f(int* x) { *x = one() + N; }\n')
    (tmp_path / "tools" / "one.cuh").write_text('#include "two.cuh"\n__device__ int one() { return two() - 1; }\n')
    two = "#include <vector>\n__device__ int two() { return 2; }\nstd::vector<int> v;\n"
    (tmp_path / "tools" / "two.cuh").write_text(two)
    x = np.zeros(1, np.int32)
    module = cuda.compile(tmp_path / "kernel.cu", define={"N": 40})
    module["f"][1, 1](x)
    assert x == 41
    assert module.name == str(tmp_path / "kernel.cu")
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "far.h").write_text("#define FAR 6\n")
    source = "#include <far.h>\n__global__ void f(int* x) { *x = FAR; }"
    told = r"(?s)far.h.*include=\[FOLDER\] adds a folder \(in a cell: %%cuda -I FOLDER\)"
    with pytest.raises(CompilationError, match=told):
        cuda.compile(source)
    cuda.compile(source, include=tmp_path / "far")["f"][1, 1](x)
    assert x == 6
    host = "__host__ inline void start() { cudaFuncSetAttribute(0, 0, 0); }\n"
    (tmp_path / "far" / "far.h").write_text(f"#define FAR 7\n{host}")  # NVRTC rejects what is for the host
    cuda.compile(source, include=tmp_path / "far")["f"][1, 1](x)
    assert x == 7
    with pytest.raises(OperandError, match=r"cannot read the CUDA file '.*none.cu': No such file or directory"):
        cuda.compile(tmp_path / "none.cu")
    with pytest.raises(OperandError, match=r"takes CUDA C\+\+ as text, or a file that ends in .cu; got 'kernel'"):
        cuda.compile("kernel")


def test_host_code_is_left_out():
    source = """#include <vector>
    #include <notthere/logging.h>
    template <int N> __global__ void add(int* x) { x[threadIdx.x] += N; }
    static void check(cudaError_t e) { if (e) { std::cerr << e; exit(1); } }
    int main(int argc, char** argv) {
        std::vector<int> v(32);  int* d;
        check(cudaMalloc(&d, 128));
        add<3><<<1, 32>>>(d);
        LOG(INFO) << "done";
    }"""
    module = cuda.compile(source, name="program.cu")
    x = np.zeros(32, np.int32)
    module["add<3>"][1, 32](x)
    assert (x == 3).all()
    assert set(module.left_out) == {"check", "main"}
    with pytest.raises(UnknownKey) as caught:
        module["main"]
    assert str(caught.value) == (
        "main is host code, which tcemu does not run: call the kernels from Python, add[grid, block](...), with numpy "
        "arrays; cudaMalloc is not needed"
    )


def test_errors_have_the_lines_of_the_source():
    with pytest.raises(CompilationError) as caught:
        cuda.compile(SCALE.replace("x[i] *=", "y[i] *="), name="wrong.cu")
    assert str(caught.value) == (
        'wrong.cu:3: identifier "y" is undefined\n      if (i < n) y[i] *= k;\n                 ^'
    )
    with pytest.raises(TargetError, match="no target is called 'sm_99'"):
        cuda.compile(SCALE, "sm_99")
    with pytest.raises(CompilationError, match="invalid value for --gpu-architecture"):
        cuda.compile(SCALE, "sm_70")  # which NVRTC 13 no longer knows
    module = cuda.compile("#warning take care\n" + SCALE, name="careful.cu")
    assert [str(each).splitlines()[0] for each in module.warnings] == ["careful.cu:1: #warning directive: take care"]


def test_reports_name_the_line_of_the_source_and_the_argument():
    module = cuda.compile(SCALE, name="reports.cu")
    x = np.zeros(8, np.float32)
    (report,) = module["scale"](1, 32, x, 2.0, 32, sanitizer="collect").reports
    assert (report.site.file, report.site.line, report.site.function) == ("reports.cu", 3, "scale")
    assert "argument" in str(report)
    assert linecache.getline("reports.cu", 3) == "    if (i < n) x[i] *= k;\n"


SILENT = """
import time
from tcemu.child import pipes, receive, send
requests, answers = pipes()
send(answers, (13, 0))
receive(requests)
time.sleep(600)
"""


@pytest.mark.slow
def test_the_compiler_dies_and_the_next_source_compiles(monkeypatch):
    with compiler.started_by(lambda _: Child(SILENT)):
        compiler.version()
        child = compiler._held[1]
        with monkeypatch.context() as patched:
            patched.setattr(compiler, "TIME_LIMIT", 0.2)
            with pytest.raises(CompilationError, match=r"NVRTC did not finish within 0\.2 s and was stopped"):
                cuda.compile("__global__ void hangs() {}")
        assert not child.alive
    compiler.version()
    child = compiler._held[1]
    send = child.send

    def killed(message):
        send(message)
        child.process.kill()

    child.send = killed
    with pytest.raises(CompilationError, match=r"NVRTC's process ended while it compiled this source \((signal|exit)"):
        cuda.compile("#include <cuda/std/tuple>\n__global__ void crashes() {}")
    assert cuda.compile("__global__ void works() {}").kernels == ("works",)


def test_without_nvrtc(monkeypatch):
    compiler.close()
    toolkit.toolkit.cache_clear()
    monkeypatch.setattr(toolkit, "_folders", lambda: iter(()))
    try:
        with pytest.raises(MissingPackage, match=r"CUDA C\+\+ needs NVRTC, .* the extra `cuda` installs"):
            cuda.compile("__global__ void f() {}")
        assert not cuda.available()
    finally:
        toolkit.toolkit.cache_clear()


def test_a_header_for_the_host_that_does_not_parse_is_left_out(tmp_path):
    (tmp_path / "launcher.hpp").write_text(
        "// starts a __global__ function\nstruct Launcher {\n  static constexpr int Size = 2;\n"
        "  static inline __host__\n  int\n#if 1\n  init(int a)\n#else\n  init(int b)\n#endif\n  { return a; }\n};\n"
    )
    source = '#include "launcher.hpp"\n__global__ void one(int* x) { *x = 1; }\nint main() { Launcher::init(2); }\n'
    (tmp_path / "one.cu").write_text(source)
    x = np.zeros(1, np.int32)
    cuda.compile(tmp_path / "one.cu")["one"][1, 1](x)
    assert x[0] == 1


def test_headers_of_one_name_in_several_folders(tmp_path):
    for name, text in {
        "a/all.cuh": '#include "util.cuh"',
        "a/util.cuh": "#define A 3",
        "b/all.cuh": '#include "util.cuh"',
        "b/util.cuh": "#define B 4",
        "two.cu": '#include "a/all.cuh"\n#include "b/all.cuh"\n__global__ void two(int* x) { *x = A * B; }',
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text + "\n")
    x = np.zeros(1, np.int32)
    cuda.compile(tmp_path / "two.cu")["two"][1, 1](x)
    assert x[0] == 12


def test_programmatic_dependent_launch():
    """The two functions that nvcc knows without an include; and with it."""
    source = """
    __global__ void produce(float* x) { cudaTriggerProgrammaticLaunchCompletion(); x[threadIdx.x] = threadIdx.x; }
    __global__ void consume(const float* x, float* y) {
        cudaGridDependencySynchronize();
        y[threadIdx.x] = x[31 - threadIdx.x];
    }"""
    for text in (source, f"#include <cuda_device_runtime_api.h>\n{source}"):
        module, stream = tcemu.cuda.compile(text), tcemu.Stream()
        x, y = np.zeros(32, np.float32), np.zeros(32, np.float32)
        stream.launch(module["produce"], 1, 32, (x,))
        stream.launch(module["consume"], 1, 32, (x, y), programmatic_stream_serialization=True)
        stream.synchronize()
        assert y.tolist() == list(range(31, -1, -1))


def test_virtual_functions_new_and_a_grid_that_synchronises():
    source = """#include <cooperative_groups.h>
    struct Shape { __device__ virtual int area(int s) const = 0; __device__ virtual ~Shape() {} };
    struct Square : Shape { __device__ int area(int s) const override { return s * s; } };
    struct Box : Shape { int k; __device__ Box(int k) : k(k) {}
                         __device__ int area(int s) const override { return k * s; } };
    __global__ void areas(int* x, int* out) {
        auto grid = cooperative_groups::this_grid();
        int i = grid.thread_rank();
        Shape* shape = i % 2 ? (Shape*)new Square : new Box(5);
        x[i] = shape->area(i);
        delete shape;
        grid.sync();
        out[i] = x[grid.size() - 1 - i];
    }
    """
    x, out = np.zeros((2, 192), np.int32)
    cuda.compile(source, name="shapes.cu")["areas"](3, 64, x, out)
    i = np.arange(192)
    assert np.array_equal(out, np.where(i % 2, i * i, 5 * i)[::-1])


def test_curands_own_header_is_read_where_it_is_installed(tmp_path):
    (tmp_path / "curand.h").write_text("typedef int curandState;\n")
    source = "#include <curand.h>\nstruct Mine { curandState state; };\n"
    source += "__global__ void f(int* x) { Mine mine = {1}; *x = mine.state; }\n"
    x = np.zeros(1, np.int32)
    cuda.compile(source, include=[tmp_path])["f"](1, 1, x)
    assert x[0] == 1


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    (tmp_path / "scale.cu").write_bytes(b"\xef\xbb\xbf" + SCALE.encode())
    assert list(cuda.compile(tmp_path / "scale.cu")) == ["scale"]


def test_files_include_each_other_by_any_path(tmp_path):
    """One file has one name, and one name two files; what lies behind <> loses its host code too."""
    files = {
        "a/kernel.cu": '#include "../b/tools.cuh"\n#include "tools.cuh"\n#include <lib/all.cuh>\n'
        "__global__ void f(int* x) { *x = inner() + outer() + lib(); }\n",
        "a/tools.cuh": '#pragma once\n#include "../b/../b/tools.cuh"\n__device__ int inner() { return 1; }\n',
        "b/tools.cuh": '#pragma once\n#include "../a/tools.cuh"\n__device__ int outer() { return 20; }\n',
        "c/lib/all.cuh": '#pragma once\n#include "deep/part.cuh"\n',
        "c/lib/deep/part.cuh": '#pragma once\n#include "../all.cuh"\n#include "../two.cuh"\n'
        "__host__ inline void start() { cudaMalloc(0, 0); }\n__device__ int lib() { return 300 + TWO; }\n",
        "c/lib/two.cuh": "#define TWO 2\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    x = np.zeros(1, np.int32)
    cuda.compile(tmp_path / "a" / "kernel.cu", include=tmp_path / "c")["f"][1, 1](x)
    assert x == 323


def test_a_header_that_lies_near_the_source_is_named(tmp_path):
    for name in ("include", "src"):
        (tmp_path / name).mkdir()
    (tmp_path / "include" / "tools.cuh").write_text("#define N 1\n")
    (tmp_path / "src" / "kernel.cu").write_text('#include "tools.cuh"\n__global__ void f(int* x) { *x = N; }\n')
    with pytest.raises(CompilationError) as caught:
        cuda.compile(tmp_path / "src" / "kernel.cu")
    there = str(tmp_path / "include")
    assert f"tools.cuh lies in {there}: include={there!r}" in str(caught.value)


def test_extensions_of_pytorch():
    source = """#include <torch/extension.h>
    #include <c10/cuda/CUDAGuard.h>
    #include <ATen/some/header/of/tomorrow.h>
    C10_HOST_DEVICE float twice(float x) { return 2 * x; }
    __global__ void f(at::Half* x) {
        half one;
        one = __ldg(x + threadIdx.x);  // without __CUDA_NO_HALF_CONVERSIONS__, in two ways
        x[threadIdx.x] = __float2half(twice(__half2float(one)));
    }
    torch::Tensor forward(torch::Tensor x) { f<<<1, 32>>>(x.data_ptr<at::Half>()); return x; }
    PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }"""
    x = np.arange(32, dtype=np.float16)
    cuda.compile(source)["f"][1, 32](x)
    assert np.array_equal(x, 2 * np.arange(32))


@pytest.mark.slow
def test_numbers_of_pytorch():
    """A product of two is rounded before it is added, as PyTorch's operators are; beside a float it is a float."""
    source = """#include <ATen/ATen.h>
    #include <THC/THCAtomics.cuh>
    __device__ inline at::Half atomicAdd(at::Half* address, at::Half value) { return *address = *address + value; }
    template <class T> __global__ void f(T* x, float w, float* sums, const int* at, long n) {
        static_assert(sizeof(T) == 2 && sizeof(w * x[0]) == 4 && sizeof(x[0] * 2.0) == 8 && sizeof(x[0] * 3) == 2);
        sums[0] = w * x[0] + x[1] * w;
        sums[0] += x[2];
        x[3] = x[0] * x[1] + x[2];
        x[4] = T(1) / x[1] - n;
        x[5] = __builtin_bit_cast(unsigned short, x[0].x) > 0 && x[0] < x[1] ? -x[0] : x[1];
        x[6] += w;
        atomicAdd(x + 7, x[0]);
    }
    template <class T> __global__ void gather(at::cuda::detail::TensorInfo<T, int> from, float* to) {
        to[threadIdx.x] = from.data[at::cuda::detail::IndexToOffset<T, int, -1>::get(threadIdx.x, from)];
    }"""
    module, at, halves = cuda.compile(source), np.zeros(1, np.int32), np.float16
    x, sums = np.array([1.001, 1.002, -1, 0, 0, 0, 7, 3], halves), np.zeros(1, np.float32)
    a, b, c = x[:3]
    want = [a * b + c, halves(1) / b - halves(2), -a, halves(7 + 0.5), halves(3) + a]
    expected = np.float32(0.5) * np.float32(a) + np.float32(b) * np.float32(0.5) + np.float32(c)
    module["f<at::Half>"][1, 1](x, 0.5, sums, at, 2)
    assert x[3:].tolist() == [float(each) for each in want]
    assert sums[0] == expected
    to, rows = np.zeros(6, np.float32), np.arange(12, dtype=np.float16).reshape(3, 4)
    sizes, strides = ([np.int32(each) for each in (*pair, *[0] * 23)] for pair in ((3, 2), (4, 2)))
    info = cuda.struct("TensorInfo", data=rows, sizes=sizes, strides=strides, dims=np.int32(2))
    module["gather<at::Half>"][1, 6](info, to)
    assert np.array_equal(to.reshape(3, 2), rows[:, ::2])


@pytest.mark.slow
def test_accessors_of_pytorch():
    """As in PyTorch's tutorial on extensions: the accessor's layout is that of c10, and its last dimension has gaps."""
    source = """#include <torch/extension.h>
    template <class scalar_t> __global__ void rows(
        const torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x,
        at::PackedTensorAccessor<scalar_t, 3> y, at::acc_type<at::Half, true>* sums) {
        for (int i = 0; i < x.size(1); ++i) {
            y[threadIdx.x][i][0] = 2 * x[threadIdx.x][i];
            sums[threadIdx.x] += x[threadIdx.x][i];
        }
    }
    void forward(torch::Tensor x, torch::Tensor y, torch::Tensor z) {
        rows<float><<<1, 4>>>(x.packed_accessor32<float, 2, torch::RestrictPtrTraits>(),
                              y.packed_accessor64<float, 3>(), z.data_ptr<float>());
    }"""
    x, y, sums = np.arange(24, dtype=np.float32).reshape(4, 6), np.zeros((4, 6, 2), np.float32), np.zeros(4, np.float32)

    def accessor(array, kind):
        shapes = array.shape, (each // array.itemsize for each in array.strides)
        sizes, strides = ([kind(each) for each in several] for several in shapes)
        return cuda.struct("Accessor", data=array, sizes=sizes, strides=strides)

    cuda.compile(source)["rows<float>"](1, 4, accessor(x, np.int32), accessor(y, np.int64), sums)
    assert np.array_equal(y[:, :, 0], 2 * x)
    assert not y[:, :, 1].any()
    assert np.array_equal(sums, x.sum(1))


def test_headers_of_pytorch_cost_no_compilations(monkeypatch):
    asked = []
    ask = compiler.ask
    monkeypatch.setattr(compiler, "ask", lambda request: asked.append(request) or ask(request))
    headers = "".join(f"#include <{each}>\n" for each in ("torch/all.h", "ATen/of/tomorrow.h", "c10/cuda/CUDAGuard.h"))
    cuda.compile(headers + "__global__ void f(at::Half* x) { *x = 1; }", name="costs_no_compilations.cu")
    assert len(asked) == 1


def test_a_header_that_was_left_out_is_named_when_a_template_fails_without_it():
    source = """#include <vectors/vec.cuh>
    template <class T> __global__ void f(T* x) { vectors::vec<T> y; *x = y[0]; }
    void host(float* x) { f<float><<<1, 1>>>(x); }"""
    module = cuda.compile(source, name="vectors_left_out.cu")
    with pytest.raises(CompilationError) as caught:
        module["f<float>"]
    told = "vectors/vec.cuh is none of CUDA's headers; include=[FOLDER] adds a folder (in a cell: %%cuda -I FOLDER)"
    assert str(caught.value).endswith(told)
    with pytest.raises(UnknownKey) as missing:
        module["f<half>"]
    assert str(missing.value).endswith(f"nothing declares half; #include <cuda_fp16.h> does. {told}.")


def test_a_package_that_is_not_installed_is_named_although_there_is_host_code():
    if (toolkit.toolkit().include[0] / "curand_kernel.h").is_file():
        pytest.skip("cuRAND is installed")
    source = """#include <curand_kernel.h>
    __global__ void f(curandState_t* x) { *x = {}; }
    void host(curandState_t* x) { f<<<1, 1>>>(x); }"""
    with pytest.raises(CompilationError, match="a package of its own: `pip install nvidia-curand`"):
        cuda.compile(source)


@pytest.mark.slow
def test_words_of_nvcc_and_gcc_that_nvrtc_lacks():
    """Lambdas with annotations, gcc's words, std without its header, Thrust's and CUB's headers of both sides."""
    source = """#include <stdbool.h>
    #include <thrust/complex.h>
    #include <thrust/binary_search.h>
    #include <functional>
    #include <cub/device/device_scan.cuh>
    #include <cub/warp/warp_reduce.cuh>
    __device__ __inline__ int one() { int y; __asm__ __volatile__("mov.s32 %0, 1;" : "=r"(y)); return y; }
    template <class F> __device__ int apply(F f) { return f(40); }
    struct Less : std::binary_function<int, int, bool> {};
    __device__ u_int32_t last(u_int32_t __restrict__ (*rows)[2]) { return rows[1][1]; }
    __global__ void k(int* x) {
        register bool yes = true;
        std::aligned_storage<4, 4>::type room;
        thrust::complex<float> i(0, 1);
        x[0] = apply([=] __host__ __device__ (int y) { return y + one() + yes; }) + sizeof(room) + int((i * i).real());
        u_int32_t rows[2][2] = {0, 1, 2, 3};
        x[1] = Less::result_type(2) + cub::Max()(last(rows), 2) + cub::Sum()(4, 5);  // CUDA 13 has no such operators
    }
    int main() { thrust::device_vector<int> v(3); thrust::sort(v.begin(), v.end()); }"""
    x = np.zeros(2, np.int32)
    cuda.compile(source)["k"][1, 1](x)
    assert x.tolist() == [45, 13]


def test_compound_literals_as_gcc_takes_them_from_c():
    source = """template <class T> struct Pair {
        using type = T;
        T first, second;
        __device__ void operator=(Pair<int>) {}
        __device__ bool operator==(const Pair) { return true; }
    };
    template <class P> __device__ typename P::type sum(P pair) { return (typename P::type){pair.first + pair.second}; }
    struct Row { float4 q; };
    __global__ void f(float4* x) {
        x[0] = (float4){1, 2, 3, 4};
        x[1] = sum((Pair<int>){3, 4}) > 6 ? (const float4){.x = 5} : (float4) {};
        x[2] = (struct Row){(float4){6}}.q;
    }"""
    x = np.ones((3, 4), np.float32)
    cuda.compile(source)["f"][1, 1](x)
    assert x.tolist() == [[1, 2, 3, 4], [5, 0, 0, 0], [6, 0, 0, 0]]


def test_what_gcc_adds_to_cpp():
    """Statements with a value, typeof, functions that are built in: nvcc 13.0 compiles this."""
    source = """
    #define TWICE(x) ({ __typeof__(x) y = (x); \\
                        y + y; })
    template <class T> __device__ void exchange(T& a, T& b) { typeof(a) c = a; a = b; b = c; }
    __global__ void f(int* x) {
        exchange(x[0], x[1]);
        x[2] = ({ int sum = 0; for (int i = 0; i < 3; ++i) { sum += i; } sum; }) + TWICE(x[0]);
        x[3] = __builtin_popcount(7) + __builtin_clz(1) + __builtin_ffs(8) + __builtin_popcountll(1ull << 40);
    }"""
    x = np.arange(1, 5, dtype=np.int32)
    cuda.compile(source)["f"][1, 1](x)
    assert x.tolist() == [2, 1, 7, 3 + 31 + 4 + 1]


def test_functions_for_the_host_by_a_macro_and_in_a_class_of_data():
    source = """#include <string>
    #define HOST_INLINE inline __host__
    struct Options { std::string name; float k; };
    struct Packed {
        Packed(Options& options) : k(options.k) {}
        Packed(const std::string& text);
        float k;
    };
    struct Number {
        static constexpr HOST_INLINE int half(int x) { return x / 2; }
        HOST_INLINE std::string text() const { return std::to_string(half(x)); }
        __device__ Number(int x) : x(x) {}
        int x;
    };
    struct Plain {
        Plain(Options& options) : k(options.k) {}
        float k;
    };
    __global__ void f(float* x, Plain plain) { *x = plain.k + Number(half(4)).x; }
    """.replace("half(4)", "Number::half(4)")
    x = np.zeros(1, np.float32)
    cuda.compile(source)["f"][1, 1](x, cuda.struct("Plain", k=np.float32(3)))
    assert x == 5


def test_preprocessor_inside_a_string_of_ptx():
    source = """__device__ float load(const float* p) {
        float y;
        asm volatile("{ ld.global"
    #if __CUDA_ARCH__ >= 100
                     ".nc"
    #endif
                     ".f32 %0, [%1]; }" : "=f"(y) : "l"(p));
        return y;
    }
    __global__ void f(float* x) { *x = load(x) + 1; }
    int main() { float* d; cudaMallocHost(&d, 4); }"""
    x = np.zeros(1, np.float32)
    cuda.compile(source)["f"][1, 1](x)
    assert x == 1


def test_a_name_among_a_templates_arguments_that_is_nowhere():
    module = cuda.compile("template <int N> __global__ void f(int* x) { *x = N; }\nint main() { const int B = 4; }")
    with pytest.raises(
        UnknownKey, match="no instantiation of the template f, template <int N>: B is no name at file scope; write"
    ):
        module["f<B>"]


def test_complex_numbers_leave_the_functions_of_real_ones_alone():
    source = """#include <complex>
    using namespace std;
    __global__ void f(float* x) {
        complex<float> i(0, 1);
        x[0] = exp(x[0]) + std::exp(2.0f * i).real() + abs(i) + std::pow(i, 2.0f).real();
    }"""
    x = np.zeros(1, np.float32)
    cuda.compile(source)["f"][1, 1](x)
    assert np.allclose(x, 1 + np.cos(2))


def test_members_for_the_host_leave_a_class_that_stays():
    source = """struct Row {
        float* p;
        __host__ Row(float* p) : p(p) {}
        __host__ static Row make(float* p) { return Row(p); }
        __device__ float get(int i) const { return p[i]; }
    };
    __global__ void f(Row row) { row.p[0] = row.get(1); }"""
    x = np.arange(1, 3, dtype=np.float32)
    cuda.compile(source)["f"][1, 1](cuda.struct("Row", p=x))
    assert x.tolist() == [2, 2]


def test_launches_that_are_not_as_in_cuda():
    source = """__global__ void scale(float* x, float k, int seed) { x[threadIdx.x] *= k; }
    __global__ void big() { __shared__ volatile char s[49153]; s[threadIdx.x] = 1; }
    void plain(float* x) { *x = 1; }"""
    module, x = cuda.compile(source), np.ones(32, np.float32)
    with pytest.raises(LaunchError, match=r"scale needs a grid and a block before its arguments: scale\[grid, block\]"):
        module["scale"](x, 2.0, 3)
    with pytest.raises(LaunchError, match="scale takes its arguments in their order, without names: not k="):
        module["scale"][1, 32](x, k=2.0, seed=3)
    module["scale"][1, 32](x, 2.0, 3, seed=3)
    assert (x == 2).all()
    with pytest.raises(LaunchError, match="big declares 49153 bytes of shared memory; ptxas accepts 49152: more"):
        module["big"][1, 32]()
    with pytest.raises(UnknownKey, match="plain is an ordinary function: a kernel is declared __global__ void plain"):
        module["plain"]


def test_tiles_of_several_warps_order_what_the_kernel_shares():
    """Their own memory is the header's affair; what the kernel shares races without their sync, and only then."""
    source = """#include <cooperative_groups.h>
    #include <cooperative_groups/reduce.h>
    namespace cg = cooperative_groups;
    __global__ void f(int* x, int ordered) {
        __shared__ int s[128];
        auto tile = cg::tiled_partition<64>(cg::this_thread_block());
        int i = threadIdx.x, sum = cg::reduce(tile, x[i], cg::plus<int>());
        s[i] = sum + i;
        if (ordered) tile.sync();
        x[i] = s[i ^ 32];
    }"""
    kernel, want = cuda.compile(source)["f"], np.repeat([2016, 6112], 64) + (np.arange(128) ^ 32)
    x = np.arange(128, dtype=np.int32)
    assert kernel[1, 128](x, 1, sanitizer="collect").reports == []
    assert np.array_equal(x, want)
    found = kernel[1, 128](np.arange(128, dtype=np.int32), 0, sanitizer="collect").reports
    assert {"shared-race"} <= {each.rule for each in found} <= {"shared-race", "uninitialised-shared"}
