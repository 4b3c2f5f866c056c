"""Pointers, and the arrays passed to a launch: their addresses, their contents afterwards, and invalid ones."""

import re

import ml_dtypes
import numpy as np
import pytest

from tcemu.errors import LaunchError, OperandError
from tcemu.machine.global_memory import GlobalMemory, Pointer
from tcemu.machine.launch import launch


def run(body, *args):
    """Launch one warp; the launch, and what `body` answered."""
    answers = []
    result = launch(lambda warp, *given: answers.append(body(warp, *given)), 1, 32, args, shared=4096)
    return result, answers[0]


# ------------------------------------------------------------------------------------------------ pointers


def test_a_pointer_knows_its_array():
    pointer = Pointer(512, np.dtype(np.float16), (3, 5))
    assert (pointer.dtype, pointer.shape, pointer.nbytes) == (np.float16, (3, 5), 30)
    assert repr(pointer) == "<pointer 512 to float16 (3, 5)>"
    assert pointer + 8 == 520
    assert int(pointer) == 512
    array = np.arange(15, dtype=np.float16).reshape(3, 5)
    for i, j in np.ndindex(3, 5):
        assert pointer.at(i, j) == 512 + array[i, j] * 2
        assert isinstance(pointer.at(i, np.int8(j)), int)
    rows, columns = np.arange(3)[:, None], np.arange(5)
    assert np.array_equal(pointer.at(rows, columns), 512 + 2 * array.astype(int))
    assert np.array_equal(pointer.at(1, columns.astype(np.uint8)), 522 + 2 * np.arange(5))
    assert Pointer(256, np.dtype(np.float64), ()).at() == 256
    assert Pointer(256, np.dtype(np.float64), ()).nbytes == 8


def test_a_pointer_does_not_guess(row):
    pointer = Pointer(512, np.dtype(np.float16), (3, 5))
    cases = [
        ("one index", (1,), "the array has 2 axes; got 1 indices"),
        ("three", (1, 2, 3), "got 3 indices"),
        ("a float", (1, 2.0), "an index must be an integer or an array of integers; got 2.0"),
        ("a bool", (True, 0), "got True"),
        ("floats", (0, np.zeros(3)), "an index must be an integer"),
        ("text", ("0", 1), "got '0'"),
        ("nothing", (None, 1), "got None"),
        ("a slice", (slice(None), 1), "got slice"),
        ("no broadcast", (np.arange(3), np.arange(5)), r"arrays that broadcast; got shapes (3,) and (5,)"),
        ("huge", (1 << 62, np.arange(5)), "got shapes () and (5,)"),
        ("beyond 64 bits", (1 << 80, 0), "an index must be an integer"),
    ]
    for name, index, says in cases:
        with row(name), pytest.raises(OperandError, match=re.escape(says)):
            pointer.at(*index)


def test_arrays_lie_apart():
    """At multiples of 256, as cudaMalloc places them, and never so near that an access could reach the next."""
    arrays = [np.zeros(size, np.uint8) for size in (1, 255, 256, 257, 4096, 3)]
    pointers = GlobalMemory([(str(n), array) for n, array in enumerate(arrays)]).pointers
    ends = [int(pointer) + pointer.nbytes for pointer in pointers]
    assert all(pointer % 256 == 0 and pointer > 0 for pointer in pointers)
    assert all(pointer - end >= 256 for pointer, end in zip(pointers[1:], ends, strict=False))


# ------------------------------------------------------------------------------------------------ arguments


def increment(warp, pointer):
    """Add 1 to every 32-bit element of a contiguous array."""
    count = pointer.nbytes // 4
    for first in range(0, count, 32):
        with warp.only(first + warp.laneid < count):
            at = pointer + 4 * (first + warp.laneid)
            warp.st_global(at, warp.ld_global(at)[:, 0] + 1)


def test_what_kernels_write_comes_back_into_arrays_of_any_shape(row):
    numbers = np.arange(120, dtype=np.int32)
    cases = [
        ("flat", numbers.copy()),
        ("3-d", numbers.reshape(4, 5, 6).copy()),
        ("0-d", np.array(7, np.int32)),
        ("Fortran's order", np.asfortranarray(numbers.reshape(10, 12))),
        ("every second", np.repeat(numbers, 2)[::2]),
        ("backwards", numbers.copy()[::-1]),
        ("transposed", numbers.reshape(10, 12).copy().T),
        ("float32 bits", numbers.view(np.float32).copy()),
    ]
    for name, array in cases:
        with row(name):
            before = array.copy()
            run(increment, array)
            assert np.array_equal(array.view(np.int32) if array.dtype != np.int32 else array, before.view(np.int32) + 1)


def test_the_kernel_sees_an_array_in_rows_whatever_its_strides():
    array = np.asfortranarray(np.arange(12, dtype=np.int32).reshape(3, 4))
    _, found = run(lambda warp, p: warp.ld_global(p.at(1, warp.laneid % 4)), array)
    assert found.bits[:4, 0].tolist() == [4, 5, 6, 7]


def test_only_what_lies_between_strides_stays():
    whole = np.arange(64, dtype=np.int32)
    run(increment, whole[::2])
    assert np.array_equal(whole, np.arange(64) + (np.arange(64) % 2 == 0))


def test_nans_keep_their_bits():
    array = np.full(32, 0x7F812345, np.uint32).view(np.float32)
    run(lambda warp, p: warp.st_global(p.at(warp.laneid % 2), 0xFFC54321), array)
    assert array.view(np.uint32).tolist() == [0xFFC54321] * 2 + [0x7F812345] * 30


def test_structured_and_small_dtypes_are_bytes():
    pair = np.dtype([("x", "<i2"), ("y", "<f4")])
    array = np.zeros((2, 3), pair)
    run(lambda warp, p: (warp.st_global(p.at(1, 2) + 0, 0x1234, "b16"), warp.st_global(p.at(1, 1) - 4, 1, "b8")), array)
    assert array["x"].tolist() == [[0, 0, 0], [0, 0, 0x1234]]
    assert array["y"].view(np.uint32)[1, 0] == 1
    bf16 = np.ones(8, ml_dtypes.bfloat16)
    run(lambda warp, p: warp.st_global(p.at(np.minimum(warp.laneid, 3)), 0x4000, "b16"), bf16)
    assert bf16.astype(float).tolist() == [2] * 4 + [1] * 4


def test_arrays_that_cannot_live_in_global_memory(row):
    cases = [
        ("none", np.zeros((3, 0)), "at least one element"),
        ("objects", np.array([1, "x"], object), "'object'"),
        ("objects inside", np.zeros(3, [("a", object)]), "plain little-endian dtype"),
        ("nothing each", np.zeros(3, "V0"), "at least one element"),
        ("the high byte first", np.zeros(3, ">f4"), "little-endian dtype; got '>f4', shape (3,)"),
        ("inside", np.zeros(3, [("a", ">i8")]), "little-endian dtype"),
    ]
    for name, array, says in cases:
        with row(name), pytest.raises(OperandError, match=re.escape(says)):
            run(lambda *_: None, array)


def test_other_arguments_are_passed_as_they_are():
    given = (3, "x", None, [1, 2], np.float32(2.5), {"a": 1})
    _, found = run(lambda _, *args: args, *given)
    assert all(one is other for one, other in zip(found, given, strict=True))


def test_an_array_that_is_given_twice_is_one():
    array = np.zeros(32, np.int32)

    def body(warp, one, other, third):
        assert one == other
        assert third != one
        warp.st_global(one.at(warp.laneid), warp.laneid)
        return warp.ld_global(other.at(warp.laneid))

    _, found = run(body, array, array, np.ones(32, np.int32))
    assert found.bits[:, 0].tolist() == list(range(32))
    assert array.tolist() == list(range(32))


def test_two_views_of_one_array_may_be_read_and_not_written():
    array = np.arange(32, dtype=np.int32)
    run(
        lambda warp, p, q: warp.st_global(q.at(warp.laneid), warp.ld_global(p.at(warp.laneid))),
        array[::-1],
        out := array * 0,
    )
    assert out.tolist() == array[::-1].tolist()
    before = array.copy()
    with pytest.raises(
        LaunchError, match=r"wrote to argument 0, but argument 1 is another view of the same memory"
    ) as no:
        run(increment_first, array, array[4:])
    assert np.array_equal(array, before)
    assert no.value.launch.blocks == 1
    run(increment_first, array[:16], array[16:])  # they share a base, and no element
    assert array.tolist() == [i + (i < 16) for i in range(32)]
    run(increment_first, array[::2], array[1::2])
    assert array.tolist() == [i + (i < 16) + (i % 2 == 0) for i in range(32)]


def increment_first(warp, p, _):
    increment(warp, p)


def test_a_read_only_array_is_read_and_not_written():
    array = np.arange(32, dtype=np.int32)
    array.flags.writeable = False
    run(lambda warp, p: warp.ld_global(p.at(warp.laneid)), array)
    with pytest.raises(LaunchError, match="wrote to argument 0, which is read-only"):
        run(increment, array)
    assert array.tolist() == list(range(32))
    spread = np.broadcast_to(np.int32(5), (8,))
    _, found = run(lambda warp, p: warp.ld_global(p.at(warp.laneid % 8)), spread)
    assert (found.bits == 5).all()
