"""Structs by value, compared with ctypes, which has the layout of the platform's C."""

import ctypes
from itertools import cycle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tcemu import cuda
from tcemu.errors import OperandError

NUMBERS = {
    np.int8: ctypes.c_int8, np.uint8: ctypes.c_uint8, np.bool_: ctypes.c_bool, np.int16: ctypes.c_int16,
    np.uint16: ctypes.c_uint16, np.int32: ctypes.c_int32, np.uint32: ctypes.c_uint32, np.int64: ctypes.c_int64,
    np.float32: ctypes.c_float, np.float64: ctypes.c_double,
}  # fmt: skip
ARRAY = np.zeros(4, np.float32)


def structure(name, several):
    """A ctypes structure of fields."""
    return type(name, (ctypes.Structure,), {"_fields_": [(f"f{n}", kind) for n, (_, kind) in enumerate(several)]})


#: A field: its value, its ctypes type, and what ctypes keeps there (addresses are counted from 1,000).
fields = st.recursive(
    st.sampled_from(list(NUMBERS)).map(lambda kind: (kind(1), NUMBERS[kind])) | st.just((ARRAY, ctypes.c_void_p)),
    lambda inner: (
        st.tuples(inner, st.integers(1, 4)).map(lambda one: ([one[0][0]] * one[1], one[0][1] * one[1]))
        | st.lists(inner, min_size=1, max_size=4).map(
            lambda several: (
                cuda.struct("Inner", **{f"f{n}": value for n, (value, _) in enumerate(several)}),
                structure("Inner", several),
            )
        )
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(st.lists(fields, min_size=1, max_size=6))
def test_the_layout_is_that_of_c(several):
    made = cuda.struct("S", **{f"f{n}": value for n, (value, _) in enumerate(several)})
    kind = structure("S", several)
    assert made.offsets == {name: getattr(kind, name).offset for name, _ in kind._fields_}
    assert (made.size, made.align) == (ctypes.sizeof(kind), ctypes.alignment(kind))
    assert len(made.pack(cycle(range(100)))) == made.size


def test_the_bytes_are_those_of_c():
    inner = cuda.struct("Inner", flag=np.bool_(True), x=[np.float32(1.5), np.float32(-2)], p=ARRAY)
    made = cuda.struct("S", n=np.int8(-3), inner=inner, none=None, q=np.ones(2, np.int32), raw=b"abc", h=np.float16(1))

    class Inner(ctypes.Structure):
        _fields_ = [("flag", ctypes.c_bool), ("x", ctypes.c_float * 2), ("p", ctypes.c_uint64)]

    class S(ctypes.Structure):
        _fields_ = [
            ("n", ctypes.c_int8), ("inner", Inner), ("none", ctypes.c_uint64), ("q", ctypes.c_uint64),
            ("raw", ctypes.c_char * 3), ("h", ctypes.c_uint16),
        ]  # fmt: skip

    wanted = S(-3, Inner(True, (1.5, -2), 4096), 0, 8192, b"abc", 0x3C00)
    assert [each.dtype for each in made.buffers] == [np.float32, np.int32]
    assert made.pack(iter([4096, 8192])) == bytes(wanted)


def test_a_tensor_map_is_a_field():
    array = np.zeros((64, 64), np.float16)
    mapped = cuda.tensor_map(array, (64, 8), swizzle=128)
    made = cuda.struct("S", n=np.int32(7), map=mapped)
    assert made.offsets == {"n": 0, "map": 64}  # alignas(64), as cuda.h declares it
    assert made.size == 192
    packed = made.pack(iter([1024]))
    assert packed[64:] == mapped.words(1024)
    assert packed[64:72] == (1024).to_bytes(8, "little")  # the address comes first


@pytest.mark.parametrize(
    ("field", "told"),
    [
        (4, "struct P: n=4 does not say its C type; write np.int32(4) or another type of numpy"),
        (0.5, "struct P: n=0.5 does not say its C type; write np.float32(0.5) or another type of numpy"),
        ([], "struct P: n is an array without elements, which C does not have"),
        ("text", "struct P: n must be a number of numpy, an array, a struct or a list of these; got 'text'"),
        (np.zeros((4, 4))[:, 1], "struct P: n points to an array of float64 that has no C layout"),
        ([np.int32(1), np.int8(1)], "an array inside a struct has elements of one type; got several"),
    ],
    ids=["int", "float", "empty", "text", "strided", "mixed"],
)
def test_what_has_no_c_type_is_refused(field, told):
    with pytest.raises(OperandError) as caught:
        cuda.struct("P", n=field)
    assert str(caught.value).startswith(told)
