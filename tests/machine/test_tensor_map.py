"""Tensor maps: against loops over elements, the manual's swizzle tables, and the descriptors that read the tiles."""

import itertools
import math
from types import SimpleNamespace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples

from tcemu.errors import AddressError, OperandError
from tcemu.layouts import Descriptor, copy_tile, read_tile
from tcemu.machine.global_memory import Pointer
from tcemu.machine.tensor_map import ELEMENTS, TensorMap

#: PTX ISA 9.1, 5.5.7: which unit of 16 bytes of a line of 128 lies where, line by line; then the pattern repeats.
TABLES = {
    0: ["01234567"],
    32: ["01234567", "10325476"],
    64: ["01234567", "10325476", "23016745", "32107654"],
    128: ["01234567", "10325476", "23016745", "32107654", "45670123", "54761032", "67452301", "76543210"],
}
SWIZZLES = tuple(TABLES)
every_swizzle = pytest.mark.parametrize("swizzle", SWIZZLES)


def turned(swizzle: int, address: int) -> int:
    """The manual's table: the unit at `address` before the swizzle goes to the place of its number in the table."""
    rows = TABLES[swizzle]
    line, rest = divmod(address, 128)
    return 128 * line + 16 * rows[line % len(rows)].index(str(rest // 16)) + rest % 16


def elements(made: TensorMap, coordinates: tuple[int, ...], shared: int, *, whole: bool = False):
    """Element by element: its bytes in global memory (None outside of the tensor) and in shared memory.

    With `whole`, a line of the tensor goes on to the next multiple of 16 bytes.
    """
    size, steps = ELEMENTS[made.element].bytes, (1, *made.element_strides[1:])
    sizes = (math.ceil(made.sizes[0] * size / 16) * 16 // size, *made.sizes[1:]) if whole else made.sizes
    counts = [len(range(0, length, step)) for length, step in zip(made.box, steps, strict=True)]
    pitch = max(made.box[0] * size, made.swizzle)
    for number, index in enumerate(itertools.product(*(range(count) for count in reversed(counts)))):
        place = [at + step * i for at, step, i in zip(coordinates, steps, reversed(index), strict=True)]
        inside = all(0 <= at < length for at, length in zip(place, sizes, strict=True))
        where = made.address + sum(at * stride for at, stride in zip(place, (size, *made.strides), strict=True))
        line, column = divmod(number, counts[0])
        yield where if inside else None, turned(made.swizzle, shared + line * pitch + column * size)


def loaded(made: TensorMap, memory: np.ndarray, shared: np.ndarray, address: int, at: tuple[int, ...]) -> np.ndarray:
    size = ELEMENTS[made.element].bytes
    result = shared.copy()
    outside = [0] * size if made.fill == "zeros" else [0xF7, 0x7F] * (size // 2)
    for source, target in elements(made, at, address):
        result[target : target + size] = outside if source is None else memory[source : source + size]
    return result


@st.composite
def copies(draw: st.DrawFn, *, storing: bool = False):
    """A map, coordinates around the tensor that a copy may start at, and an address in shared memory."""
    name = draw(st.sampled_from([name for name in ELEMENTS if name != "tf32"]))
    size, is_float = ELEMENTS[name].bytes, ELEMENTS[name].float
    rank = draw(st.integers(1, 5))
    swizzle = draw(st.sampled_from(SWIZZLES))
    units = draw(st.integers(1, swizzle // 16 if swizzle else 3))
    box = (16 * units // size, *(draw(st.integers(1, 4)) for _ in range(rank - 1)))
    sizes = (draw(st.integers(1, 40)), *(draw(st.integers(1, 5)) for _ in range(rank - 1)))
    strides, step = [], -(-sizes[0] * size // 16) * 16
    for length in sizes[1:]:
        step += 16 * draw(st.integers(0, 2))
        strides.append(step)
        step *= length
    low = 0 if storing else -3
    unit = 16 // size
    first = unit * draw(st.integers(low, -(-sizes[0] // unit)))
    at = (first, *(draw(st.integers(low, length + 1)) for length in sizes[1:]))
    fill = draw(st.sampled_from(["zeros", "nan"] if is_float else ["zeros"]))
    steps = (draw(st.integers(1, 8)), *(draw(st.integers(1, 3)) for _ in range(rank - 1)))
    made = TensorMap(16 * draw(st.integers(0, 3)), name, sizes, tuple(strides), box, swizzle, fill, steps)
    return made, at, 128 * draw(st.integers(0, 9))


def _memories(made: TensorMap, address: int) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(5)
    far = sum((length - 1) * stride for length, stride in zip(made.sizes[1:], made.strides, strict=True))
    memory = numbers.integers(0, 256, made.address + far + made.sizes[0] * made.element_bytes, np.uint8)
    lines = math.prod(made.copied[1:])
    return memory, numbers.integers(0, 256, address + lines * max(made.line, made.swizzle), np.uint8)


@examples(300)
@given(copies())
def test_loads_against_a_loop_over_elements(copy):
    made, at, address = copy
    memory, shared = _memories(made, address)
    expected = loaded(made, memory, shared, address, at)
    made.load(memory, shared, address, at)
    assert np.array_equal(shared, expected)
    assert made.bytes == made.element_bytes * sum(1 for _ in elements(made, at, address))
    assert len(shared) == address + made.shared_bytes


@examples(300)
@given(copies(storing=True))
def test_stores_against_a_loop_over_elements(copy):
    """Whole units of 16 bytes are written, as far as there is memory, as on an H200 (tests/golden)."""
    made, at, address = copy
    memory, shared = _memories(made, address)
    expected = memory.copy()
    for target, source in elements(made, at, address, whole=True):
        if target is not None and target < len(memory):
            expected[target : target + made.element_bytes] = shared[source : source + made.element_bytes]
    made.store(memory, shared, address, at)
    assert np.array_equal(memory, expected)


@examples(100)
@given(copies())
def test_pieces_are_the_bytes_that_move(copy):
    """Pieces are aligned to their size and in the box's order, and cover each element once."""
    made, at, address = copy
    found = made.pieces(at, address)
    assert found.size in (1, 2, 4, 8, 16)
    assert found.size >= made.element_bytes
    assert len(found.inside) * found.size == made.bytes
    assert not (found.shared_addresses % found.size).any()
    assert not (found.global_addresses % found.size).any()
    step = found.size // made.element_bytes
    expected = list(elements(made, at, address))
    assert found.shared_addresses.tolist() == [target for _, target in expected[::step]]
    told = np.where(found.inside, found.global_addresses, -1).tolist()
    assert told == [-1 if source is None else source for source, _ in expected[::step]]


# ------------------------------------------------------------------------------------------------ what wgmma reads


@every_swizzle
@pytest.mark.parametrize("name", ["bf16", "f32", "u8"])
@pytest.mark.parametrize("start", [0, 1024, 3072])
def test_descriptors_read_k_major_boxes(name, swizzle, start):
    """A box of the swizzle's bytes along k, side by side; without a swizzle one box for each 16 bytes."""
    dtype = np.dtype({"bf16": ml_dtypes.bfloat16, "f32": np.float32, "u8": np.uint8}[name])
    width, rows, boxes = (swizzle or 16) // dtype.itemsize, 64, 2
    matrix = np.random.default_rng(1).integers(0, 256, (80, 3 * width * dtype.itemsize), np.uint8)
    shared = np.zeros(start + 2 * 64 * 128 + 64, np.uint8)
    made = TensorMap.of(Pointer(0, dtype, (80, 3 * width)), (width, rows), swizzle=swizzle)
    assert made.element == name
    for number in range(boxes):
        made.load(matrix.reshape(-1), shared, start + number * made.bytes, (width * (1 + number), 8))
    bits = 8 * dtype.itemsize
    descriptor = Descriptor.for_tile(bits, rows, boxes * width, swizzle=swizzle, start=start)
    found = read_tile(shared, descriptor, (rows, boxes * width), bits)
    assert np.array_equal(found, matrix.view(f"u{dtype.itemsize}")[8:72, width : 3 * width])


@every_swizzle
def test_descriptors_read_mn_major_boxes(swizzle):
    """The neighbours of a line along mn; the box's lines go along k."""
    width, k, boxes = (swizzle or 16) // 2, 32, 2
    matrix = np.random.default_rng(2).integers(0, 1 << 16, (48, 3 * width), np.uint16)
    shared = np.zeros(4096 + boxes * k * 128, np.uint8)
    made = TensorMap.of(Pointer(0, matrix.dtype, matrix.shape), (width, k), swizzle=swizzle)
    for number in range(boxes):
        made.load(matrix.reshape(-1).view(np.uint8), shared, 4096 + number * made.bytes, (width * (1 + number), 8))
    descriptor = Descriptor.for_tile(16, boxes * width, k, major="MN", swizzle=swizzle, start=4096, atoms_along="K")
    found = read_tile(shared, descriptor, (boxes * width, k), 16, "MN")
    assert np.array_equal(found, matrix[8:40, width : 3 * width].T)


@every_swizzle
def test_a_tile_that_copy_tile_wrote_is_stored(swizzle):
    matrix = np.random.default_rng(3).integers(0, 1 << 16, (16, (swizzle or 16) // 2), np.uint16)
    shared = np.zeros(4096, np.uint8)
    copy_tile(matrix, shared, Descriptor.for_tile(16, *matrix.shape, swizzle=swizzle, start=2048))
    memory = np.zeros(matrix.nbytes, np.uint8)
    made = TensorMap.of(Pointer(0, matrix.dtype, matrix.shape), matrix.shape[::-1], swizzle=swizzle)
    made.store(memory, shared, 2048, (0, 0))
    assert np.array_equal(memory.view(np.uint16).reshape(matrix.shape), matrix)


@every_swizzle
def test_the_pattern_follows_the_address_and_not_the_box(swizzle):
    """From any multiple of 128 on: units are where the table puts them for the absolute address."""
    made = TensorMap(0, "u8", (swizzle or 128, 8), (swizzle or 128,), (swizzle or 128, 8), swizzle)
    for address in range(0, 2048, 128):
        found = made.pieces((0, 0), address)
        assert found.size == 16
        assert found.shared_addresses.tolist() == [turned(swizzle, address + at) for at in range(0, made.bytes, 16)]


def test_a_box_narrower_than_its_swizzle_takes_the_swizzle_s_lines():
    made = TensorMap(0, "f16", (64, 8), (128,), (16, 8), 128)
    assert (made.line, made.pitch, made.bytes, made.shared_bytes) == (32, 128, 256, 1024)
    assert made.pieces((0, 0)).shared_addresses.tolist()[:6] == [0, 16, 144, 128, 288, 304]


# ------------------------------------------------------------------------------------------------ details


def test_pieces_are_as_large_as_the_edge_allows():
    whole = TensorMap(0, "f16", (24, 4), (48,), (16, 4))
    assert whole.pieces((8, 0)).size == 16
    assert whole.pieces((16, 0)).inside.tolist() == [True, False] * 4
    odd = TensorMap(0, "f16", (20, 4), (48,), (16, 4))
    assert [odd.pieces((at, 0)).size for at in (0, 8, 24)] == [16, 8, 16]
    assert TensorMap(0, "f16", (19, 4), (48,), (16, 4)).pieces((8, 0)).size == 2
    assert [odd.pieces((at, 0), storing=True).size for at in (0, 8, 24)] == [16, 16, 16]


@pytest.mark.parametrize("rank", [1, 2])
def test_a_store_writes_units_of_16_bytes(rank):
    """The last 2 of 50 floats are in a unit whose other 8 bytes are written too: padding, or whatever follows."""
    made = TensorMap(64, "f32", (50, 2)[:rank], (208,)[: rank - 1], (32, 1)[:rank])
    memory, shared = np.zeros(64 + 208 * rank, np.uint8), np.full(128, 255, np.uint8)
    made.store(memory, shared, 0, (24, 0)[:rank])
    assert np.flatnonzero(memory).tolist() == list(range(64 + 96, 64 + 208))
    memory = np.zeros(64 + 208 * rank - 8, np.uint8)  # nothing lies behind
    made.store(memory, shared, 0, (24, rank - 1)[:rank])
    assert np.flatnonzero(memory).tolist() == list(range(208 * rank - 48, 64 + 208 * rank - 8))
    with pytest.raises(AddressError, match="global memory has 255"):
        TensorMap(64, "f32", (50,), (), (32,)).store(np.zeros(255, np.uint8), shared, 0, (24,))


@pytest.mark.parametrize(
    ("element", "at", "near"),
    [
        ("u8", 8, "multiple of 16 elements of u8: 0 or 16"),
        ("u8", -1, "multiple of 16 elements of u8: -16 or 0"),
        ("f16", 85, "multiple of 8 elements of f16: 80 or 88"),
        ("f32", -2, "multiple of 4 elements of f32: -4 or 0"),
        ("f64", 3, "multiple of 2 elements of f64: 2 or 4"),
    ],
)
def test_a_box_that_starts_inside_a_unit_of_16_bytes(element, at, near):
    """A GPU stops then, wherever the box is (tests/golden)."""
    made = TensorMap(0, element, (160, 4), (1280,), (16, 2))
    for storing in {False, at > 0}:
        with pytest.raises(AddressError) as error:
            made.pieces((at, 9), storing=storing)
        assert error.value.kind == "alignment"
        assert f"{near}; got ({at}, 9). A GPU stops" in str(error.value)
        assert "(PTX ISA 9.1, 5.5.3.1 " in str(error.value)


def test_what_lies_outside_is_filled():
    memory = np.arange(1, 33, dtype=np.float32).view(np.uint8)
    for name, fill, patterns in (("f32", "nan", 0x7FF77FF7), ("f32", "zeros", 0), ("tf32", "nan", 0x7FF77FF7)):
        shared = np.full(128, 255, np.uint8)
        TensorMap(0, name, (6, 4), (32,), (4, 2), fill=fill).load(memory, shared, 0, (4, 3))
        assert shared.view(np.uint32)[[2, 3, 4, 5, 6, 7]].tolist() == [patterns] * 6
        assert shared.view(np.float32)[:2].tolist() == [29, 30]
        assert (shared[32:] == 255).all()


def test_tf32_is_rounded_when_loaded_and_not_when_stored():
    """Nearest, ties to even: Triton's test of a tensor descriptor, which passes on sm_120."""
    bits = np.array(
        [0x3F800FFF, 0x3F801000, 0x3F803000, 0x3FFFF000, 0x7F800000, 0x7FC12345, 0x80001001, 0x7F800001], np.uint32
    )
    shared = np.zeros(128, np.uint8)
    made = TensorMap(0, "tf32", (8,), (), (8,))
    made.load(bits.view(np.uint8), shared, 0, (0,))
    rounded = [0x3F800000, 0x3F800000, 0x3F804000, 0x40000000, 0x7F800000, 0x7FFFE000, 0x80002000, 0x7FFFE000]
    assert shared.view(np.uint32)[:8].tolist() == rounded
    memory = np.zeros(32, np.uint8)
    shared[:32] = bits.view(np.uint8)
    made.store(memory, shared, 0, (0,))
    assert np.array_equal(memory.view(np.uint32), bits)


def test_maps_of_whole_arrays():
    made = TensorMap.of(Pointer(512, np.dtype(np.float16), (2, 3, 64)), (64, 2, 1), swizzle=128, fill="nan")
    assert made == TensorMap(512, "f16", (64, 3, 2), (128, 384), (64, 2, 1), 128, "nan", (1, 1, 1))
    assert hash(made) == hash(TensorMap(512, "f16", (64, 3, 2), (128, 384), (64, 2, 1), 128, "nan"))
    assert str(made) == "box 64 × 2 × 1 of a tensor 64 × 3 × 2 of f16, 128-byte swizzle"
    assert TensorMap.of(Pointer(0, np.dtype(np.float32), (8, 8)), (8, 8), element="tf32").element == "tf32"
    assert TensorMap.of(Pointer(0, np.dtype(ml_dtypes.float8_e4m3fn), (16,)), [16]).element == "u8"
    assert TensorMap.of(Pointer(0, np.dtype(np.int8), (16,)), np.array([16])).box == (16,)


GOOD = {"address": 256, "element": "f16", "sizes": (64, 32), "strides": (128,), "box": (64, 16)}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"element": "e4m3"}, "types of 8 bits are copied as u8"),
        ({"element": "bf61"}, "Did you mean 'bf16'?"),
        ({"sizes": (), "strides": (), "box": ()}, "1 to 5 dimensions"),
        ({"sizes": (8,) * 6, "strides": (16,) * 5, "box": (8,) * 6}, "1 to 5 dimensions"),
        ({"strides": (2, 128)}, "2 sizes need 1 strides, none for the innermost dimension"),
        ({"box": (64,)}, "2 sizes need 2 box"),
        ({"element_strides": (1,)}, "2 sizes need 2 element_strides"),
        ({"address": 8}, "must start at a multiple of 16; got address 8"),
        ({"address": "a"}, "tensor map: address: not a whole number: 'a'"),
        ({"sizes": (64, 0)}, "sizes must be 1 to 4294967296"),
        ({"sizes": (64, 2**32 + 1)}, "sizes must be 1 to 4294967296"),
        ({"sizes": (64.0, 1)}, "sizes: not a whole number: 64.0"),
        ({"strides": (136,)}, "multiples of 16 bytes"),
        ({"strides": (1 << 40,)}, "below 2^40"),
        ({"strides": (-16,)}, "multiples of 16 bytes"),
        ({"box": (64, 257)}, "box must be 1 to 256"),
        ({"box": (4, 1)}, "a multiple of 16 bytes; box (4, 1) has 8"),
        ({"element_strides": (1, 9)}, "element_strides must be 1 to 8"),
        ({"swizzle": 96}, "a swizzle must be 0, 32, 64 or 128 bytes; got 96"),
        ({"swizzle": 32}, "has 128 bytes; with a swizzle of 32 bytes it has at most 32. Copy 4 boxes"),
        ({"fill": "ones"}, "fill must be zeros or nan; got 'ones'"),
        ({"element": "u16", "fill": "nan"}, "for floats only; u16 is not a float"),
    ],
)
def test_what_the_driver_would_not_accept(change, told):
    TensorMap(**GOOD)
    with pytest.raises(OperandError) as error:
        TensorMap(**(GOOD | change))
    assert told in str(error.value)
    assert "PTX ISA 9.1, 5.5" in str(error.value) or "not a whole number" in str(error.value)


@pytest.mark.parametrize(
    ("dtype", "how", "told"),
    [
        (np.complex64, {}, "; got complex64"),
        (ml_dtypes.float4_e2m1fn, {}, "; got float4_e2m1fn"),
        (np.float16, {"element": "f32"}, "elements of f32 have 4 bytes, those of float16 2"),
    ],
)
def test_arrays_that_are_no_tensor(dtype, how, told):
    with pytest.raises(OperandError, match=told):
        TensorMap.of(SimpleNamespace(dtype=np.dtype(dtype), shape=(32,)), (16,), **how)
    with pytest.raises(OperandError, match="the pointer that the kernel gets"):
        TensorMap.of(np.zeros(16), (16,))


def test_copies_that_no_hardware_does():
    made = TensorMap(**GOOD)
    memory, shared = np.zeros(256 + 64 * 64, np.uint8), np.zeros(4096, np.uint8)
    with pytest.raises(AddressError, match="at a multiple of 128; got 64") as error:
        made.load(memory, shared, 64, (0, 0))
    assert error.value.kind == "alignment"
    with pytest.raises(AddressError, match="address 4096, 16 bytes, but shared memory has 4096 bytes") as error:
        made.load(memory, shared, 4096 - 1920, (0, 0))
    assert error.value.kind == "bounds"
    with pytest.raises(AddressError, match="but global memory has 4351 bytes"):
        made.load(memory[:-1], shared, 0, (0, 16))
    for at in ((0,), (0, 0, 0), (1 << 31, 0), 5):
        with pytest.raises(OperandError, match="coordinates of 32 bits each, innermost first"):
            made.pieces(at)
    with pytest.raises(OperandError, match=r"cannot have negative coordinates; got \(-8, 0\)"):
        made.store(memory, shared, 0, (-8, 0))
    assert not memory.any()
