"""Layouts of tcgen05 against CuTe's, expanded at every coordinate: tcgen05.json has the start of each SHA-256."""

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tcemu.errors import ArithmeticUnknown, LayoutError
from tcemu.layouts import Descriptor, tcgen05_descriptor
from tcemu.layouts.instruction_descriptor import InstructionDescriptor, instruction_descriptor
from tcemu.layouts.tcgen05 import (
    a_operand,
    accumulator,
    copied,
    data_path,
    layout_of,
    metadata,
    scale_factors,
    scales_of_b_in_a_pair,
)
from tcemu.layouts.tcgen05_ld_st import cells
from tcemu.layouts.tcgen05_tiles import Tile, unpadded

CUTE = json.loads(Path(__file__).with_name("tcgen05.json").read_text(encoding="utf-8"))
#: Kinds by what the tables call their elements.
KIND = {"f16": "f16", "tf32": "tf32", "8bit": "f8f6f4", "16bit": "f16", "4bit": "mxf4"}
BITS = {"f16": 16, "tf32": 32, "8bit": 8}


def hashed(texts):
    return hashlib.sha256(",".join(texts).encode()).hexdigest()[:16]


def described(kind, m, n=64, **more):
    return InstructionDescriptor(kind, m, n, "f32", "f16", "f16", **more)


def places(what):
    """Lane, column and bit of each element of a table of CuTe."""
    words = what.replace("(", " ").split()
    m, pair = int(re.search(r" m(\d+)", what)[1]), 2 if "2cta" in what else 1
    if words[0] == "D":
        n = int(re.search(r" n(\d+)", what)[1])
        return accumulator(described("f16", m, n, ws="ws" in words), pair).cells()
    if words[0] == "A":
        found = a_operand(described(KIND[words[5]], m), pair, BITS[words[5]])
        lanes, columns, bits = found.cells()
        again = len(found.copies), 1
        return np.concatenate([lanes + far for far in found.copies]), np.tile(columns, again), np.tile(bits, again)
    lanes, columns, bits = metadata(described(KIND[words[3]], m, sparse=True)).cells()
    k = np.arange(int(re.search(r" k(\d+)", what)[1]))  # CuTe counts elements, of which each chunk has several
    per = len(k) // lanes.shape[1]
    return lanes[:, k // per], columns[:, k // per], bits[:, k // per] + 4 / per * (k % per)


def test_matrices_in_tensor_memory_are_where_cute_has_them(row):
    for what, table in CUTE["tensor_memory"].items():
        with row(what):
            every = zip(*(part.ravel().tolist() for part in places(what)), strict=True)
            assert hashed(f"{lane}:{column}:{bit:g}" for lane, column, bit in every) == table


def test_registers_of_ld_and_st_hold_what_cute_has_there(row):
    """By thread, register and half of it; CuTe's second half of .16x32bx2 follows the first."""
    assert len(CUTE["moves"]) == 74
    for name, table in CUTE["moves"].items():
        shape, count, *packed = name.split(".")
        num = int(count[1:])
        split = num * (1 + len(packed)) if shape == "16x32bx2" else None
        with row(name):
            found = (np.asarray(part) for part in cells(shape, num, bool(packed), split))
            lanes, columns = (part if packed else np.repeat(part[..., None], 2, axis=2) for part in found)
            lanes = np.broadcast_to(lanes, columns.shape)
            bits = np.broadcast_to([0, 0] if packed else [0, 16], columns.shape)
            every = zip(*(part.ravel().tolist() for part in (lanes, columns, bits)), strict=True)
            assert hashed(":".join(map(str, place)) for place in every) == table


def test_tiles_in_shared_memory_are_where_cute_has_them(row):
    """The slab of one instruction, and the whole tile: there, lines of 32 and 64 bytes need a step along k."""
    for name, told in CUTE["tiles"].items():
        with row(name):
            bits, turned = int(told["descriptor"], 16), told["major"] == "MN"
            tile = Tile.decode(bits)
            assert tile.encode() == bits
            slab = tile.addresses(*told["slab"], told["bits"], mn_major=turned)
            assert hashed(map(str, slab.ravel())) == told["slab_table"]
            if told["major"] == "K" and tile.descriptor.swizzle in (32, 64):
                tile = Tile(replace(tile.descriptor, lbo=16 * tile.descriptor.sbo))
            whole = tile.addresses(*told["tile"], told["bits"], mn_major=turned)
            assert hashed(map(str, whole.ravel())) == told["whole_table"]


#: What the table calls the descriptors, as arguments.
ARGUMENTS = [
    {"m": 128, "n": 256},
    {"m": 64, "n": 64, "d": "f16"},
    {"m": 256, "n": 256, "a": "bf16", "transpose_a": True, "transpose_b": True},
    {"m": 128, "n": 128, "kind": "tf32"},
    {"m": 128, "n": 64, "kind": "f8f6f4", "a": "e4m3", "b": "e5m2", "negate_a": True},
    {"m": 128, "n": 128, "kind": "i8", "a": "s8", "b": "u8", "saturate": True},
    {"m": 128, "n": 128, "kind": "mxf8f6f4", "sfa_id": 1, "sfb_id": 3},
    {"m": 128, "n": 256, "kind": "mxf4nvf4"},
    {"m": 128, "n": 256, "kind": "mxf4nvf4", "scale_type": "ue8m0", "k96": True},
]


def test_instruction_descriptors_are_cutes(row):
    for given, (what, text) in zip(ARGUMENTS, CUTE["instruction_descriptors"].items(), strict=True):
        with row(what):
            assert instruction_descriptor(**given) == int(text, 16)
            found = InstructionDescriptor.decode(int(text, 16), given.get("kind", "f16"))
            assert found.encode() == int(text, 16)
            assert (found.m, found.n) == (given["m"], given["n"])


@pytest.mark.parametrize(
    ("bits", "kind", "told"),
    [
        (0x08400050, "f16", "bit 6 belongs to no field and must be 0"),
        (0x08400110, "f16", r"the type of A is 2; it must be 0 \(f16\) or 1 \(bf16\)"),
        (0x08400020, "f16", r"the type of D is 2; it must be 1 \(f32\) or 0 \(f16\)"),
        (0x18400480, "mxf4nvf4", None),
        (1 << 32, "f16", "has 32 bits"),
        (0, "fp4", "the kind must be f16, tf32"),
    ],
)
def test_descriptors_that_a_kind_does_not_have(bits, kind, told):
    if told is None:
        InstructionDescriptor.decode(bits, kind)
        return
    with pytest.raises(LayoutError, match=told):
        InstructionDescriptor.decode(bits, kind)


#: Arguments of instruction_descriptor, those of check, and what is wrong with them.
WRONG = [
    ({"m": 128, "n": 64}, {"sparse": True}, r"lacks the bit of a sparse A \(bit 2\), but the opcode has \.sp"),
    ({"m": 128, "n": 64, "sparse": True}, {}, r"has the bit of a sparse A \(bit 2\), but the opcode lacks \.sp"),
    ({"m": 256, "n": 64}, {}, r"M is 256; with \.cta_group::1 it must be 64 or 128"),
    ({"m": 64, "n": 64}, {"cta_group": 2}, r"M is 64; with \.cta_group::2 it must be 128 or 256"),
    ({"m": 256, "n": 24}, {"cta_group": 2}, r"N is 24; with \.cta_group::2 it must be one of 16, 32, \.\.\. 256"),
    ({"m": 128, "n": 264}, {}, "N is 264"),
    ({"m": 128, "n": 40, "kind": "i8"}, {}, "N is 40"),
    ({"m": 128, "n": 24, "kind": "f8f6f4", "transpose_b": True}, {}, "N is 24"),
    ({"m": 128, "n": 64, "saturate": True}, {}, "saturates integers only"),
    ({"m": 128, "n": 64, "kind": "i8", "negate_b": True}, {}, "integers cannot be negated"),
    ({"m": 128, "n": 64, "kind": "mxf4", "transpose_a": True}, {"block": 32}, "cannot be MN-major"),
    ({"m": 128, "n": 64, "kind": "mxf8f6f4", "k96": True}, {"block": 32}, r"K is 96 \(bit 31\) for kinds of 4 bits"),
    ({"m": 128, "n": 64, "selector": 1}, {}, "the sparsity selector .* is 1, but A is dense"),
    ({"m": 128, "n": 64, "kind": "mxf4nvf4", "sfa_id": 2}, {"block": 16}, "the SFA ID is 2; where a row has 4 scales"),
    ({"m": 128, "n": 64, "kind": "mxf4", "sfb_id": 1}, {"block": 32}, "where a row has 2 scales, it must be 0 or 2"),
    ({"m": 128, "n": 64, "kind": "mxf4nvf4"}, {"block": 32}, "scales for 32 elements are ue8m0; bit 23 says ue4m3"),
]  # fmt: skip


@pytest.mark.parametrize(("given", "opcode", "told"), WRONG)
def test_descriptors_that_an_opcode_does_not_take(given, opcode, told):
    found = InstructionDescriptor.decode(instruction_descriptor(**given), given.get("kind", "f16"))
    with pytest.raises(LayoutError, match=told):
        found.check(**opcode)


def test_every_element_of_a_matrix_has_its_own_place(row):
    """The maps of D, of a sparse A's metadata and of scales, for every shape."""
    maps = [data_path(letter, rows, n) for letter, rows in (("D", 128), ("F", 64), ("G", 32)) for n in (64, 256)]
    maps += [metadata(described(kind, 128, sparse=True)) for kind in ("f16", "tf32", "i8", "mxf4")]
    maps += [scale_factors(rows, count) for rows in (8, 32, 128, 256) for count in (1, 2, 4)]
    maps += [scales_of_b_in_a_pair(n, 4) for n in (32, 64, 256)]
    for found in dict.fromkeys(maps):
        with row(str(found)):
            lanes, columns, bits = found.cells()
            copies = [(lanes + far) * 2**20 + columns * 32 + bits for far in found.copies]
            assert len(np.unique(copies)) == lanes.size * len(copies)
            assert max(map(int, (lanes.max() + found.copies[-1], columns.max()))) < 512
            assert lanes.max() + max(found.copies) < 128


def test_the_lanes_of_copies():
    assert copied("4x256b").lanes == ((0,), (32,), (64,), (96,))
    assert copied("64x128b", "warpx2::01_23").lanes[33] == (65, 97)
    assert copied("64x128b", "warpx2::02_13").lanes[33] == (33, 97)
    assert (copied("128x256b").rows, copied("128x256b").bytes) == (128, 32)


def test_what_nobody_has_published_is_refused_by_name():
    for asked, told in (
        (lambda: layout_of(128, 2, sparse=True), "layout C"),
        (lambda: metadata(described("f16", 64, sparse=True)), "the metadata of an A of 64 rows"),
        (lambda: metadata(described("f16", 128, sparse=True, selector=2)), "the sparsity selector 2"),
        (lambda: a_operand(described("f16", 32, ws=True), 1, 16), "an A of 32 rows in Tensor Memory"),
        (lambda: Tile.decode(1 << 46 | 1 << 52), "bit 52 makes LBO an address"),
    ):
        with pytest.raises(ArithmeticUnknown, match=told):
            asked()


def test_descriptors_of_shared_memory_that_are_wrong():
    wgmma = Descriptor.for_tile("f16", 64, 64, swizzle=128)
    assert Tile.decode(tcgen05_descriptor(wgmma)).descriptor == wgmma
    for bits, told in (
        (wgmma.encode(), "must be 0b001, and are 0b000: this is a descriptor of wgmma"),
        (1 << 46 | 3 << 61, r"the swizzle \(bits 63:61\) is 3; it must be 0, 1, 2, 4 or 6"),
        (1 << 46 | 1 << 55, "bits 60:53 must be 0"),
        (1 << 64, "has 64 bits"),
    ):
        with pytest.raises(LayoutError, match=told):
            Tile.decode(bits)
    for bits, width, turned, told in (
        (2 << 61, 32, True, "need the layout 128B base 32B"),
        (1 << 61, 16, True, "is for MN-major elements of 32 bits"),
        (0, 4, True, "cannot be MN-major"),
    ):
        with pytest.raises(LayoutError, match=told):
            Tile.decode(1 << 46 | bits).addresses(8, 8, width, mn_major=turned)


def test_elements_of_4_and_6_bits_are_packed_in_front_of_their_padding():
    codes = np.arange(16)
    for bits in (4, 6):
        value = sum(int(code) << bits * place for place, code in enumerate(codes))
        unit = np.frombuffer(value.to_bytes(16, "little"), np.uint8)
        assert unpadded(unit, bits).tolist() == codes.tolist()
