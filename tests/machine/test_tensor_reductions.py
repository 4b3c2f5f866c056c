"""cp.reduce.async.bulk.tensor: boxes in shared memory combined with boxes of a tensor (PTX ISA 9.7.9.27.1.3)."""

import re

import ml_dtypes
import numpy as np
import pytest

import tcemu
from tcemu.errors import MemoryFault, OperandError
from tcemu.instructions import copies
from tcemu.machine.tensor_map import TensorMap

#: The semantics of PTX ISA 9.1, 9.7.13.5, on integers without a bound.
INTEGERS = {
    "and": lambda r, s: r & s, "or": lambda r, s: r | s, "xor": lambda r, s: r ^ s, "add": lambda r, s: r + s,
    "min": min, "max": max,
    "inc": lambda r, s: 0 if r >= s else r + 1, "dec": lambda r, s: s if r == 0 or r > s else r - 1,
}  # fmt: skip
FLOATS = {"add": np.add, "min": np.minimum, "max": np.maximum}
#: The valid combinations: the manual's, of whose .b32 and .b64 for .and, .or and .xor an H100 takes these.
VALID = {
    "add": "uint32 int32 uint64 float32 float16 bfloat16",
    "min": "uint32 int32 uint64 int64 float16 bfloat16",
    "max": "uint32 int32 uint64 int64 float16 bfloat16",
    "inc": "uint32", "dec": "uint32",
    **dict.fromkeys(("and", "or", "xor"), "uint32 int32 uint64"),
}  # fmt: skip
DTYPES = [np.dtype(kind) for kind in (*"BHIiQqefd", ml_dtypes.bfloat16)]
OPCODE = "cp.reduce.async.bulk.tensor.{}d.global.shared::cta.{}.tile.bulk_group"


def reduced(operation, there, given, at, *, swizzle=0, warps=1, map_of=TensorMap.of, sanitizer="collect", **options):
    """`there` after each warp has combined the box `given` with it, at `at`, innermost first."""
    out = there.copy()

    def kernel(warp, out, source):
        to = map_of(out, given.shape[::-1], swizzle=swizzle)
        with warp.only(warp.threads == 0):
            loaded = TensorMap.of(source, given.shape[::-1], swizzle=swizzle)
            warp.mbarrier_init(8192, 1)
            warp.fence_mbarrier_init()
            warp.mbarrier_arrive_expect_tx(8192, loaded.bytes)
            warp.cp_async_bulk_tensor_shared_global(0, loaded, (0,) * given.ndim, 8192)
            warp.mbarrier_wait(8192, 0)
        warp.bar_sync()
        with warp.only(warp.elect_sync()):
            warp.run(OPCODE.format(given.ndim, operation), to, at, 0)
            warp.cp_async_bulk_commit_group()
            warp.cp_async_bulk_wait_group(0)

    result = tcemu.launch(kernel, 1, 32 * warps, (out, given.copy()), shared=8200, sanitizer=sanitizer, **options)
    assert [str(report) for report in result.reports] == []
    return out


def test_every_operation_on_every_type_that_it_takes(row):
    random = np.random.default_rng(5)
    for operation, names in VALID.items():
        for name in names.split():
            dtype = np.dtype(name if name != "bfloat16" else ml_dtypes.bfloat16)
            there, given = random.integers(-9, 10, (2, 4, 32)).astype(dtype)
            given[random.random(given.shape) < 0.3] = there[0, 0]
            found = reduced(operation, there, given, (0, 0))
            with row(f"{operation} {name}"):
                if dtype.kind in "iu":
                    width, pairs = 8 * dtype.itemsize, zip(there.ravel(), given.ravel(), strict=True)
                    expected = [INTEGERS[operation](int(r), int(s)) % (1 << width) for r, s in pairs]
                    assert [int(each) % (1 << width) for each in found.ravel()] == expected
                else:
                    assert np.array_equal(found, FLOATS[operation](there, given))


def test_every_operation_says_which_elements_it_takes(row):
    for operation, names in VALID.items():
        for dtype in DTYPES:
            if dtype.name in names.split():
                continue
            array = np.zeros((4, 32), dtype)
            with row(f"{operation} {dtype.name}"), pytest.raises(OperandError) as caught:
                reduced(operation, array, array, (0, 0))
            assert f".{operation} combines elements of " in str(caught.value)
            assert "(PTX ISA 9.1, 9.7.9.27.1.3 " in str(caught.value)
    with pytest.raises(OperandError, match=r"of u32, s32 or u64; those of .* are u8\. Make"):
        reduced("xor", np.zeros((4, 32), np.uint8), np.zeros((4, 32), np.uint8), (0, 0))


def test_the_table_has_every_operation():
    assert {words["op"] for words, _ in copies.TENSOR_REDUCE.variants} == set(VALID)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_only_the_part_inside_the_tensor_is_combined(swizzle):
    """A box past two edges; with a swizzle, the box is swizzled in shared memory, as for loads and stores."""
    there, given = np.ones((6, 24), np.float32), np.arange(8 * 8, dtype=np.float32).reshape(8, 8)
    expected = there.copy()
    expected[3:6, 20:24] += given[:3, :4]
    assert np.array_equal(reduced("add", there, given, (20, 3), swizzle=swizzle), expected)


def test_five_dimensions():
    random = np.random.default_rng(1)
    there, given = random.integers(0, 99, (3, 2, 4, 3, 8)), random.integers(0, 99, (2, 2, 2, 3, 4))
    there, given = there.astype(np.uint32), given.astype(np.uint32)
    expected = there.copy()
    expected[1:3, :, 2:4, :, 4:8] += given
    assert np.array_equal(reduced("add", there, given, (4, 0, 2, 0, 1)), expected)


@pytest.mark.parametrize("policy", ["early", "late", "random"])
def test_several_warps_add_to_one_box(policy):
    there, given = np.arange(64, dtype=np.uint32).reshape(2, 32), np.full((2, 32), 1000, np.uint32)
    assert np.array_equal(reduced("add", there, given, (0, 0), warps=4, policy=policy, seed=2), there + 4000)


def test_lines_that_lie_on_each_other_are_all_added():
    """A stride of 0: each of the 4 lines of the box is combined with the same 32 elements."""
    there, given = np.zeros((4, 32), np.uint32), np.arange(4 * 32, dtype=np.uint32).reshape(4, 32)

    def folded(pointer, box, swizzle):
        return TensorMap(int(pointer), "u32", (32, 4), (0,), box, swizzle)

    found = reduced("add", there, given, (0, 0), map_of=folded)
    assert np.array_equal(found[0], given.sum(axis=0))
    assert not found[1:].any()


def test_subnormal_f32_are_flushed_as_a_bulk_reduction_flushes_them():
    tiny = np.full((2, 8), 2.0**-140, np.float32)
    assert not reduced("add", tiny, tiny, (0, 0)).any()


def test_what_it_does_not_take(row):
    there = np.zeros((4, 32), np.uint32)
    for at, kind, says in (
        ((2, 0), MemoryFault, "a box must start at a multiple of 16 bytes"),
        ((0, -1), OperandError, "a store cannot have negative coordinates"),
        ((0,), OperandError, "a tensor of 2 dimensions needs 2 coordinates"),
    ):
        with row(says), pytest.raises(kind, match=re.escape(says)):
            reduced("add", there, there, at, sanitizer="off")
