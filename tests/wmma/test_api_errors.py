"""What nvcuda::wmma in Python says to those who use it as C++ forbids, or as only luck would let pass."""
# ruff: noqa: E501 - a message of the table stands in one line, so that it can be found

import contextlib
import copy
import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tcemu import ArithmeticUnknown, IllegalInstruction, OperandError, TargetError, TcemuError, wmma

A, B, C = wmma.matrix_a, wmma.matrix_b, wmma.accumulator
ROW, COL, MEM_ROW, MEM_COL = wmma.row_major, wmma.col_major, wmma.mem_row_major, wmma.mem_col_major
TF32, EXPERIMENTAL = wmma.precision.tf32, wmma.experimental.precision
SMALL, TALL = (16, 16, 16), (32, 8, 16)


H, F = np.zeros((64, 64), np.float16), np.zeros((64, 64), np.float32)
H.flags.writeable = F.flags.writeable = False
POINTER, FLOATS, BYTES = wmma.pointer(H), wmma.pointer(F), wmma.pointer(np.zeros(999, np.int8))


def new(*arguments, target=None):
    return wmma.fragment(*arguments, target=target)


def zero(*arguments, target=None):
    fragment = new(*arguments, target=target)
    wmma.fill_fragment(fragment, 0)
    return fragment


def half_a(**more):
    return zero(A, *SMALL, wmma.half, ROW, **more)


def half_b():
    return zero(B, *SMALL, wmma.half, COL)


def sums(element=float, **more):
    return zero(C, *SMALL, element, **more)


def bytes_a():
    return zero(A, *SMALL, np.int8, ROW)


def partly():
    fragment = new(C, *SMALL, float)
    fragment.x[:, :3] = 0
    return fragment


def bits(target=None):
    return [
        zero(use, 8, 8, 128, element, layout, target=target)
        for use, element, layout in ((C, int, None), (A, "b1", ROW), (B, "b1", COL), (C, int, None))
    ]


def put(fragment, value, index=None):
    if index is None:
        fragment.x = value
    else:
        fragment.x[index] = value


WARPS = POINTER + np.array([[0, 16], [32, 4096]])
ERRORS = {
    # template arguments
    "m, n, k left out": (lambda: new(A), IllegalInstruction, "is a template, wmma::fragment<Use, m, n, k, T, Layout>, and m, n, k and T are missing"),
    "A without a layout": (lambda: new(A, *SMALL, wmma.half), IllegalInstruction, "wmma::fragment<wmma::matrix_a, 16, 16, 16, half> is an incomplete type: the layout of wmma::matrix_a in memory is part of it. Write wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> or wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::col_major> (CUDA C++ Programming Guide, Warp Matrix Functions)"),
    "an accumulator with one": (lambda: new(C, *SMALL, float, ROW), IllegalInstruction, "an accumulator has no layout in its type, only in memory: write wmma::fragment<wmma::accumulator, 16, 16, 16, float>, and pass wmma::mem_row_major"),
    "mem_row_major in a type": (lambda: new(A, *SMALL, wmma.half, MEM_ROW), IllegalInstruction, "mem_row_major and mem_col_major are for loading and storing accumulators"),
    "K for k": (lambda: new(A, 16, 16, 1024, wmma.half, ROW), IllegalInstruction, "wmma::matrix_a of half is 16x16x16, 8x32x16 or 32x8x16 (m x n x k). m, n and k are the sizes of one warp's tile, not M, N and K of the matrices: loop over those. Nearest: wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>"),
    "a shape of another type": (lambda: new(A, *SMALL, TF32, ROW), IllegalInstruction, "wmma::matrix_a of wmma::precision::tf32 is 16x16x8 (m x n x k). Nearest: wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major>"),
    "float operands": (lambda: new(A, *SMALL, float, ROW), IllegalInstruction, "Tensor cores multiply floats as wmma::precision::tf32. Nearest: wmma::fragment<wmma::matrix_a, 16, 16, 8, wmma::precision::tf32, wmma::row_major>"),
    "int operands": (lambda: new(A, *SMALL, int, ROW), IllegalInstruction, "Nearest: wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major>"),
    "a bfloat16 accumulator": (lambda: new(C, *SMALL, wmma.bfloat16), IllegalInstruction, "wmma::accumulator is never __nv_bfloat16, but half, float, int or double. Nearest: wmma::fragment<wmma::accumulator, 16, 16, 16, float>"),
    "u4 by columns": (lambda: new(A, 8, 8, 32, EXPERIMENTAL.u4, COL), IllegalInstruction, "wmma::matrix_a of wmma::experimental::precision::u4 is wmma::row_major only."),
    "char": (lambda: new(A, *SMALL, "char", ROW), IllegalInstruction, "char is a third type in C++, besides signed char and unsigned char"),
    "fp8": (lambda: new(A, *SMALL, ml_dtypes.float8_e4m3fn, ROW), IllegalInstruction, "no fragment has elements of type float8_e4m3fn. The types are half, __nv_bfloat16,"),
    "a slip in a type": (lambda: new(A, *SMALL, "halff", ROW), IllegalInstruction, "no fragment has elements of type 'halff'. Did you mean 'half'?"),
    "a slip in a use": (lambda: new("matrixa", *SMALL, "half", ROW), OperandError, "Use, must be wmma::matrix_a, wmma::matrix_b or wmma::accumulator; got 'matrixa'. Did you mean 'matrix_a'?"),
    "a layout for a use": (lambda: new(ROW, *SMALL, "half", ROW), OperandError, "got wmma::row_major."),
    "text for m": (lambda: new(A, "16", 16, 16, "half", ROW), OperandError, "m of a fragment must be a whole number; got '16'"),
    "a negative m": (lambda: new(A, -16, 16, 16, "half", ROW), OperandError, "m of a fragment counts rows or columns of a tile, 4 to 128 of them"),
    "a list for a target": (lambda: wmma.target([]).__enter__(), TargetError, "a target must be a string, e.g. 'sm_90a'; got an object of type list"),
    "an unknown target": (lambda: new(A, *SMALL, "half", ROW, target="sm90"), TargetError, "no target is called 'sm90'. Did you mean 'sm_90'?"),
    "a number for a target": (lambda: new(A, *SMALL, "half", ROW, target=90), TargetError, "a target must be a string"),
    # contents
    "an empty operand": (lambda: wmma.mma_sync(sums(), new(A, *SMALL, wmma.half, ROW), half_b(), sums()), OperandError, "wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> is read but never got a value: a fragment starts with whatever its registers held before. Set it with fill_fragment (0 for a sum), load_matrix_sync or mma_sync, or write to x"),
    "an empty sum": (lambda: wmma.mma_sync(sums(), half_a(), half_b(), new(C, *SMALL, float)), OperandError, "accumulator, 16, 16, 16, float> is read but never got a value"),
    "a sum half written": (lambda: wmma.store_matrix_sync(FLOATS, partly(), 64, MEM_ROW), OperandError, "some elements of wmma::fragment<wmma::accumulator, 16, 16, 16, float> never got a value: a fragment starts with whatever its registers held before. The first of them is element 3 of lane 0."),
    "x of an empty one": (lambda: new(C, *SMALL, float).x + 1, OperandError, "never got a value"),
    "elements of an empty one": (lambda: partly().x[5, 2:4], OperandError, "element 3 of lane 0"),
    # memory
    "no layout for an accumulator": (lambda: wmma.load_matrix_sync(sums(), FLOATS, 64), OperandError, "load_matrix_sync(frag, ptr, ldm, layout): the layout is missing. The type of an accumulator, wmma::fragment<wmma::accumulator, 16, 16, 16, float>, has none, so pass its layout in memory: wmma::mem_row_major or wmma::mem_col_major"),
    "a layout for A": (lambda: wmma.load_matrix_sync(half_a(), POINTER, 64, MEM_ROW), OperandError, "takes no layout, which is in the fragment's type. Write load_matrix_sync(frag, ptr, ldm)"),
    "row_major in memory": (lambda: wmma.load_matrix_sync(sums(), FLOATS, 64, ROW), OperandError, "the layout of an accumulator in memory is wmma::mem_row_major or wmma::mem_col_major (layout_t); row_major and col_major are for the types of matrix_a and matrix_b"),
    "an array": (lambda: wmma.load_matrix_sync(half_a(), H, 64), OperandError, "must be a pointer, not an array: array + 8 would add 8 to its numbers. Write wmma.pointer(array), and wmma.pointer(array) + 8 for its element 8"),
    "a number": (lambda: wmma.load_matrix_sync(half_a(), 0, 64), OperandError, "must be a pointer into an array, wmma.pointer(array); got an object of type int"),
    "another type": (lambda: wmma.load_matrix_sync(half_a(), FLOATS, 64), OperandError, "takes a half*, an array of float16; got a float*. Convert the array, or use wmma.pointer(array, type='half') if its bytes are already half"),
    "lines not aligned": (lambda: wmma.load_matrix_sync(half_a(), POINTER, 20), OperandError, "with ldm 20, rows are 40 bytes apart; ldm must be a multiple of 8 elements (16 bytes). Pad the rows to 24"),
    "bytes not aligned": (lambda: wmma.load_matrix_sync(bytes_a(), BYTES, 20), OperandError, "with ldm 20, rows are 20 bytes apart; ldm must be a multiple of 8 elements (8 bytes)"),
    "a short ldm": (lambda: wmma.load_matrix_sync(half_b(), POINTER, 8), OperandError, "ldm is the distance from one column to the next in elements, which is the length of a column of the whole matrix, so at least 16; got 8"),
    "a broken ldm": (lambda: wmma.load_matrix_sync(half_a(), POINTER, 64.0), OperandError, "ldm must be a whole number of elements; got an object of type float"),
    "a huge ldm": (lambda: wmma.load_matrix_sync(half_a(), POINTER, 10**5000), OperandError, "this one does not fit 32 bits"),
    "a pointer not aligned": (lambda: wmma.load_matrix_sync(half_a(), POINTER + 8, 64), OperandError, "the pointer, element 8, is at byte 16; it must be aligned to 256 bits, so at a multiple of 16 elements (CUDA C++ Programming Guide, Warp Matrix Functions; PTX ISA 9.1, 9.7.14.4.2 "),
    "bytes at odd places": (lambda: wmma.load_matrix_sync(bytes_a(), BYTES + 12, 16), OperandError, "at byte 12; it must be aligned to the 8 bytes that a lane holds of it, so at a multiple of 8 elements"),
    "over the end": (lambda: wmma.load_matrix_sync(half_a(), POINTER + (48 * 64 + 64), 64), OperandError, "element 3136: row 15 of the tile's 16 reaches outside the array of 4096 elements. A GPU would access whatever is there. At an edge, pad the matrix to whole tiles or copy the part into a tile of zeros"),
    "before the beginning": (lambda: wmma.load_matrix_sync(half_a(), POINTER - 64, 64), OperandError, "element -64: row 0 of the tile's 16 reaches outside"),
    "one warp of many": (lambda: wmma.load_matrix_sync(half_a(), WARPS, 64), OperandError, "element 4096 of warp (1, 1): row 0"),
    "a fragment before the pointer": (lambda: wmma.store_matrix_sync(sums(), FLOATS, 64, MEM_ROW), OperandError, "takes the pointer first: store_matrix_sync(ptr, frag, ldm, layout)"),
    "storing A": (lambda: wmma.store_matrix_sync(POINTER, half_a(), 64, MEM_ROW), OperandError, "store_matrix_sync stores accumulators; wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> is not one, and no instruction stores it"),
    "storing without a layout": (lambda: wmma.store_matrix_sync(FLOATS, sums(), 64), OperandError, "store_matrix_sync(ptr, frag, ldm, layout): the layout is missing"),
    "storing to what is read-only": (lambda: wmma.store_matrix_sync(FLOATS, sums(), 64, MEM_ROW), OperandError, "the array behind the pointer is read-only"),
    "a fragment nobody knows": (lambda: wmma.load_matrix_sync(new(A, *TALL, "half", ROW, target="sm_70"), POINTER, 64), ArithmeticUnknown, "that chip's fragment layouts have not been published"),
    # pointers
    "a pointer too far": (lambda: POINTER + (1 << 50), OperandError, "a pointer is at most 1099511627776 elements away"),
    "half an element": (lambda: POINTER + 1.5, OperandError, "a pointer moves by whole numbers of elements; got an object of type float"),
    "warps that do not fit": (lambda: WARPS + np.arange(3), OperandError, "the shapes of the pointers and of the numbers of elements do not match"),
    "a transposed array": (lambda: wmma.pointer(H.T), OperandError, "numpy.ascontiguousarray copies it"),
    "a list": (lambda: wmma.pointer([1, 2]), OperandError, "so that stores can change it; got an object of type list"),
    "a pointer to a pointer": (lambda: wmma.pointer(POINTER), OperandError, "this is already a pointer: add to it"),
    "objects": (lambda: wmma.pointer(np.array([None])), OperandError, "an array of numbers; got dtype object"),
    "int4 in bytes": (lambda: wmma.pointer(np.zeros(4, ml_dtypes.int4)), OperandError, "(a[..., ::2] & 15 | a[..., 1::2] << 4)"),
    "bool in bytes": (lambda: wmma.pointer(np.zeros(4, bool)), OperandError, "numpy.packbits(array, axis=-1, bitorder='little')"),
    # products
    "arguments out of order": (lambda: wmma.mma_sync(half_a(), half_b(), sums(), sums()), OperandError, "mma_sync(d, a, b, c): d must be a fragment of wmma::accumulator; got wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major>"),
    "an array for A": (lambda: wmma.mma_sync(sums(), H, half_b(), sums()), OperandError, "the second argument of mma_sync(d, a, b, c), a, must be a fragment; got an object of type ndarray"),
    "the template for A": (lambda: wmma.mma_sync(sums(), wmma.fragment, half_b(), sums()), OperandError, "must be a fragment, not the template itself"),
    "two shapes": (lambda: wmma.mma_sync(sums(), zero(A, *TALL, "half", ROW), half_b(), sums()), OperandError, "the fragments have different shapes: d 16x16x16, a 32x8x16, b 16x16x16 and c 16x16x16"),
    "two targets": (lambda: wmma.mma_sync(sums(), half_a(target="sm_70"), half_b(), sums()), OperandError, "have different targets: d sm_90a, a sm_70, b sm_90a and c sm_90a. Layouts differ between architectures"),
    "signed times unsigned": (lambda: wmma.mma_sync(sums(int), bytes_a(), zero(B, *SMALL, np.uint8, COL), sums(int)), IllegalInstruction, "mma_sync has no form with a of signed char, b of unsigned char, c of int and d of int. With a of signed char it takes signed char b, int c and int d"),
    "a sum of another type": (lambda: wmma.mma_sync(sums("half"), zero(A, *SMALL, "bf16", ROW), zero(B, *SMALL, "bf16", ROW), sums("half")), IllegalInstruction, "With a of __nv_bfloat16 it takes __nv_bfloat16 b, float c and float d"),
    "satf for floats": (lambda: wmma.mma_sync(sums(), half_a(), half_b(), sums(), True), IllegalInstruction, "mma_sync of half has no satf: only integer sums can be clamped"),
    "satf in words": (lambda: wmma.mma_sync(sums(int), bytes_a(), zero(B, *SMALL, np.int8, COL), sums(int), "yes"), OperandError, "satf must be True or False; got an object of type str"),
    "bits in mma_sync": (lambda: wmma.mma_sync(*bits()), IllegalInstruction, "bmma_sync(d, a, b, c, op) does, with op wmma::experimental::bmmaBitOpXOR or wmma::experimental::bmmaBitOpAND"),
    "half in bmma_sync": (lambda: wmma.bmma_sync(sums(), half_a(), half_b(), sums()), IllegalInstruction, "bmma_sync multiplies single bits, wmma::experimental::precision::b1; half is for mma_sync(d, a, b, c)"),
    "no such operation": (lambda: wmma.bmma_sync(*bits(), "or"), OperandError, "bmma_sync: op must be wmma::experimental::bmmaBitOpXOR or wmma::experimental::bmmaBitOpAND; got 'or'."),
    "and on sm_75": (lambda: wmma.bmma_sync(*bits("sm_75"), wmma.experimental.bmmaBitOpAND), IllegalInstruction, "bmma_sync with wmma::experimental::bmmaBitOpAND does not exist on sm_75; it needs sm_80 or later"),
    # x
    "f16 to f32": (lambda: put(sums(), sums("half").x.astype(np.float32)), OperandError, "x of wmma::fragment<wmma::accumulator, 16, 16, 16, half> cannot be combined with x of wmma::fragment<wmma::accumulator, 16, 16, 16, float>: conversion between f16 and f32 accumulators is not supported in either direction, even if the order of the elements is the same (PTX ISA 9.1, 9.7.14.4.1 Matrix Fragments for WMMA). On sm_70 their layouts differ, but not on sm_75, sm_80 and sm_90. Store, convert in memory, and load."),
    "f32 to f16": (lambda: put(sums("half"), (2 * sums().x).astype(np.float16), (slice(None), slice(None))), OperandError, "conversion between f16 and f32 accumulators is not supported"),
    "f16 and f32 added": (lambda: sums().x + sums("half").x, OperandError, "conversion between f16 and f32 accumulators is not supported"),
    "an accumulator as A": (lambda: put(half_a(), sums("half").x), OperandError, "only fragments of the same type hold the same elements in the same places, and the places are unspecified (CUDA C++ Programming Guide, Warp Matrix Functions). On sm_70, sm_75, sm_80 and sm_90 their layouts differ."),
    "rows as columns": (lambda: put(new(A, *SMALL, "half", COL), half_a().x), OperandError, "On sm_70 their layouts differ, but not on sm_75, sm_80 and sm_90."),
    "int to float": (lambda: put(sums(), sums(int).x.astype(np.float32)), OperandError, "but no manual guarantees that."),
    "another shape": (lambda: put(zero(C, *TALL, float), sums().x), OperandError, "They hold different elements."),
    "x of another target": (lambda: put(sums(), sums(target="sm_70").x), OperandError, "x of a fragment for sm_70 cannot be used for sm_90a: which lane holds which element differs between architectures. Store the one to memory and load the other from there"),
    "x of another dtype": (lambda: put(sums(), np.zeros((32, 8))), OperandError, "holds float32; got float64. Nothing is rounded silently"),
    "x of another shape": (lambda: put(sums(), np.zeros((8, 32), np.float32)), OperandError, "must have shape (..., 32, 8), lanes and elements; got (8, 32). fill_fragment sets all elements to one number."),
    "an element too many": (lambda: sums().x[:, 8], OperandError, "has shape (32, 8), lanes and then elements: index 8 is out of bounds"),
    "a lane too many": (lambda: put(sums(), 1, (32, 0)), OperandError, "has shape (32, 8), lanes and then elements: index 32 is out of bounds"),
    "300 in a byte": (lambda: put(bytes_a(), 300, (0, 0)), OperandError, "a number of type signed char: s8 holds whole numbers from -128 to 127, not 300"),
    "text in x": (lambda: put(sums(), "one", (0, 0)), OperandError, "needs a number of type float"),
    "half an int": (lambda: wmma.fill_fragment(bytes_a(), 0.5), OperandError, "fill_fragment of wmma::fragment<wmma::matrix_a, 16, 16, 16, signed char, wmma::row_major> needs a number of type signed char"),
    "many numbers to fill with": (lambda: wmma.fill_fragment(sums(), [0, 1]), OperandError, "one number, not an array of shape (2,)"),
    "a float for bits": (lambda: wmma.fill_fragment(bits()[1], 1.0), OperandError, "elements are packed in uint32, so it must be a whole number from 0 to 4294967295"),
    "filling nothing": (lambda: wmma.fill_fragment(None, 0), OperandError, "the first argument of fill_fragment must be a fragment; got an object of type NoneType"),
    "doubles to tf32": (lambda: wmma.float_to_tf32(np.zeros(3)), OperandError, "float_to_tf32 takes float32 numbers: dtype float64"),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS)
def test_errors_teach(case):
    act, kind, said = ERRORS[case]
    with pytest.raises(kind) as error:
        act()
    assert said in str(error.value)
    assert len(str(error.value)) < 700
    assert "\n" not in str(error.value)


def test_a_failed_call_changes_nothing():
    acc, a = sums(), new(A, *SMALL, wmma.half, ROW)
    before = acc.read().copy()
    with pytest.raises(OperandError):
        wmma.mma_sync(acc, a, half_b(), acc)
    with pytest.raises(OperandError):
        wmma.load_matrix_sync(acc, FLOATS + 4096, 64, MEM_ROW)
    with pytest.raises(OperandError):
        acc.x = np.zeros((32, 8))
    assert np.array_equal(acc.read(), before)


def test_names_can_be_copied():
    for name in (A, ROW, MEM_ROW, wmma.half, TF32, wmma.experimental):
        assert repr(copy.deepcopy(name)) == repr(pickle.loads(pickle.dumps(name))) == repr(name)  # noqa: S301 - our own
    twin = copy.deepcopy(TF32), copy.deepcopy(ROW), copy.deepcopy(A)
    assert wmma.fragment(twin[2], 16, 16, 8, twin[0], twin[1]).kind == wmma.fragment(A, 16, 16, 8, TF32, ROW).kind


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.binary(max_size=8), st.complex_numbers(),
    st.lists(st.integers(-3, 300), max_size=3), st.dictionaries(st.text(max_size=2), st.integers(), max_size=1),
    st.sampled_from([
        A, B, C, ROW, COL, MEM_ROW, MEM_COL, wmma.half, TF32, EXPERIMENTAL.b1, float, int, object, "half", "sm_70", 8, 16, 32, 64, 10**5000,
        np.float16, np.dtype("V8"), np.zeros(3), np.zeros((2, 2), np.float16), np.array(["a"]), np.array(1), np.float64("nan"), np.ma.masked,
        H, POINTER, FLOATS, WARPS, half_a(), half_b(), sums(), sums(int), new(C, *SMALL, float), wmma.fragment, sums().x, new(C, *SMALL, float).x,
        wmma.experimental.bmmaBitOpAND, range(3), lambda: 0,
    ]),
)  # fmt: skip


@given(st.data())
def test_whatever_goes_in_only_errors_of_tcemu_come_out(data):
    def any_of(count):
        return [data.draw(ANYTHING) for _ in range(count)]

    acts = [
        lambda: wmma.fragment(*any_of(6)),
        lambda: wmma.fragment(A, *any_of(5), target=data.draw(ANYTHING)),
        lambda: wmma.fragment(C, 16, 16, 16, *any_of(2)),
        lambda: wmma.fill_fragment(*any_of(2)),
        lambda: wmma.fill_fragment(sums(int), *any_of(1)),
        lambda: wmma.fill_fragment(bits()[1], *any_of(1)),
        lambda: wmma.load_matrix_sync(*any_of(4)),
        lambda: wmma.load_matrix_sync(half_a(), POINTER, *any_of(2)),
        lambda: wmma.load_matrix_sync(sums(), FLOATS + data.draw(ANYTHING), *any_of(2)),
        lambda: wmma.store_matrix_sync(*any_of(4)),
        lambda: wmma.store_matrix_sync(FLOATS, sums(), *any_of(2)),
        lambda: wmma.mma_sync(*any_of(5)),
        lambda: wmma.mma_sync(sums(), half_a(), half_b(), *any_of(2)),
        lambda: wmma.bmma_sync(*any_of(6)),
        lambda: wmma.bmma_sync(*bits(), *any_of(2)),
        lambda: wmma.pointer(*any_of(3)),
        lambda: wmma.pointer(H, *any_of(2)),
        lambda: POINTER - data.draw(ANYTHING),
        lambda: put(sums(), *any_of(1)),
        lambda: put(sums(), *any_of(2)),
        lambda: put(bits()[1], data.draw(ANYTHING), (0, 0)),
        lambda: sums().x[data.draw(ANYTHING)],
        lambda: wmma.float_to_tf32(*any_of(1)),
        lambda: wmma.target(data.draw(ANYTHING)).__enter__(),
    ]
    with contextlib.suppress(TcemuError):
        data.draw(st.sampled_from(acts))()
