"""Tensor copies and mbarriers on this machine's GPU and in the emulator: pytest --live tests/machine/test_tma_live.py.

Without --live, or without a GPU of sm_90a, these skip; of tensor copies test_tensor_copies.py replays what an H200
answered. What the manual leaves open has a test of its own, so that a failure says what hardware does instead.
"""

from itertools import pairwise

import hopper
import numpy as np
import pytest
import tensor_copies
from tensor_copies import MODES, SHAPES, SOURCE, Copied, tile

from tcemu import live
from tcemu.machine.mbarrier import MOST, Mbarrier, parity_of, pending_count
from tcemu.machine.tensor_map import ELEMENTS, TensorMap

pytestmark = pytest.mark.live_gpu
both_ways = pytest.mark.parametrize("storing", [False, True], ids=["load", "store"])


@pytest.fixture(autouse=True)
def _gpu(request):
    hopper.need(request, "tests/tma.cu is")


def agree(copy: Copied) -> None:
    *found, counted = copy.asked()
    for what, ours, theirs in zip(("global", "shared"), copy.emulated(), found, strict=True):
        wrong = np.flatnonzero(ours != theirs)
        first = [(int(i), hex(theirs[i]), hex(ours[i])) for i in wrong[:8]]
        assert not wrong.size, f"{copy}: {wrong.size} bytes of {what} memory differ (at, GPU, emulator): {first}"
    assert copy.storing or counted, f"{copy}: {copy.map.bytes} bytes were not all"


@both_ways
@pytest.mark.parametrize("swizzle", MODES)
@pytest.mark.parametrize("element", ELEMENTS)
def test_elements_swizzles_edges(element, swizzle, storing):
    made = tile(element, (swizzle or 96) // ELEMENTS[element].bytes, 20, swizzle)
    for copy in tensor_copies.edges(made, storing):
        agree(copy)


@pytest.mark.parametrize("swizzle", MODES)
def test_the_pattern_follows_the_address(swizzle):
    made = tile("f16", (swizzle or 64) // 2, 24, swizzle)
    for offset in range(0, 1024, 128):
        agree(Copied(made, made.box, offset))


@both_ways
def test_boxes_narrower_than_the_swizzle(storing):
    """Each line still takes the swizzle's bytes, and only the box's are counted and written."""
    for copy in tensor_copies.narrow(storing):
        agree(copy)


@both_ways
def test_ranks_element_strides_and_strides_in_any_order(storing):
    """The driver takes dimensions in any order, overlapping lines and a stride of 0."""
    copies = list(tensor_copies.shapes(storing))
    assert storing or {copy.map for copy in copies} == set(SHAPES)
    for copy in copies:
        agree(copy)


@both_ways
def test_dimensions_that_end_inside_a_unit_of_16_bytes(storing):
    """Loads fill elements outside, stores write the whole unit."""
    for copy in tensor_copies.partial(storing):
        agree(copy)


@pytest.mark.parametrize("element", [name for name, kind in ELEMENTS.items() if kind.float])
def test_the_nan_that_fills(element):
    for copy in tensor_copies.edges(tile(element, 16, 4, fill="nan")):
        agree(copy)


@pytest.mark.parametrize(
    "copy", list(tensor_copies.stopping()), ids=lambda copy: f"{copy.map.element} {copy.at} {copy.offset}"
)
def test_what_stops_a_gpu(copy):
    """A box that starts inside a unit of 16 bytes (5.5.3.1), is stored at negative coordinates, or is unaligned."""
    answer = copy.gpu_answer()
    assert answer == copy.answer()
    assert answer in (tensor_copies.REFUSED, tensor_copies.MISALIGNED)


@pytest.mark.parametrize("element", ["f32", "tf32"])
def test_patterns_of_f32(element):
    """Whether tf32 rounds to the nearest, ties to even, what it makes of NaNs, and that f32 changes nothing."""
    made = TensorMap(0, element, (256, 64), (1024,), (64, 64))
    for first in range(0, 256, 64):
        agree(Copied(made, (first, 0)))


def test_patterns_of_tf32_that_matter():
    """Ties, infinities, NaNs, subnormals, one by one, on the way in and on the way out."""
    bits = np.array(
        [0x3F800FFF, 0x3F801000, 0x3F801001, 0x3F803000, 0x3FFFF000, 0x7F7FFFFF, 0x7F800000, 0xFF800000,
         0x7F800001, 0x7FC12345, 0xFFC00000, 0x00001000, 0x00001001, 0x00000FFF, 0x807FFFFF, 0x80000000],
        np.uint32,
    )  # fmt: skip
    made = TensorMap(0, "tf32", (16,), (), (16,))
    encoded = tensor_copies.encoded(made)
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


# ------------------------------------------------------------------------------------------------ mbarriers

INIT, ARRIVE, DROP, EXPECT, COMPLETE, ARRIVE_EXPECT = range(6)


def answers(operations: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """Of the GPU after each operation: parities 0 and 1, what was pending before an arrival, the state it returned."""
    out = np.zeros((len(operations), 4), np.uint32)
    live.cuda(SOURCE, "mbarrier", 1, 1, np.array(operations, np.uint32), out, np.uint32(len(operations)), seconds=20)
    return [tuple(row) for row in out.tolist()]


def operate(made: Mbarrier, what: int, count: int) -> Mbarrier:
    if what == INIT:
        return Mbarrier(count)
    if what == ARRIVE_EXPECT:
        made.expect_tx(count)
        made.arrive()
    else:
        (made.arrive, made.drop, made.expect_tx, made.complete_tx)[what - 1](count)
    return made


def emulated(operations: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    made, out, state = Mbarrier(1), [], None
    for what, count in operations:
        arrives = what in (ARRIVE, DROP, ARRIVE_EXPECT)
        state = made.encode() if arrives else None if what == INIT else state
        made = operate(made, what, count)
        found = state is not None and made.test(parity_of(state))
        out.append((int(made.test(0)), int(made.test(1)), pending_count(state) if arrives else 0, int(found)))
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
            ARRIVE_EXPECT: made.pending > 0,
        }
        what = int(numbers.integers(0, 6))
        if not allowed[what]:
            continue
        count *= 16 if what in (EXPECT, COMPLETE, ARRIVE_EXPECT) else 1
        made = operate(made, what, count)
        operations.append((what, count))
    return operations


def test_mbarriers_at_random():
    operations = random_operations(2000)
    expected = emulated(operations)
    assert sum(before[:2] != after[:2] for before, after in pairwise(expected)) > 50
    assert 100 < sum(after[3] for after in expected) < 1900
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
        [(INIT, 1), (COMPLETE, 64), (ARRIVE_EXPECT, 64), (ARRIVE_EXPECT, 0)],
    ],
    ids=["bytes first", "bytes first, then expected", "most bytes", "all drop out", "most arrivals", "none", "both"],
)
def test_mbarriers_at_their_limits(operations):
    assert answers(operations) == emulated(operations)
