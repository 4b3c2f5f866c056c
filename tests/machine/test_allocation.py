"""Named arrays in shared memory: where they start, and which element a byte belongs to."""

import numpy as np
import pytest

from tcemu.errors import OperandError, UnknownName
from tcemu.layouts import Descriptor
from tcemu.machine.allocation import Shared


def test_arrays_follow_each_other_at_aligned_addresses():
    shared = Shared(A=((3, 8, 8), np.float16), full=(3, np.uint64), empty=(3, np.uint64), B=(100, np.uint8))
    assert [int(each) for each in (shared.A, shared.full, shared.empty, shared.B)] == [0, 384, 408, 1024]
    assert shared.nbytes == 1124
    assert Shared(align=16, A=(3, np.uint8), B=(1, np.uint8)).B == 16


def test_bytes_are_told_as_elements():
    shared = Shared(A=((2, 4, 8), np.float32), b=((4, 4), np.uint8), c=(4, np.uint64))
    assert shared.describe(128 + 32, 128 + 64) == "stage 1 of A, row 1, columns 0 to 7"
    assert shared.describe(0, 256) == "stages 0 to 1 of A, rows 0 to 3, columns 0 to 7"
    assert shared.describe(1024 + 5, 1024 + 6) == "b, row 1, column 1"
    assert shared.describe(1040 + 8, 1040 + 16) == "c[1]"
    assert shared.describe(512, 516) == ""


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_a_swizzle_is_that_of_descriptors(swizzle):
    """The element that a descriptor finds at an address is the one that is told."""
    columns = swizzle // 2
    shared = Shared(A=((64, columns), np.float16, swizzle))
    tile = Descriptor.for_tile("f16", 64, columns, swizzle=swizzle)
    for row, column in ((0, 0), (5, 9), (63, columns - 1), (18, columns // 2)):
        at = int(tile.address(row, column, "f16"))
        assert shared.describe(at, at + 2) == f"A, row {row}, column {column}"


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"A": 5}, r"A must be \(shape, dtype\)"),
        ({"A": ((0, 4), np.uint8)}, "one to three positive numbers"),
        ({"A": (4, "no such type")}, "is not a dtype"),
        ({"A": ((8, 8), np.float16, 128)}, "as wide as a row, 16 bytes; got 128"),
        ({"align": 24}, "align must be a power of two"),
    ],
)
def test_what_is_no_array_is_refused(arrays, says):
    with pytest.raises(OperandError, match=says):
        Shared(**arrays)


def test_an_unknown_name_is_answered_by_the_nearest():
    with pytest.raises(UnknownName, match=r"no array in shared memory is called ful.*'full'"):
        _ = Shared(full=(2, np.uint64)).ful
