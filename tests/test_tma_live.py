"""Tensor copies and mbarriers on the GPU of this machine and in the emulator: pytest --live tests/test_tma_live.py.

Without --live, or without a GPU of sm_90a, these skip. What the manual leaves open has a test of its own, so that a
failure says what hardware does instead.
"""

import ctypes
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from tcemu import live
from tcemu.machine.mbarrier import MOST, Mbarrier
from tcemu.machine.tensor_map import TensorMap

pytestmark = pytest.mark.live_gpu
SOURCE = (Path(__file__).parent / "tma.cu").read_text(encoding="utf-8")

#: CUtensorMapDataType and CUtensorMapSwizzle of cuda.h.
TYPES = dict(zip(("u8", "u16", "u32", "s32", "u64", "s64", "f16", "f32", "f64", "bf16"), range(10), strict=True))
TYPES["tf32"] = 11
MODES = {0: 0, 32: 1, 64: 2, 128: 3}


@pytest.fixture(autouse=True)
def _gpu(request):
    if not request.config.getoption("--live"):
        pytest.skip("asks a GPU only with --live")
    missing = live.why_not()
    if missing:
        pytest.skip(f"no GPU: {missing}")
    if live.device().target != "sm_90a":
        pytest.skip(f"{live.device().name}: tests/tma.cu is for sm_90a")


@cache
def _driver() -> ctypes.CDLL:
    """The driver with a context of its own: without one it encodes nothing."""
    driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxSetCurrent(context) == 0
    return driver


def encode(made: TensorMap) -> np.ndarray | None:
    """The 128 bytes that the driver makes of a map, with another address; None where it does not accept it."""
    driver = _driver()
    room = ctypes.create_string_buffer(128 + 64)
    place = -(-ctypes.addressof(room) // 64) * 64
    steps = made.element_strides
    status = driver.cuTensorMapEncodeTiled(
        ctypes.c_void_p(place),
        ctypes.c_int(TYPES[made.element]),
        ctypes.c_uint32(made.rank),
        ctypes.c_void_p(1 << 20),
        (ctypes.c_uint64 * made.rank)(*made.sizes),
        (ctypes.c_uint64 * max(made.rank - 1, 1))(*made.strides),
        (ctypes.c_uint32 * made.rank)(*made.box),
        (ctypes.c_uint32 * made.rank)(*steps),
        ctypes.c_int(0),
        ctypes.c_int(MODES[made.swizzle]),
        ctypes.c_int(0),
        ctypes.c_int(made.fill == "nan"),
    )
    if status:
        print(f"cuTensorMapEncodeTiled answers {status}: {made!r}")
    return None if status else np.frombuffer(ctypes.string_at(place, 128), np.uint64)


def both(made: TensorMap, at: tuple[int, ...], offset: int = 0, *, storing: bool = False, seed: int = 1):
    """What the GPU and what the emulator left in (global memory, shared memory), and whether all bytes were counted."""
    bits = encode(made)
    assert bits is not None, f"the driver does not accept {made}"
    numbers = np.random.default_rng(seed)
    far = sum((length - 1) * stride for length, stride in zip(made.sizes[1:], made.strides, strict=True))
    memory = numbers.integers(0, 256, made.address + far + made.sizes[0] * made.element_bytes + 64, np.uint8)
    shared = numbers.integers(0, 256, made.shared_bytes + 128, np.uint8)
    coordinates = np.array([*at, *[0] * (5 - made.rank)], np.int32)
    answers = memory.copy(), shared.copy()
    report = np.zeros(1, np.uint32)
    live.cuda(
        SOURCE,
        "tensor_copy",
        1,
        32,
        bits,
        answers[0],
        np.zeros(512, np.uint8),
        coordinates,
        answers[1],
        report,
        np.uint64(made.address),
        np.uint32(made.rank),
        np.uint32(offset),
        np.uint32(len(shared)),
        np.uint32(made.bytes),
        np.uint32(storing),
        shared=2048 + offset + len(shared),
        seconds=20,
    )
    # the emulator's box starts at the same place of the swizzle's pattern
    whole = np.concatenate([np.zeros(offset, np.uint8), shared])
    (made.store if storing else made.load)(memory, whole, offset, at)
    return answers, (memory, whole[offset:]), bool(report[0])


def agree(made: TensorMap, at: tuple[int, ...], offset: int = 0, *, storing: bool = False) -> None:
    found, expected, counted = both(made, at, offset, storing=storing)
    for what, ours, theirs in zip(("global", "shared"), expected, found, strict=True):
        wrong = np.flatnonzero(ours != theirs)
        first = [(int(i), hex(theirs[i]), hex(ours[i])) for i in wrong[:8]]
        assert not wrong.size, f"{made} at {at}, offset {offset}: {wrong.size} bytes of {what} memory differ: {first}"
    assert storing or counted, f"{made} at {at}: {made.bytes} bytes were not all"


def tile(element: str, width: int, rows: int, swizzle: int = 0, **more: object) -> TensorMap:
    """Boxes of `width` elements by `rows` of a matrix of 3 boxes by 3, less a few elements."""
    size = TensorMap(0, element, (16,), (), (16,)).element_bytes
    across = 3 * width - 16 // size
    return TensorMap(
        256, element, (across, 3 * rows - 1), (-(-across * size // 16) * 16 + 16,), (width, rows), swizzle, **more
    )  # type: ignore[arg-type]


@pytest.mark.parametrize("storing", [False, True])
@pytest.mark.parametrize("swizzle", MODES)
@pytest.mark.parametrize("element", ["u8", "u16", "s32", "s64", "f16", "bf16", "f32", "f64"])
def test_elements_swizzles_edges(element, swizzle, storing):
    size = tile(element, 16, 1).element_bytes
    made = tile(element, (swizzle or 96) // size, 20, swizzle)
    width, rows = made.box
    for at in ((0, 0), (width, rows), (2 * width, 2 * rows), (3 * width, 0)):
        agree(made, at, storing=storing)
    if not storing:
        agree(made, (-16 // size, -3))
        agree(made, (-2 * width, 0))


@pytest.mark.parametrize("swizzle", MODES)
def test_the_pattern_follows_the_address(swizzle):
    made = tile("f16", (swizzle or 64) // 2, 24, swizzle)
    for offset in range(0, 1024, 128):
        agree(made, made.box, offset)


@pytest.mark.parametrize(
    ("swizzle", "inner"), [(64, 16), (64, 32), (64, 48), (128, 16), (128, 32), (128, 64), (32, 16), (128, 112)]
)
@pytest.mark.parametrize("storing", [False, True])
def test_boxes_narrower_than_the_swizzle(swizzle, inner, storing):
    """We take it that each line still takes the swizzle's bytes, and that only the box's are counted and written."""
    made = tile("f16", inner // 2, 12, swizzle)
    for offset in (0, 128, 384):
        agree(made, made.box, offset, storing=storing)


@pytest.mark.parametrize("storing", [False, True])
def test_ranks_and_element_strides(storing):
    line = TensorMap(64, "f32", (50,), (), (32,))
    cube = TensorMap(16, "f16", (40, 5, 7), (96, 480), (32, 3, 4), 64)
    steps = TensorMap(16, "f16", (40, 9, 7), (96, 480 * 2), (32, 6, 5), 64, "zeros", (2, 2, 3))
    four = TensorMap(0, "u8", (48, 3, 4, 5), (48, 144, 592), (16, 2, 3, 2))
    five = TensorMap(0, "u8", (48, 3, 4, 2, 3), (64, 192, 768, 1536), (32, 2, 3, 2, 2), 32)
    swapped = TensorMap(0, "bf16", (16, 6, 4), (128, 32), (16, 4, 2), 32)
    for made in (line, cube, steps, four, five, swapped):
        for at in ((0,) * made.rank, (8 if made.rank > 1 else 24, *(1,) * (made.rank - 1))):
            agree(made, at, storing=storing)


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64", "tf32"])
def test_the_nan_that_fills(element):
    made = tile(element, 16, 4, fill="nan")
    agree(made, (made.sizes[0] - 8, made.sizes[1] - 2))
    agree(made, (-8, -1))


@pytest.mark.parametrize("element", ["u8", "f16", "f32", "f64"])
@pytest.mark.parametrize("storing", [False, True])
def test_coordinates_off_the_16_bytes(element, storing):
    """The manual wants the box's address to be a multiple of 16 (5.5.3.1); we copy element by element."""
    made = tile(element, 32 // tile(element, 16, 1).element_bytes, 4)
    for at in ((1, 0), (made.sizes[0] - 3, 1)):
        agree(made, at, storing=storing)
    if not storing:
        agree(made, (-1, 0))


@pytest.mark.parametrize("element", ["f32", "tf32"])
def test_patterns_of_f32(element):
    """Whether tf32 rounds to the nearest, ties to even, what it makes of NaNs, and that f32 changes nothing."""
    made = TensorMap(0, element, (256, 64), (1024,), (64, 64))
    for seed in range(4):
        found, expected, _ = both(made, (64 * seed, 0), seed=seed)
        wrong = np.flatnonzero(found[1].view(np.uint32) != expected[1].view(np.uint32))
        pairs = [(hex(found[1].view(np.uint32)[i]), hex(expected[1].view(np.uint32)[i])) for i in wrong[:8]]
        assert not wrong.size, f"{wrong.size} of {found[1].size // 4} differ (GPU, emulator): {pairs}"


def test_patterns_of_tf32_that_matter():
    """Ties, infinities, NaNs, subnormals, one by one, on the way in and on the way out."""
    bits = np.array(
        [0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F803000, 0x3FFFF000, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
         0x7F800001, 0x7FC12345, 0xFFC00000, 0x00001000, 0x00001001, 0x00000FFF, 0x807FFFFF, 0x80000000],
        np.uint32,
    )  # fmt: skip
    made = TensorMap(0, "tf32", (16,), (), (16,))
    encoded = encode(made)
    answers = {}
    for storing in (False, True):
        memory, shared = bits.view(np.uint8).copy(), bits.view(np.uint8).copy()
        expected = memory.copy(), np.resize(shared, 128)
        numbers = (np.uint64(0), np.uint32(1), np.uint32(0), np.uint32(64), np.uint32(64), np.uint32(storing))
        live.cuda(
            SOURCE, "tensor_copy", 1, 32, encoded, memory, np.zeros(512, np.uint8), np.zeros(5, np.int32), shared,
            np.zeros(1, np.uint32), *numbers, shared=4096,
        )  # fmt: skip
        (made.store if storing else made.load)(*expected, 0, (0,))
        found, ours = (memory, expected[0]) if storing else (shared, expected[1][:64])
        answers[storing] = [
            f"{int(given):#010x}: GPU {int(there):#010x}, emulator {int(here):#010x}"
            for given, there, here in zip(bits, found.view(np.uint32), ours.view(np.uint32), strict=True)
            if there != here
        ]
    assert answers == {False: [], True: []}


def test_strides_in_any_order_and_of_none():
    """The driver takes dimensions in any order, overlapping rows and a stride of 0."""
    for strides in ((32, 128), (16, 16), (0, 512)):
        made = TensorMap(0, "f16", (16, 8, 8), strides, (16, 4, 4))
        assert encode(made) is not None, strides
        agree(made, (0, 2, 2))


# ------------------------------------------------------------------------------------------------ mbarriers

INIT, ARRIVE, DROP, EXPECT, COMPLETE = range(5)


def answers(operations: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Parities 0 and 1 after each operation, and what was pending before an arrival, of the GPU."""
    out = np.zeros((len(operations), 3), np.uint32)
    live.cuda(SOURCE, "mbarrier", 1, 1, np.array(operations, np.uint32), out, np.uint32(len(operations)), seconds=20)
    return [tuple(row) for row in out.tolist()]


def emulated(operations: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    made, out = Mbarrier(1), []
    for what, count in operations:
        pending = made.pending if what in (ARRIVE, DROP) else 0
        if what == INIT:
            made = Mbarrier(count)
        else:
            (made.arrive, made.drop, made.expect_tx, made.complete_tx)[what - 1](count)
        out.append((int(made.test(0)), int(made.test(1)), pending))
    return out


def random_operations(many: int) -> list[tuple[int, int]]:
    """Operations that the manual allows, each on the mbarrier that those before it left."""
    numbers = np.random.default_rng(3)
    made, operations = Mbarrier(4), [(INIT, 4)]
    while len(operations) < many:
        count = int(numbers.integers(1, 4))
        allowed = {
            INIT: numbers.random() < 0.05,
            ARRIVE: count <= made.pending,
            DROP: count <= made.pending and count < made.expected,
            EXPECT: True,
            COMPLETE: 16 * count <= made.tx,
        }
        what = int(numbers.integers(0, 5))
        if not allowed[what]:
            continue
        count *= 16 if what in (EXPECT, COMPLETE) else 1
        if what == INIT:
            made = Mbarrier(count)
        else:
            (made.arrive, made.drop, made.expect_tx, made.complete_tx)[what - 1](count)
        operations.append((what, count))
    return operations


def test_mbarriers_at_random():
    operations = random_operations(2000)
    expected = emulated(operations)
    assert sum(before[:2] != after[:2] for before, after in pairwise(expected)) > 50
    assert answers(operations) == expected


@pytest.mark.parametrize(
    "operations",
    [
        [(INIT, 1), (COMPLETE, 64), (ARRIVE, 1), (EXPECT, 64)],
        [(INIT, 1), (COMPLETE, 64), (EXPECT, 64), (ARRIVE, 1)],
        [(INIT, 2), (EXPECT, MOST), (ARRIVE, 2), (COMPLETE, MOST)],
        [(INIT, 2), (DROP, 1), (ARRIVE, 1), (DROP, 1)],
        [(INIT, MOST), (ARRIVE, MOST), (ARRIVE, 1), (ARRIVE, MOST - 1)],
        [(INIT, 1), (EXPECT, 0), (COMPLETE, 0), (ARRIVE, 1)],
    ],
    ids=["bytes first", "bytes first, then expected", "most bytes", "all drop out", "most arrivals", "none"],
)  # fmt: skip
def test_mbarriers_at_their_limits(operations):
    assert answers(operations) == emulated(operations)
