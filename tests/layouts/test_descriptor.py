"""Descriptors of tiles in shared memory: the manual's examples, the copier's laws, wgmma on every layout, diagnoses."""

from itertools import product
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from quick import examples, some
from rows import rows

import tcemu
from tcemu import show
from tcemu.errors import LayoutError, OperandError
from tcemu.formats import lookup
from tcemu.layouts import Descriptor, copy_tile, diagnose, read_tile
from tcemu.layouts.canonical import Canonical, element_bits
from tcemu.layouts.descriptor import FIELDS, RESERVED

FORMATS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8", "b1")
SWIZZLES = (0, 32, 64, 128)
#: Every canonical layout; b1 is K-major only.
LAYOUTS = [(name, major, w) for name, major, w in product(FORMATS, ("K", "MN"), SWIZZLES) if name + major != "b1MN"]
every_layout = rows("name, major, swizzle", LAYOUTS)


# ------------------------------------------------------------------------------------------------ the manual's examples


@pytest.mark.parametrize(
    ("name", "mn", "k", "major", "swizzle", "lbo", "sbo"),
    [
        ("tf32", 16, 16, "K", 0, 256, 128),
        ("tf32", 16, 8, "K", 32, None, 256),
        ("bf16", 16, 16, "MN", 0, 256, 128),
        ("bf16", 32, 16, "MN", 32, 256, 512),
        ("bf16", 64, 16, "MN", 64, 512, 1024),
        ("f16", 64, 64, "K", 128, None, 1024),
    ],
)
def test_examples_of_the_manual(name, mn, k, major, swizzle, lbo, sbo):
    """LBO and SBO of PTX ISA 9.1, 9.7.15.5.1.2, and of the usual tile of f16; a field that is not used holds 1."""
    made = Descriptor.for_tile(name, mn, k, major=major, swizzle=swizzle)
    assert (made.lbo, made.sbo) == (16 if lbo is None else lbo, sbo)
    bits = made.encode()
    assert (bits >> 16 & 0x3FFF, bits >> 32 & 0x3FFF) == (made.lbo // 16, sbo // 16)
    assert not diagnose(made, name, mn, k, major)


def test_the_manual_s_layout_element_by_element():
    """K-major tf32, ((8,2),(4,4)):((4,32),(1,64)) in elements."""
    made = Descriptor.for_tile("tf32", 16, 16)
    for mn, k in np.ndindex(16, 16):
        assert made.address(mn, k, "tf32") == 4 * (mn % 8 * 4 + mn // 8 * 32 + k % 4 + k // 4 * 64)


def test_tiles_as_tma_writes_them():
    """Boxes of 128 bytes by 64: rows one after the other, then the next box."""
    a = Descriptor.for_tile("f16", 64, 128, swizzle=128)
    assert (a.lbo, a.sbo) == (64 * 128, 1024)
    b = Descriptor.for_tile("f16", 128, 64, major="MN", swizzle=128, atoms_along="K")
    assert (b.lbo, b.sbo) == (64 * 128, 1024)
    assert b.address(64, 9, "f16", "MN") == 8192 + 9 * 128 + 16
    assert Descriptor.for_tile("f16", 64, 128, swizzle=128, pitch=9216).lbo == 9216


def test_the_layouts_contradict_nobody():
    assert Canonical(16, "MN", 64).atom == (32, 8)
    assert Canonical(1).atom == (8, 128)
    assert str(Canonical(8, "K", 32)) == "K-major, 32-byte swizzle"
    assert element_bits(lookup("tf32")) == element_bits(32) == 32


# ------------------------------------------------------------------------------------------------ laws


def _random(numbers: np.random.Generator, name: str, shape: tuple[int, int]) -> np.ndarray:
    form = lookup(name)
    patterns = numbers.integers(0, 1 << min(form.container, 63), shape, dtype=np.uint64).astype(form.storage)
    return form.matrix(patterns)


def _tile(name: str, major: str, swizzle: int, **how: Any) -> tuple[Descriptor, tuple[int, int]]:
    """A tile of 2 by 3 atoms."""
    layout = Canonical(element_bits(name), major, swizzle)
    mn, k = 2 * layout.atom[0], 3 * layout.atom[1]
    return Descriptor.for_tile(name, mn, k, major=major, swizzle=swizzle, **how), (mn, k)


@pytest.mark.parametrize("first", ["MN", "K"])
@every_layout
def test_a_tile_without_gaps_is_a_permutation_of_its_bytes(name, major, swizzle, first):
    made, (mn, k) = _tile(name, major, swizzle, atoms_along=first, start=1024)
    size = mn * k * element_bits(name) // 8
    shared = np.zeros(1024 + size, np.uint8)
    ones = np.full((mn, k), -1 if name == "s8" else (1 << element_bits(name)) - 1)
    copy_tile(lookup(name).matrix(ones.astype(lookup(name).storage)), shared, made, major)
    assert not shared[:1024].any()
    assert (shared[1024:] == 255).all()


@pytest.mark.parametrize(("name", "major", "swizzle"), LAYOUTS)
@examples(10)
@given(data=st.data())
def test_what_is_put_is_found(name, major, swizzle, data):
    layout = Canonical(element_bits(name), major, swizzle)
    align = 128 if swizzle else 16
    first = data.draw(st.sampled_from(["MN", "K"]))
    mn, k = (data.draw(st.integers(1, 2 * size + 3)) for size in layout.atom)
    k = -(-k // 8) * 8 if name == "b1" else k
    counts = dict(zip(("MN", "K"), layout.atoms(mn, k), strict=True))
    pitch = counts[first] * layout.atom_bytes + 16 * data.draw(st.integers(0, 40))
    start = align * data.draw(st.integers(0, 40))
    made = Descriptor.for_tile(name, mn, k, major=major, swizzle=swizzle, atoms_along=first, pitch=pitch, start=start)
    numbers = np.random.default_rng(data.draw(st.integers(0, 99)))
    matrix, shared = _random(numbers, name, (mn, k)), numbers.integers(0, 256, 1 << 16, np.uint8)
    before = shared.copy()
    copy_tile(matrix, shared, made, major)
    back = read_tile(shared, made, (mn, k), name, major)
    form = lookup(name)
    assert back.dtype == form.dtype
    assert np.array_equal(form.patterns(back), form.patterns(matrix))
    assert (shared != before).sum() <= mn * k * layout.bits // 8
    for row, column in ((0, 0), (mn - 1, k - 1), (mn // 2, k // 3)):
        byte = shared[made.address(row, column, name, major)]
        value = int(form.patterns(matrix)[row, column])
        assert byte >> column % 8 & 1 == value if name == "b1" else byte == value & 255


@every_layout
def test_a_step_finds_the_rest_of_the_tile(name, major, swizzle):
    """Sub-tiles at every place where a tile can be cut, up to the end of the line."""
    made, (mn, k) = _tile(name, major, swizzle, start=4096)
    layout = made.layout(name, major)
    unit = 128 // layout.bits
    cuts = (8, unit) if major == "K" else (unit, 8)
    for row, column in some(product(range(0, mn, cuts[0]), range(0, k, cuts[1])), 6):
        part = made.advance(name, mn=row, k=column, major=major)
        assert (part.lbo, part.sbo, part.swizzle, part.base_offset) == (made.lbo, made.sbo, swizzle, 0)
        for i, j in product((0, cuts[0] - 1), (0, cuts[1] - 1)):
            assert part.address(i, j, name, major) == made.address(row + i, column + j, name, major)


def test_a_step_along_k_moves_the_start_only():
    made = Descriptor.for_tile("f16", 64, 64, swizzle=128, start=2048)
    assert made.step(32) == made.advance("f16", k=16) == Descriptor(2080, 16, 1024, 128)
    assert made.advance("f16", mn=8) == made.step(1024)
    assert made.step(64).step(-64) == made
    assert not diagnose(made.step(96), "f16", 64, 16)
    assert [fault.name for fault in diagnose(made.step(112), "f16", 64, 16)] == ["boundary"]


@pytest.mark.parametrize("swizzle", [32, 64, 128])
def test_a_base_offset_moves_the_pattern_with_the_tile(swizzle):
    """The tile is read as it is on its boundary; tests/golden has an H200's answer for it."""
    on, size = Descriptor.for_tile("f16", 16, swizzle // 2, swizzle=swizzle), swizzle // 2
    places = {place: on.address(*place, 16) for place in np.ndindex(16, size)}
    for start in some(range(128, 2048, 128), 4):
        made = Descriptor.for_tile("f16", 16, size, swizzle=swizzle, start=start)
        assert made.base_offset == (start >> 7 & 7 if start % (8 * swizzle) else 0)
        assert {place: made.address(*place, 16) - start for place in places} == places
        assert not diagnose(made, "f16", 16, size)


def test_tiles_of_several_memories():
    matrices = np.arange(2 * 8 * 8, dtype=np.uint16).reshape(2, 8, 8)
    shared, made = np.zeros((2, 256), np.uint8), Descriptor.for_tile(16, 8, 8, start=64)
    copy_tile(matrices, shared, made)
    assert np.array_equal(read_tile(shared, made, (8, 8), 16), matrices)
    assert np.array_equal(read_tile(shared[1], made.encode(), (8, 8), "f16").view(np.uint16), matrices[1])
    copy_tile(matrices[0], shared, made)
    assert np.array_equal(read_tile(shared[1], made, (8, 8), 16), matrices[0])


def test_a_view_of_shared_memory_is_written():
    whole = np.zeros(512, np.uint8)
    made = Descriptor.for_tile("s8", 8, 16)
    copy_tile(np.full((8, 16), -1, np.int8), whole[::2], made)
    assert (whole[:256:2] == 255).all()
    assert not whole[1::2].any()


# ------------------------------------------------------------------------------------------------ wgmma

OPCODES = {
    "f16": "m64n{n}k16.f32.f16.f16",
    "bf16": "m64n{n}k16.f32.bf16.bf16",
    "tf32": "m64n{n}k8.f32.tf32.tf32",
    "e4m3": "m64n{n}k32.f16.e4m3.e5m2",
    "s8": "m64n{n}k32.s32.s8.u8",
    "b1": "m64n{n}k256.s32.b1.b1.and.popc",
}
MAJORS = [
    (name, *majors)
    for name in OPCODES
    for majors in (product(("K", "MN"), repeat=2) if name in ("f16", "bf16") else [("K", "K")])
]


def _values(numbers: np.random.Generator, name: str, shape: tuple[int, int]) -> np.ndarray:
    form = lookup(name)
    if form.kind != "float":
        return _random(numbers, name, shape)
    return form.matrix(form.encode(numbers.normal(size=shape)))


@pytest.mark.slow
@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("first", ["MN", "K"])
@rows("name, a_major, b_major", MAJORS)
def test_wgmma_on_every_layout_is_matmul(name, a_major, b_major, swizzle, first):
    """A loop over a swizzle's width of K, by steps of the start address, against whole matrices by one instruction."""
    n = 16
    opcode = f"wgmma.mma_async.sync.aligned.{OPCODES[name].format(n=n)}"
    instruction = tcemu.parse(opcode)
    types, step = instruction.types, instruction.shape.k
    k = 4 * step
    numbers = np.random.default_rng(3)
    a, b = _values(numbers, types["a"].name, (64, k)), _values(numbers, types["b"].name, (k, n))
    b_swizzle = SWIZZLES[(SWIZZLES.index(swizzle) + 1) % 4]
    shared = numbers.integers(0, 256, 1 << 16, np.uint8)
    how = {"atoms_along": first}
    at = Descriptor.for_tile(types["a"], 64, k, major=a_major, swizzle=swizzle, start=2048, **how)
    bt = Descriptor.for_tile(types["b"], n, k, major=b_major, swizzle=b_swizzle, start=32768 + 1024, **how)
    copy_tile(a, shared, at, a_major)
    copy_tile(b.T, shared, bt, b_major)
    scales = (1, 1) if instruction.facts.negates else ()
    trans = (int(a_major == "MN"), int(b_major == "MN")) if instruction.facts.transposes else ()
    fragment = instruction.fragments["d"]
    d = np.zeros((128, fragment.registers), np.uint32)
    for number, start in enumerate(range(0, k, step)):
        parts = (
            at.advance(types["a"], k=start, major=a_major),
            bt.advance(types["b"], k=start, major=b_major),
        )
        assert not diagnose(parts[0], types["a"], 64, step, a_major)
        assert not diagnose(parts[1], types["b"], n, step, b_major)
        d = tcemu.run(opcode, d, *parts, number > 0, *scales, *trans, shared=shared)
    got, expected = fragment.unpack(d), tcemu.matmul(a, b, instruction=opcode)
    assert types["d"].patterns(expected).any()
    assert np.array_equal(types["d"].patterns(got), types["d"].patterns(expected))


# ------------------------------------------------------------------------------------------------ in words


def test_explain():
    text = Descriptor.for_tile("f16", 64, 64, swizzle=128, start=4096 + 128).explain("f16")
    assert text.splitlines() == [
        "descriptor 0x4002004000010108",
        "  bits 13:0   start address 0x0108  4224 bytes",
        "  bits 29:16  LBO           0x0001  16 bytes, not used below k = 64",
        "  bits 45:32  SBO           0x0040  1024 bytes",
        "  bits 51:49  base offset   0x0001  1",
        "  bits 63:62  swizzle       0x0001  128 bytes",
        "K-major, 128-byte swizzle, f16: element (mn, k) is at",
        "  4224 + (mn mod 8) * 128 + (mn div 8) * 1024 + (k mod 64) * 2 + (k div 64) * 16",
        "  and then bits 6:4 of the address are XORed with bits 9:7 minus the base offset 1",
    ]


@every_layout
def test_the_formula_is_true(name, major, swizzle):
    made, (mn, k) = _tile(name, major, swizzle, start=2048)
    formula = made.formula(name, major).replace("mod", "%").replace("div", "//")
    bits = {0: 0, 32: 1, 64: 3, 128: 7}[swizzle]
    for i, j in some(product(range(0, mn, 3), range(0, k, 5)), 60):
        plain = eval(formula, {"mn": i, "k": j})  # noqa: S307 - our own text
        assert plain ^ (plain >> 7 & bits) << 4 == made.address(i, j, name, major)


def test_the_fields_and_the_rest_are_64_bits():
    assert sum(1 << bit for bit in (14, 15, 30, 31, 46, 47, 48, *range(52, 62))) == RESERVED
    assert sum(field.bits for field in FIELDS) + RESERVED.bit_count() == 64


def test_a_descriptor_is_an_array_of_uint64():
    made = Descriptor(4096, 128, 256)
    assert np.asarray(made).dtype == np.uint64
    assert np.asarray([made, made]).tolist() == [made.encode()] * 2


# ------------------------------------------------------------------------------------------------ diagnoses

K128 = Descriptor.for_tile("f16", 64, 64, swizzle=128, start=4096)
PLAIN = Descriptor.for_tile("f16", 64, 16, start=1024)
MN64 = Descriptor.for_tile("f16", 64, 64, major="MN", swizzle=64, atoms_along="K", start=2048)
RAW = 4096 | 1024 << 32 | 1 << 62

DIAGNOSES = {
    "nothing": (K128, ("f16", 64, 64), {}, [], K128),
    "nothing, with the tile": (K128, ("f16", 64, 64), {"tile": K128}, [], K128),
    "an exchange, known": (
        Descriptor(1024, 128, 1024), ("f16", 64, 16), {"tile": PLAIN},
        ["LBO 128 and SBO 1024 are swapped: in a tile that is K-major, no swizzle, SBO is the distance from",
         "LBO from one group of 8 along k to the next, so LBO should be 1024 and SBO 128"],
        PLAIN),
    "an exchange in MN-major": (
        Descriptor(2048, 512, 4096, 64), ("f16", 64, 64, "MN"), {"tile": MN64},
        ["LBO is the distance from one group of 32 along mn", "change places with the swizzle"], MN64),
    "an exchange, found by its overlap": (
        Descriptor(1024, 128, 256), ("f16", 16, 64), {}, ["LBO 128 and SBO 256 are swapped"],
        Descriptor(1024, 256, 128)),
    "an exchange without the tile": (
        Descriptor(2048, 1024, 16, 128), ("f16", 64, 64), {}, ["LBO 1024 and SBO 16 are swapped"],
        Descriptor(2048, 16, 1024, 128)),
    "gaps are nobody's fault": (
        Descriptor(0, 128, 1024), ("f16", 64, 16), {}, [], Descriptor(0, 128, 1024)),
    "start not shifted, known": (
        RAW, ("f16", 64, 16), {"start": 4096},
        ["start address: the field holds 0x1000, which means 65536 bytes; it was probably meant to be 4096 bytes",
         "not shifted right by 4. The field should be 0x100", "SBO: the field holds 0x400, which means 16384 bytes;"],
        Descriptor(4096, 0, 1024, 128)),
    "start not shifted, beyond shared memory": (
        0x3C00 | 64 << 32 | 1 << 62, ("f16", 64, 16), {"shared": 65536}, ["meant to be 15360 bytes"],
        Descriptor(15360, 0, 1024, 128)),
    "start not shifted, into bit 14": (
        0x4400 | 64 << 32 | 1 << 62, ("f16", 64, 16), {"start": 0x4400},
        ["bit 14 belongs to no field", "not shifted right by 4", "holds 0x4400"], Descriptor(0x4400, 0, 1024, 128)),
    "offsets not shifted": (
        64 | 1024 << 16 | 128 << 32, ("f16", 64, 16), {"tile": PLAIN},
        ["LBO: the field holds 0x400", "SBO: the field holds 0x80"], PLAIN),
    "offsets not shifted, without the tile": (
        64 | 1024 << 16 | 128 << 32, ("f16", 64, 16), {}, ["meant to be 1024 bytes", "meant to be 128 bytes"], PLAIN),
    "a start between 16 bytes": (
        K128, ("f16", 64, 64), {"start": 4104},
        ["starts at 4104, which is not a multiple of 16", "so it would mean 4096. Move the tile to 5120"],
        Descriptor(5120, 16, 1024, 128)),
    "another start": (
        K128, ("f16", 64, 64), {"start": 8192}, ["starts at 4096, the tile at 8192; the field should be 0x200"],
        Descriptor(8192, 16, 1024, 128)),
    "a pattern off its boundary": (
        Descriptor(4352, 16, 1024, 128), ("f16", 64, 64), {},
        ["base offset is 0 and should be 2, (start >> 7) & 7", "a multiple of 1024 and this tile 256 bytes after one",
         "move the tile to 5120"], Descriptor(4352, 16, 1024, 128, 2)),
    "a pattern no base offset can save": (
        Descriptor(4112, 16, 256, 32), ("f16", 64, 16), {},
        ["multiple of 256, but this tile starts 16 bytes after one", "Move the tile to 4352"],
        Descriptor(4352, 16, 256, 32)),
    "a base offset on the boundary": (
        Descriptor(4096, 16, 512, 64, 3), ("f16", 64, 32), {}, ["base offset is 3 and should be 0"],
        Descriptor(4096, 16, 512, 64)),
    "a base offset unlike the tile's": (
        Descriptor(4224, 16, 1024, 128, 1), ("f16", 64, 64), {"tile": Descriptor(4224, 16, 1024, 128)},
        ["should be 0, as when the tile was laid out"], Descriptor(4224, 16, 1024, 128)),
    "a base offset without a swizzle": (
        Descriptor(1024, 1024, 128, 0, 1), ("f16", 64, 16), {}, ["without a swizzle"], PLAIN),
    "another swizzle": (
        Descriptor(4096, 16, 1024, 64), ("f16", 64, 64), {"swizzle": 128},
        ["swizzle: the field means 64 bytes, but the tile was laid out with 128 bytes; the field should be 1",
         "0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes"], K128),
    "reserved bits": (
        K128.encode() | 1 << 52, ("f16", 64, 64), {}, ["bit 52 belongs to no field"], K128),
    "a descriptor of tcgen05": (
        K128.encode() | 1 << 46, ("f16", 64, 64), {}, ["tcgen05"], K128),
    "beyond shared memory": (
        Descriptor(4096, 16, 1024, 128), ("f16", 64, 64), {"shared": 8192},
        ["the tile ends at 12288, but shared memory has 8192 bytes. It fits if it starts at 0"],
        Descriptor(0, 16, 1024, 128)),
    "larger than shared memory": (
        Descriptor(0, 16, 1024, 128), ("f16", 64, 64), {"shared": 4096}, ["larger than shared memory"], None),
    "elements elsewhere": (
        Descriptor(1024, 2048, 128), ("f16", 64, 16), {"tile": PLAIN},
        ["element (0, 8) is read from 3072, but the tile has it at 2048", "LBO is 2048 and SBO 128"], PLAIN),
    "elements on top of each other": (
        Descriptor(0, 64, 128), ("f16", 64, 16), {}, ["elements (0, 8) and (4, 0) are both read from 64"],
        Descriptor(0, 1024, 128)),
    "MN-major of 8 bits": (
        Descriptor(0, 128, 128), ("e4m3", 16, 8, "MN"), {}, ["only of 16-bit elements (imm-trans)"], None),
}  # fmt: skip


@pytest.mark.parametrize("case", DIAGNOSES)
def test_a_diagnosis_teaches(case):
    descriptor, tile, how, says, corrected = DIAGNOSES[case]
    faults = diagnose(descriptor, *tile, **how)
    told = "\n".join(str(fault) for fault in faults)
    assert all(text in told for text in says), told
    assert bool(faults) == bool(says), told
    if corrected and faults:
        assert faults[-1].corrected == corrected
        again = {name: value for name, value in how.items() if name != "start" or not value % 16}
        assert not diagnose(corrected, *tile, **again)


@every_layout
def test_every_tile_is_fine_and_every_exchange_is_found(name, major, swizzle):
    made, (mn, k) = _tile(name, major, swizzle, start=2048)
    if major == "K" or name in ("f16", "bf16"):
        assert not diagnose(made, name, mn, k, major)
        assert not diagnose(made, name, mn, k, major, tile=made)
    swapped = Descriptor(made.start, made.sbo, made.lbo, swizzle)
    found = [fault for fault in diagnose(swapped, name, mn, k, major, tile=made) if fault.name != "major"]
    assert [fault.name for fault in found] == ["swapped"]
    assert found[0].corrected == made


# ------------------------------------------------------------------------------------------------ pictures

SVG = "{http://www.w3.org/2000/svg}"


def _texts(picture: show.Picture) -> list[str]:
    return [text.text or "" for text in ET.fromstring(picture.svg).iter(f"{SVG}text")]  # noqa: S314 - our own text


def test_the_picture_of_a_descriptor():
    picture = show.descriptor(K128)
    assert picture == show.descriptor(K128.encode())
    assert picture.title == f"Matrix descriptor {K128.encode():#018x}"
    assert "bits 45 to 32 SBO 0x40, 0x40 × 16 = 1024 bytes" in picture.description
    assert "bits 63 to 62 swizzle 0x1, 128 bytes" in picture.description
    texts = _texts(picture)
    digits = "".join(text for text in texts if text in ("0", "1"))
    assert all(field.name in texts for field in FIELDS)
    assert len(digits) >= 64
    assert 'class="x"' not in picture.svg


def test_bits_of_no_field_are_marked():
    picture = show.descriptor(K128.encode() | 3 << 52)
    assert picture.svg.count('class="x"') == 2
    assert "Set, although in no field: bits 52, 53." in picture.description


@pytest.mark.parametrize("swizzle", SWIZZLES)
@pytest.mark.parametrize("major", ["K", "MN"])
def test_the_picture_of_a_tile_has_every_unit_in_its_place(major, swizzle):
    mn, k = (16, 64) if major == "K" else (64, 16)
    made = Descriptor.for_tile("f16", mn, k, major=major, swizzle=swizzle, start=2048)
    root = ET.fromstring(show.shared_tile(made, "f16", mn, k, major).svg)  # noqa: S314 - our own text
    found = {}
    for group in root.iter(f"{SVG}g"):
        for text in group:
            column, row = (float(text.get("x", "0")) - 84 - 46) / 92, (float(text.get("y", "0")) - 56 - 15) / 22
            found[2048 + round(row) * 128 + round(column) * 16] = (text.text, "b" in group.get("class", "").split())
    expected = {}
    for i, j in product(range(0, mn, 1 if major == "K" else 8), range(0, k, 8 if major == "K" else 1)):
        label = f"{i}, {j}–{j + 7}" if major == "K" else f"{i}–{i + 7}, {j}"
        expected[made.address(i, j, "f16", major)] = (label, (j if major == "K" else i) == 0)
    assert found == expected


def test_the_picture_of_a_tile_in_words():
    picture = show.shared_tile(K128, "f16", 64, 64, at_k=8)
    assert picture.title == "A tile of 64 × 64 elements of 16 bits in shared memory: K-major, 128-byte swizzle"
    assert "Units with k = 8, as mn, k: 0, 8–15 at 0x1010, unit 1 of its line; 1, 8–15 at 0x1080, unit 0" in (
        picture.description
    )
    assert "XORs the unit's number with a number from 0 to 7" in picture.description
    assert "32 more lines below." in " ".join(_texts(picture))
    assert str(K128) in picture.description


def test_the_picture_of_a_tile_tells_gaps_dots_and_overlaps():
    gap = show.shared_tile(Descriptor.for_tile("b1", 16, 256, pitch=2048), "b1", 16, 256)
    assert "stroke-dasharray" in gap.svg
    assert "Dashed: lines are left out." in _texts(gap)
    overlap = show.shared_tile(Descriptor(0, 64, 128), "f16", 16, 16)
    assert {"0, 8–15 +", "·"} <= set(_texts(overlap))
    assert any("A dot: not part of the tile. A plus: other elements overlap" in text for text in _texts(overlap))
    turned = show.shared_tile(Descriptor(128, 16, 256, 32, 1), "s8", 8, 32, at_mn=2)
    assert turned.svg.count('class="x"') == 2
    assert "unit XOR 0" in _texts(turned)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"at_mn": 64}, "at_mn 64: the tile has mn 0 to 63"),
        ({"at_k": -1}, "at_k -1: the tile has k 0 to 63"),
        ({"lines": 0}, "1 to 36 lines can be drawn; got 64 by 64 and 0 lines"),
        ({"major": "M"}, "major must be K or MN"),
    ],
)
def test_a_picture_that_cannot_be_drawn(how, says):
    with pytest.raises(LayoutError, match=says):
        show.shared_tile(K128, "f16", 64, 64, **how)


# ------------------------------------------------------------------------------------------------ errors

SHARED = np.zeros(8192, np.uint8)
F16 = np.zeros((64, 16), np.float16)


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: Descriptor.for_tile("f16", 64, 16, start=8), "cannot start at 8: .* multiple of 16"),
        (lambda: Descriptor.for_tile("f16", 64, 64, swizzle=128, start=64), "multiple of 1024, or of 128 with a base"),
        (lambda: Descriptor.for_tile("f16", 64, 16, swizzle=16), "a swizzle must have 0, 32, 64 or 128 bytes; got 16"),
        (lambda: Descriptor.for_tile("f16", 64, 16, major="mn"), "major must be K or MN; got 'mn'. Did you mean 'MN'"),
        (lambda: Descriptor.for_tile("f16", 64, 16, atoms_along="M"), "atoms_along must be 'MN' or 'K'"),
        (lambda: Descriptor.for_tile("f16", 64, 0), "at least one row and one column; got mn 64, k 0"),
        (lambda: Descriptor.for_tile("f16", 64, 16, pitch=512), "8 atoms of 128 bytes .* along MN, .* at least 1024"),
        (lambda: Descriptor.for_tile("b1", 64, 256, major="MN"), "they have no MN-major layout"),
        (lambda: Descriptor.for_tile("e2m1", 64, 64), "elements have 1, 8, 16 or 32 bits; got e2m1 of 4 bits"),
        (lambda: Descriptor.for_tile(None, 64, 64), "a format, its name or its number of bits; got None"),
        (lambda: Descriptor.for_tile("f16", 1 << 15, 16), "field lbo is 524288; .* below 262144"),
        (lambda: K128.step(8), "multiple of 16 bytes"),
        (lambda: K128.advance("f16", mn=4), "where mn is a multiple of 8 and k a multiple of 8"),
        (lambda: MN64.advance("f16", k=4, major="MN"), "where k is a multiple of 8 and mn a multiple of 8"),
        (lambda: diagnose(-1, "f16", 64, 16), "a Descriptor or its 64 bits"),
        (lambda: diagnose(0, "b1", 64, 12), "ends inside a byte"),
        (lambda: copy_tile(F16, SHARED, Descriptor(0, 64, 128)),
         r"\(0, 8\) and \(4, 0\) share address 64: an atom takes 128 bytes, SBO .* 8 atoms along mn and LBO is 64"),
        (lambda: copy_tile(F16, SHARED, Descriptor(0, 0, 0)), r"elements \(0, 0\) and \(0, 8\) share address 0"),
        (lambda: copy_tile(F16, SHARED, Descriptor(8192, 1024, 128)), r"\(0, 0\) would be at 8192, .* 8192 bytes"),
        (lambda: copy_tile(F16, SHARED, Descriptor(7168, 1024, 128)), r"element \(0, 8\) would be at 8192"),
        (lambda: read_tile(SHARED, Descriptor(7168, 1024, 128), (64, 16), "f16"), r"\(0, 8\) would be at 8192, but"),
        (lambda: copy_tile(np.ones((8, 9), bool), SHARED, Descriptor(0)), "9 elements of 1 bit ends inside"),
    ],
)  # fmt: skip
def test_errors_teach(act, says):
    with pytest.raises(LayoutError, match=says):
        act()


@pytest.mark.parametrize(
    ("act", "says"),
    [
        (lambda: copy_tile(np.zeros((8, 8)), SHARED, PLAIN), "got dtype float64. Convert it first"),
        (lambda: copy_tile(np.zeros(8, np.float16), SHARED, PLAIN), r"\(..., mn, k\); got shape \(8,\)"),
        (lambda: copy_tile(F16, SHARED.view(np.int8), PLAIN), "array of uint8 .* got dtype int8"),
        (lambda: copy_tile(F16, b"", PLAIN), "got bytes"),
        (lambda: copy_tile(F16, np.broadcast_to(SHARED, (2, 8192)), PLAIN), "read-only"),
        (lambda: copy_tile(np.stack([F16] * 3), np.zeros((2, 8192), np.uint8), PLAIN), "the leading axes do not match"),
        (lambda: copy_tile(F16, SHARED, PLAIN, element="bf16"), "a tile of bf16"),
    ],
)
def test_operands_are_explained(act, says):
    with pytest.raises(OperandError, match=says):
        act()


def test_hardware_reads_elements_that_share_bytes():
    shared = np.arange(256, dtype=np.uint8)
    tile = read_tile(shared, Descriptor(0, 0, 0), (16, 16), 8)
    assert np.array_equal(tile[:8], tile[8:])
