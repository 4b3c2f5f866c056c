"""Arguments are checked against the kernel's parameters before anything runs; the error names the parameter."""

import ml_dtypes
import numpy as np
import pytest

from tcemu import cuda
from tcemu.errors import OperandError
from tcemu.ptx.arguments import checked
from tcemu.ptx.signature import Parameter, declared, described, split
from tcemu.ptx.types import SCALARS, element, pointee, shortened, vector

X = np.arange(8, dtype=np.float32)
MAP = cuda.tensor_map(np.zeros((8, 64), np.float16), (64, 8))


def parameter(declaration, size=0, ptx=""):
    """A parameter as C declares it: "float* x"."""
    ((type_, name),) = declared(f"__global__ void f({declaration}) {{}}", "f")
    row = SCALARS.get(shortened(type_))
    size = size or (8 if pointee(type_) else row.dtype.itemsize if row else 0)
    return Parameter(0, type_, name, size, ptx or f"b{8 * size}")


def passed(declaration, value, size=0, ptx=""):
    """What the machine gets."""
    return checked("f", [parameter(declaration, size, ptx)], [value])[0]


ACCEPTED = {
    "pointer": ("float* x", X, X),
    "const pointer": ("const float* __restrict__ x", X, X),
    "vector elements": ("float4* x", X, X),
    "two dimensions": ("float x[][4]", X.reshape(2, 4), None),
    "the other sign": ("unsigned int* x", X.view(np.int32), None),
    "bits of half": ("__half* x", np.zeros(8, np.uint16), None),
    "half": ("half2* x", np.zeros(8, np.float16), None),
    "bfloat16": ("const __nv_bfloat16* x", np.zeros(8, ml_dtypes.bfloat16), None),
    "fp8": ("__nv_fp8_e4m3* x", np.zeros(8, ml_dtypes.float8_e4m3fn), None),
    "void": ("void* x", X, X),
    "complex": ("float2* x", np.zeros(4, np.complex64), None),  # cuFloatComplex
    "reference": ("float& x", X, X),
    "records": ("Particle* x", np.zeros(4, [("x", "f4"), ("n", "i4")]), None),
    "null": ("float* x", None, 0),
    "zero": ("float* x", 0, 0),
    "int": ("int n", np.int64(-5), np.int32(-5)),
    "a zero-dimensional array": ("int n", np.array(5), np.int32(5)),
    "unsigned": ("unsigned n", (1 << 32) - 1, np.uint32((1 << 32) - 1)),
    "bool": ("bool b", True, np.uint8(1)),
    "char": ("char c", -128, np.int8(-128)),
    "size_t": ("size_t n", 1 << 40, np.uint64(1 << 40)),
    "float from an int": ("float k", 2, np.float32(2)),
    "infinity": ("float k", float("inf"), np.float32(np.inf)),
    "half by value": ("__half k", 1.0, b"\x00\x3c"),
    "bfloat16 by value": ("__nv_bfloat16 k", 1.0, b"\x80\x3f"),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_fits_is_passed(name):
    declaration, value, wanted = ACCEPTED[name]
    got = passed(declaration, value)
    assert type(got) is type(wanted) or wanted is None
    assert got is (wanted if isinstance(wanted, np.ndarray) else got)
    if wanted is not None and not isinstance(wanted, np.ndarray):
        assert got == wanted


@pytest.mark.parametrize(("dtype", "views"), [(np.float64, False), (np.int32, True), (">f4", False), (bool, False)])
def test_a_view_is_advised_where_it_has_the_bytes(dtype, views):
    with pytest.raises(OperandError, match=r": .*\.astype\(np.float32\) is a copy") as caught:
        passed("float* x", np.zeros(8, dtype))
    assert (".view(np.float32) is the same bytes" in str(caught.value)) == views
    assert str(caught.value).endswith("copy, which the kernel would write instead")
    with pytest.raises(OperandError, match=r"is a copy$"):
        passed("const float* x", np.zeros(8, dtype))


def test_vectors_and_structs_by_value():
    assert passed("float4 v", (1, 2, 3, 4), 16) == np.arange(1, 5, dtype=np.float32).tobytes()
    assert passed("dim3 d", (1, 2, 3), 12) == np.arange(1, 4, dtype=np.uint32).tobytes()
    assert passed("float3 v", np.ones(3), 12) == np.ones(3, np.float32).tobytes()
    point = cuda.struct("Point", x=np.float32(1), n=np.int32(2))
    assert passed("Point p", point, 8, "b8") is point
    record = np.array((1.0, 2), [("x", "f4"), ("n", "i4")])[()]
    assert passed("Point p", record, 8, "b8") == record.tobytes()
    assert passed("Mode m", 2, 4, "u32") == 2  # an enum
    assert passed("float2 k", 1 + 2j, 8) == np.array([1, 2], np.float32).tobytes()
    assert passed("__int128 n", -3, 16, "b8") == b"\xfd" + 15 * b"\xff"
    assert passed("CUtensorMap m", MAP, 128, "b8") is passed("const void* m", MAP) is MAP


class OnGpu:
    """What CuPy and PyTorch have in a GPU's memory."""

    __cuda_array_interface__ = ()


POINTER = "points to elements of"
#: What follows "f: argument 0, " and the declaration.
REFUSED = {
    "dtype": ("float* x", np.zeros(8), f"{POINTER} float, np.float32; got an array of float64. Make the array with"),
    "bits": ("float* x", np.zeros(8, np.int32), f"{POINTER} float, np.float32; got an array of int32"),
    "width": ("int* x", np.zeros(8, np.int64), f"{POINTER} int, np.int32; got an array of int64"),
    "half": ("__half* x", X, f"{POINTER} __half, np.float16; got an array of float32"),
    "strided": ("float* x", X[::2], "is a pointer to elements without gaps, in C order; got an array of shape (4,)"),
    "columns": ("float* x", np.ones((2, 4), np.float32).T, "is a pointer to elements without gaps, in C order"),
    "big-endian": ("float* x", X.astype(">f4"), f"{POINTER} float, np.float32; got an array of >f4"),
    "objects": ("void* x", np.array([None]), "is a pointer to plain little-endian elements; got an array of object"),
    "empty": ("float* x", X[:0], "is a pointer to an array with elements; got one of shape (0,)"),
    "list": ("float* x", [1.0], "is a pointer: pass a numpy array (a = np.array([...]), which then holds what the "),
    "bytes": ("char* x", bytearray(1), "is a pointer: pass a numpy array (np.asarray(...) shares its memory) or None"),
    "a string": ("const char* s", "hey", "is a pointer: pass a numpy array (np.frombuffer(b"),
    "gpu": ("char* x", OnGpu(), "is a pointer: pass a numpy array (such as cupy.asnumpy(...) or a tensor's .cpu()"),
    "reference": ("int& x", 5, "is a reference: pass a numpy array (from np.array([...])) or None; got 5"),
    "complex32": ("double2* x", np.zeros(2, np.complex64), f"{POINTER} double2, np.float64; got an array of complex64"),
    "number": ("float* x", 5, "is a pointer: pass a numpy array (from np.array([...])) or None; got 5"),
    "float4": ("float4* x", X[:6], f"{POINTER} float4; got 6 numbers, not a multiple of 4"),
    "pointers": ("float** x", X, "points to pointers: pass a list of arrays, [a, b]; got an array of float32"),
    "fraction": ("int n", 2.5, "is a whole number; got 2.5"),
    "array": ("int n", X, "is a whole number; got array("),
    "large": ("int n", 1 << 31, "is -2147483648 to 2147483647; got 2147483648"),
    "negative": ("unsigned int n", -1, "is 0 to 4294967295; got -1"),
    "text": ("float k", "2", "is a number; got '2'"),
    "complex": ("float k", 1j, "is a number; got 1j"),
    "huge": ("unsigned __int128 n", -1, "is 0 to 2**128 - 1; got -1"),
    "bf16": ("__nv_bfloat16* x", X, f"{POINTER} __nv_bfloat16, ml_dtypes.bfloat16; got an array of float32"),
    "overflow": ("float k", 1e39, "is a number of float32; 1e+39 is too large for it"),
    "too many": ("float2 v", (1, 2, 3), "has 2 numbers: pass a tuple of them; got (1, 2, 3)"),
    "a map": ("int n", MAP, "is not a CUtensorMap or a pointer to one; got a tensor map"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused(name):
    declaration, value, told = REFUSED[name]
    with pytest.raises(OperandError) as caught:
        passed(declaration, value, {"float2": 8, "unsigned __int128": 16}.get(declaration[:-2], 0))
    assert str(caught.value).startswith(f"f: argument 0, {declaration}, {told}")


def test_the_number_of_arguments_and_the_size_of_a_struct():
    parameters = [parameter("float* x"), parameter("int n")]
    with pytest.raises(OperandError, match=r"f\(float\* x, int n\) takes 2 arguments; got 1$"):
        checked("f", parameters, [X])
    with pytest.raises(OperandError, match="takes 2 arguments; got 3; grid, block and the options"):
        checked("f", parameters, [X, 1, 2])
    with pytest.raises(OperandError, match="argument 0, P p, has 12 bytes; got <struct P: 4 bytes, n at 0>, 4 bytes"):
        passed("P p", cuda.struct("P", n=np.int32(1)), 12, "b8")
    with pytest.raises(OperandError, match=r"P p, is a struct of 12 bytes; got 3; tcemu.cuda.struct makes one"):
        passed("P p", 3, 12, "b8")
    with pytest.raises(OperandError, match=r"and tcemu.tensor_map a CUtensorMap; \.tobytes\(\) passes these bytes"):
        passed("P p", np.zeros(3, np.float32), 12, "b8")
    with pytest.raises(OperandError, match="an array in it is a pointer, a list of numpy's numbers an array inside"):
        passed("P p", cuda.struct("P", a=X), 12, "b8")


def test_parameters_as_the_source_declares_them():
    source = """
    // __global__ void f(int wrong)
    template <class T, int N = 4> /* __global__ f(int) */
    __global__ void __launch_bounds__(128, 2) f(const T* __restrict__ a, T b[][N],
        const __grid_constant__ CUtensorMap map, std::pair<int, float> p = {1, 2}, unsigned long long n = 3) {}
    void g(int host); __global__ void g() {}
    """
    names = [("const T*", "a"), ("T*", "b"), ("const CUtensorMap", "map")]
    assert declared(source, "f") == [*names, ("std::pair<int, float>", "p"), ("unsigned long long", "n")]
    assert declared(source, "g") == []
    assert split("a<b, c>, (d, e), f") == ["a<b, c>", "(d, e)", "f"]
    assert described("f", [parameter("float* x"), Parameter(1, "", "", 4, "u32")]) == "f(float* x, .param .u32)"


def test_names_of_types():
    assert shortened("float const * __restrict__") == "float*"
    assert pointee("float (*) [4]") == pointee("float[4]") == pointee("const float*") == "float"
    assert pointee("int const* const*") == "int*"
    assert element("float4") == element("float") == SCALARS["float"]
    assert vector("ushort2") == (SCALARS["unsigned short"], 2)
    assert element("Particle") is vector("float") is None
