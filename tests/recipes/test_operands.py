"""Matrices from other libraries, played by fakes: their protocols, and the parts of numpy's that they lack."""

import sys
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest

from tcemu.errors import OperandError
from tcemu.recipes import Recipe, multiply, whose_bits
from tcemu.recipes.operands import matrix, values

#: Numbers that all types have.
GIVEN = np.arange(12).reshape(3, 4) % 5
#: dtypes that numpy or ml_dtypes has, and what tcemu calls them.
KINDS = [
    (np.float16, "f16"),
    (ml_dtypes.bfloat16, "bf16"),
    (np.float32, "f32"),
    (np.float64, "f64"),
    (ml_dtypes.float8_e4m3fn, "e4m3"),
    (ml_dtypes.float8_e5m2, "e5m2"),
    (np.int8, "s8"),
    (np.uint8, "u8"),
    (np.int32, "s32"),
]


class Tensor:
    """A torch tensor: numpy() refuses the types that numpy lacks, and view() wants contiguous elements."""

    def __init__(self, array, dtype=None):
        self._array = array
        self.dtype = dtype or f"torch.{array.dtype}"
        self.shape = array.shape

    def _same(self):
        return self

    detach = cpu = resolve_conj = resolve_neg = _same

    def contiguous(self):
        return Tensor(np.ascontiguousarray(self._array))

    def reshape(self, *shape):
        return Tensor(self._array.reshape(*shape))

    def view(self, dtype):
        assert self._array.flags.c_contiguous
        return Tensor(self._array.view(dtype))

    def numpy(self):
        if self._array.dtype.isbuiltin != 1:
            raise TypeError(f"Got unsupported ScalarType {self.dtype}")
        return self._array


@pytest.fixture
def torch(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor, uint8=np.uint8))


class OnlyDlpack:
    """An array that has no other protocol."""

    def __init__(self, array):
        self._array = array

    def __dlpack__(self, **more):
        return self._array.__dlpack__(**more)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


class Elsewhere(OnlyDlpack):
    """An array whose memory the CPU cannot read."""

    def __dlpack__(self, **more):
        raise BufferError("the array is on a GPU")


class OnlyArray:
    """An array of JAX."""

    def __init__(self, array):
        self._array = array

    def __array__(self, dtype=None, copy=None):
        return self._array


class OnGpu:
    """An array of CuPy, whose __array__ raises."""

    def __init__(self, array):
        self._array, self.__cuda_array_interface__ = array, {}

    def __array__(self, dtype=None, copy=None):
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def get(self):
        return self._array


@pytest.mark.parametrize(("dtype", "kind"), KINDS)
@pytest.mark.parametrize("library", [Tensor, OnlyArray, OnGpu])
def test_arrays_of_every_library_and_type_are_taken(torch, library, dtype, kind):
    given = GIVEN.astype(dtype)
    taken, name = matrix(library(given.T), "A")
    assert name == kind
    assert taken.dtype == dtype
    assert np.array_equal(taken.astype(int), GIVEN.T)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8])
def test_an_array_that_has_only_dlpack_is_taken(dtype):
    assert np.array_equal(values(OnlyDlpack(GIVEN.astype(dtype)), "A"), GIVEN)


def test_an_array_of_dlpack_elsewhere_says_what_to_do():
    with pytest.raises(OperandError, match=r"B: numpy cannot read this array: .* Copy it to the CPU"):
        values(Elsewhere(GIVEN.astype(np.float32)), "B")


def test_a_tensor_of_another_type_is_refused(torch):
    with pytest.raises(OperandError, match="got a torch tensor of complex64"):
        values(Tensor(GIVEN, "torch.complex64"), "A")


def test_a_product_of_tensors_is_explained(torch):
    draw = np.random.default_rng(0).standard_normal
    a, b = draw((8, 64)).astype(ml_dtypes.bfloat16), draw((64, 8)).astype(ml_dtypes.bfloat16)
    recipe = Recipe("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", output="bf16")
    d = multiply(recipe, a, b)
    assert recipe in whose_bits(Tensor(a), Tensor(b), Tensor(d)).recipes


def test_a_sum_that_overflows_is_no_warning_of_numpys(recwarn):
    """The scales take sums of 32 products of 127 and 127 out of f16's range."""
    A, B = np.full((8, 32), 127, np.int8), np.full((32, 8), 127, np.int8)
    D = np.full((8, 8), np.inf, np.float16)
    assert whose_bits(A, B, D, scale_a=np.float32(9), scale_b=np.full((1, 8), 3, np.float32))
    assert not recwarn.list
