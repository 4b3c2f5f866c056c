"""A tile that lies anywhere: the descriptor that reads it, or why none does.

The addresses come from the sums of the manual, written out here, and the verdict that no descriptor fits from trying
all of them.
"""

from itertools import product

import numpy as np
import pytest

from tcemu import TcemuError
from tcemu.layouts import Descriptor, diagnose, fit

#: Bits of an element.
ELEMENTS = {"b1": 1, "e4m3": 8, "s8": 8, "f16": 16, "bf16": 16, "tf32": 32}
SWIZZLES = (0, 32, 64, 128)


def place(mn, k, bits, major, swizzle, start, lbo, sbo, base=0):
    """Where a descriptor has element (mn, k): PTX ISA 9.1, 9.7.15.5.1.2, as plain sums."""
    size, byte = max(bits // 8, 1), k * bits // 8
    line = swizzle or 16
    if major == "K":
        offset = mn % 8 * line + mn // 8 * sbo + byte % line + byte // line * lbo
    elif swizzle == 0:
        offset = mn % (16 // size) * size + mn // (16 // size) * sbo + k % 8 * 16 + k // 8 * lbo
    else:
        offset = mn % (line // size) * size + mn // (line // size) * lbo + k % 8 * line + k // 8 * sbo
    address = start + offset
    return address ^ ((address // 128 - base) % (swizzle // 16) * 16 if swizzle else 0)


def addresses(mn, k, *how):
    return np.array([[place(row, column, *how) for column in range(k)] for row in range(mn)])


def tiles():
    """Tiles of every element width, major direction and swizzle, with and without gaps."""
    for name, major, swizzle in product(("b1", "e4m3", "f16", "tf32"), ("K", "MN"), SWIZZLES):
        bits = ELEMENTS[name]
        if bits > 1 or major == "K":
            lines, along = 16, 2 * (swizzle or 16) * 8 // bits
            mn, k = (lines, along) if major == "K" else (along, lines)
            atom = 8 * (swizzle or 16)
            for start, lbo, sbo in ((0, 2 * atom, atom), (4096, atom, 2 * atom + 1024), (1024, 8192, 4096)):
                yield name, mn, k, (bits, major, swizzle, start, lbo, sbo)


@pytest.mark.slow
def test_every_canonical_tile_gets_a_descriptor_that_reads_it(row):
    for name, mn, k, how in tiles():
        with row(f"{name} {how}"):
            where = addresses(mn, k, *how)
            found = fit(where, name)
            _, major, swizzle, start, lbo, sbo = how
            assert [way.major for way in found.ways] == [major]
            assert found.descriptor == Descriptor(start, lbo, sbo, swizzle)
            assert fit(lambda n, k, where=where: where[n, k], name, mn, k).ways == found.ways
            told = diagnose(found.descriptor, name, mn, k, major, tile=where)
            assert [fault.name for fault in told] == ["major"] * (major == "MN" and how[0] != 16)  # wgmma's limit


def test_a_tile_inside_a_pattern_keeps_its_phase_or_gets_a_base_offset(row):
    """A step along K stays in the pattern; a tile that begins at line 3 of it has base offset 3."""
    for swizzle, step in ((128, 32), (128, 64), (64, 32), (32, 16)):
        with row(f"step {swizzle} {step}"):
            whole = addresses(16, 64, 16, "K", swizzle, 2048, 4096, 1024)
            where, stepped = whole[:, :8], whole[:, step // 2 : step // 2 + 8]
            assert Descriptor(2048 + step, 16, 1024, swizzle) in [way.descriptor for way in fit(stepped, "f16").ways]
            assert Descriptor(2048, 16, 1024, swizzle) in [way.descriptor for way in fit(where, "f16").ways]
    for swizzle, lines in ((128, 8), (64, 4), (32, 2)):
        for line in range(1, lines):
            with row(f"base {swizzle} {line}"):
                where = addresses(16, 64, 16, "K", swizzle, 1024 + 128 * line, 4096, 2048, line)
                (way,) = fit(where, "f16").ways
                lbo = 16 if swizzle == 128 else 4096
                assert way.descriptor == Descriptor(1024 + 128 * line, lbo, 2048, swizzle, line)


def any_descriptor_reads(where, bits):
    """Whether any descriptor does, by trying every layout, base offset, LBO and SBO of up to 8 KiB."""
    mn, k = where.shape
    some = [(m, j) for m in (0, 1, 7, 8, 9, mn - 1) for j in (0, 1, 7, 8, 9, k - 1) if m < mn and j < k]
    offsets = range(0, 8192, 16)
    for major, swizzle in product(("K", "MN"), SWIZZLES):
        for base in range(max(swizzle // 16, 1)):
            starts = [s for s in range(0, 256, 16) if place(0, 0, bits, major, swizzle, s, 0, 0, base) == where[0, 0]]
            for start, lbo in product(starts, offsets):
                fits = [(m, j) for m, j in some if _without_sbo(m, j, bits, major, swizzle)]
                if any(place(m, j, bits, major, swizzle, start, lbo, 0, base) != where[m, j] for m, j in fits):
                    continue
                for sbo in offsets:
                    if all(place(m, j, bits, major, swizzle, start, lbo, sbo, base) == where[m, j] for m, j in some):
                        return True
    return False


def _without_sbo(mn, k, bits, major, swizzle):
    """Whether the place of an element does not depend on SBO."""
    across = mn // 8 if major == "K" else mn // (128 // bits) if not swizzle else k // 8
    return across == 0


#: Tiles that no descriptor reads: where element (n, k) is, its element, and what the answer says.
UNREADABLE = {
    "rows of 24 numbers": (lambda n, k: 48 * k + 2 * n, "f16", 24, 16, "rows that are 48 bytes apart, which no LBO"),
    "rows of A": (lambda m, k: 128 * m + 2 * k, "f16", 16, 64, "should be at 144: the swizzle XORs the unit"),
    "padded rows": (lambda m, k: 144 * m + 2 * k, "f16", 16, 64, "rows that are 144 bytes apart"),
    "rows of 8 bits": (lambda m, k: 80 * m + k, "e4m3", 16, 80, "mn = 0 and 1 are 80 bytes apart"),
    "rows of 32 bits": (lambda m, k: 96 * m + 4 * k, "tf32", 16, 24, "rows that are 96 bytes apart"),
    "rows of a swizzle of its own": (
        lambda m, k: 256 * m + (2 * k ^ 16 * (m % 8)), "f16", 16, 128,
        "rows that are 256 bytes apart with CuTe's Swizzle<3, 4, 4>",
    ),
    "units swapped by pairs of rows": (
        lambda m, k: 128 * m + (2 * k ^ 16 * (m // 2 % 8)), "f16", 16, 64, r"Swizzle<3, 4, 4>|should be at",
    ),
    "elements every 4 bytes": (lambda m, k: 64 * m + 4 * k, "f16", 16, 16, "must be 2 bytes apart; they are 4 apart"),
    "atoms at unequal distances": (
        lambda m, k: 128 * (m // 8) + 1024 * (k // 8) * (k // 8 + 1) + 16 * (m % 8) + 2 * (k % 8), "f16", 16, 32,
        "atoms must be at equal distances",
    ),
    "a step that is not a multiple of 16": (
        lambda m, k: 136 * (m // 8) + 1024 * (k // 8) + 16 * (m % 8) + 2 * (k % 8), "f16", 16, 16,
        "SBO would be 136 bytes, which is not a multiple of 16",
    ),
}  # fmt: skip


@pytest.mark.slow
def test_what_no_descriptor_reads_is_said_and_why(row):
    for name, (where, element, mn, k, says) in UNREADABLE.items():
        with row(name):
            found = fit(where, element, mn, k)
            assert not found.ways
            with pytest.raises(TcemuError, match=says):
                found.descriptor  # noqa: B018
            told = diagnose(Descriptor(0, 128, 256), element, mn, k, found.reasons[0].major, tile=where)
            assert [fault.name for fault in told] == ["unreadable"]
            exact = np.array([[where(m, j) for j in range(k)] for m in range(mn)])
            assert not any_descriptor_reads(exact, ELEMENTS[element])


def test_a_place_that_a_descriptor_cannot_name_is_said(row):
    for name, where, says in (
        ("8 bytes", lambda m, k: 8 + place(m, k, 16, "K", 0, 0, 1024, 128), "of 16, not at 8: .* Move it to 16"),
        ("phase", lambda m, k: 64 + place(m, k, 16, "K", 128, 0, 0, 1024), "of 1024, not at 64: there the pattern"),
        ("too far", lambda m, k: place(m, k, 16, "K", 0, 0, 0x40000, 128), "LBO would be 262144 bytes, which does"),
        ("upwards", lambda m, k: place(m, k, 16, "K", 0, 4096, -1024, 128), "LBO would be -1024 bytes, which does"),
        ("8 bytes, rows", lambda m, k: 8 + 48 * m + 2 * k, "starts at 8, not at a multiple of 16; moved, the 8 lines"),
    ):
        with row(name):
            assert not fit(where, "f16", 16, 16).ways
            with pytest.raises(TcemuError, match=says):
                fit(where, "f16", 16, 16).descriptor  # noqa: B018


def test_strides_arrays_and_functions_are_one(row):
    core = [(16, 2), (16, 1), (16, 4)]  # 8 rows of 16 bytes
    for name, strides in zip(("f16", "e4m3", "tf32"), core, strict=True):
        with row(name):
            k = 16 // strides[1]
            found = fit(strides, name, 8, k, start=512)
            assert found.ways == fit(lambda m, k, s=strides: 512 + s[0] * m + s[1] * k, name, 8, k).ways
            assert "K" in [way.major for way in found.ways]
            assert found.descriptor.start == 512
    assert fit((16, 1), "b1", 8, 128).descriptor == fit(addresses(8, 128, 1, "K", 0, 0, 0, 0), "b1").descriptor
    assert fit((16, 2), "f16", 8, 8, major="K", swizzle=0).descriptor.swizzle == 0
    assert not fit((16, 2), "f16", 8, 8, swizzle=128).ways


def test_the_other_major_direction_is_named():
    where = addresses(64, 16, 16, "MN", 128, 0, 4096, 1024)
    (fault,) = diagnose(Descriptor(0, 16, 1024, 128), "f16", 64, 16, "K", tile=where)
    assert fault.name == "major"
    assert "the tile is MN-major, not K-major: imm-trans-a or imm-trans-b says so" in fault.message
    assert fault.corrected == Descriptor(0, 64 * 2 * 8, 1024, 128) or not diagnose(
        fault.corrected, "f16", 64, 16, "MN", tile=where
    )
    where = addresses(16, 32, 8, "MN", 0, 0, 128, 256)
    (fault,) = diagnose(Descriptor(0, 128, 256), "e4m3", 16, 32, "K", tile=where)
    assert "no instruction of wgmma reads elements of 8 bits so" in fault.message
    assert "must be transposed for it" in str(fit(where, "e4m3"))


def test_a_wrong_descriptor_for_a_tile_that_lies_somewhere():
    where = addresses(64, 64, 16, "K", 128, 1024, 0, 1024)
    (fault,) = diagnose(Descriptor(1024, 16, 512, 128), "f16", 64, 64, tile=where)
    assert (fault.name, fault.corrected) == ("elsewhere", Descriptor(1024, 16, 1024, 128))
    told = diagnose(Descriptor(0, 16, 1024, 64), "f16", 64, 64, tile=where)
    assert [fault.name for fault in told] == ["start", "swizzle"]


def test_offsets_of_rows_are_recognised_without_a_tile(row):
    """What people try for a tile in rows; with core matrices, packed or with one gap, there is no such report."""
    for lbo, sbo in ((192, 384), (384, 192), (16, 384), (384, 16), (48, 384), (768, 384)):
        with row(f"{lbo} {sbo}"):
            told = diagnose(Descriptor(0, lbo, sbo), "f16", 24, 16, "MN")
            assert any("rows of 48 bytes" in fault.message for fault in told)
    for lbo, sbo in ((128, 256), (384, 128), (128, 384), (512, 128), (128, 512)):
        with row(f"{lbo} {sbo}"):
            assert not diagnose(Descriptor(0, lbo, sbo), "f16", 24, 16, "MN")
    for lbo, sbo in ((128, 256), (256, 128), (128, 512), (512, 128)):  # 256 is also 8 rows of 32 bytes
        with row(f"{lbo} {sbo} of 16"):
            assert not diagnose(Descriptor(0, lbo, sbo), "f16", 16, 16, "MN")


def test_what_is_not_a_tile_is_told(row):
    for call, says in (
        (lambda: fit((0, 2), "f16", 8, 8), r"2 bytes overlap: \(0, 0\) at byte 0 and \(1, 0\) at byte 0"),
        (lambda: fit((1, 16), "f16", 8, 8), "two elements of 2 bytes overlap"),
        (lambda: fit((-16, 2), "f16", 8, 8), r"element \(1, 0\) would be at byte -16"),
        (lambda: fit(np.zeros((4, 4)), "f16"), "whole numbers"),
        (lambda: fit((16, 2, 4), "f16", 8, 8), "two strides, or an array of that shape; got shape"),
        (lambda: fit(np.zeros((4, 4), int), "f16", 8, 8), "a tile of 8 by 8 elements needs whole numbers"),
        (lambda: fit((16, 2), "f16"), "mn must be a whole number"),
        (lambda: fit(lambda n: n, "f16", 8, 8), "the function of a tile takes mn and k"),
        (lambda: fit((16, 1), "b1", 8, 12), "ends inside a byte"),
        (lambda: fit((16, 2), "f64", 8, 8), "wgmma reads tiles whose elements have"),
        (lambda: fit((16, 2), "f16", 8, 8, major="N"), "major must be"),
        (lambda: fit((16, 2), "f16", 8, 8, swizzle=16), "a swizzle must have"),
        (lambda: fit((16, 2), "f16", 1 << 20, 1 << 20), "at most 256 KiB"),
    ):
        with row(says), pytest.raises(TcemuError, match=says):
            call()
