"""Exercises of notebook 10 about descriptors: their bits, and the tiles that they describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product

from tcemu.course.judges import Descriptors
from tcemu.course.record import Exercise
from tcemu.layouts import Descriptor

_SWIZZLES = (0, 32, 64, 128)
_LINE = 128
#: Where else a tile may begin.
_STARTS = range(2048, 1 << 17, 3072)

# ---------------------------------------------------------------------------------------------- descriptors


def _cases(**values: Iterable[int]) -> list[Mapping[str, int]]:
    """All combinations of the arguments' values."""
    return [dict(zip(values, case, strict=True)) for case in product(*values.values())]


def _plain(start: int, rows: int) -> Descriptor:
    return Descriptor.for_tile("f16", rows, 64, start=start)


def _box(start: int, rows: int) -> Descriptor:
    return Descriptor.for_tile("f16", rows, 64, swizzle=_LINE, start=start)


def _boxes_of_columns(start: int, depth: int) -> Descriptor:
    return Descriptor.for_tile("f16", 256, depth, major="MN", swizzle=_LINE, start=start, atoms_along="K")


EXERCISES = [
    Exercise(
        "encode_descriptor",
        "Encode a descriptor",
        "Write `encode_descriptor(start, lbo, sbo, swizzle)`, which returns the 64 bits of a matrix descriptor as a "
        "whole number. All four are in bytes; `swizzle` is 0, 32, 64 or 128. Use shifts, not `Descriptor`.",
        Descriptors(
            _cases(start=(0, 1024, 24576), lbo=(16, 2048), sbo=(128, 1024), swizzle=_SWIZZLES),
            Descriptor,
            wider=_cases(start=_STARTS, lbo=(16, 32, 1024, 4096), sbo=(128, 256, 512, 2048), swizzle=_SWIZZLES),
        ),
        minutes=10,
        only=(),
        know="the fields of a matrix descriptor",
        section="9.7.15.5.1.2.2",
        hints=(
            "show.descriptor(0) draws the fields: which bit does each begin at?",
            "Three fields hold bytes without their low four bits, which are always 0.",
            "128 bytes have the code 1. What are the codes of 64 and 32?",
        ),
    ),
    Exercise(
        "descriptor_without_swizzle",
        "A K-major tile without a swizzle",
        "A tile of `rows` × 64 f16, K-major, begins at byte `start`. It consists of core matrices: 8 rows of 16 bytes, "
        "128 contiguous bytes. The core matrix of the next eight rows follows at once; after all rows come the "
        "core matrices of the next 16 bytes of K. Write `descriptor_without_swizzle(start, rows)`, which returns the "
        "descriptor, as a `Descriptor` with its fields or as 64 bits. Work out the fields without `for_tile`.",
        Descriptors(
            _cases(start=(0, 2048, 49152), rows=(64, 128, 256)),
            _plain,
            (
                (
                    (
                        "LBO is the distance between core matrices that are neighbours along K: there are rows // 8 "
                        "core matrices in between."
                    ),
                    lambda start, rows: replace(_plain(start, rows), lbo=128),
                ),
                *(
                    (
                        (
                            "You describe a tile whose rows are 128 contiguous bytes. Here a core matrix is "
                            "contiguous: 8 rows of 16 bytes."
                        ),
                        lambda start, rows, lbo=lbo: replace(_plain(start, rows), lbo=lbo, sbo=1024),
                    )
                    for lbo in (16, 128)
                ),
            ),
            wider=_cases(start=_STARTS, rows=range(8, 264, 8)),
        ),
        minutes=15,
        only=("tcemu.layouts.Descriptor.__post_init__", "tcemu.layouts.Descriptor.encode"),
        know="core matrices, LBO and SBO",
        section="9.7.15.5.1.2.1",
        hints=(
            "In a K-major tile without a swizzle, SBO leads to the next eight rows, and LBO to the next 16 bytes of K.",
            "How many bytes do all core matrices of one 16-byte column take?",
        ),
        points=2,
    ),
    Exercise(
        "descriptor_of_a_box",
        "The tile that TMA wrote",
        "A tensor copy with the 128-byte swizzle wrote a box of `rows` rows of 64 f16 to byte `start`, a multiple of "
        "1024. Write `descriptor_of_a_box(start, rows)`, which returns its descriptor for wgmma, K-major. Work out the "
        "fields yourself, without `for_tile`.",
        Descriptors(
            _cases(start=(0, 1024, 65536), rows=(8, 64, 128)),
            _box,
            (
                (
                    "SBO leads from one group of eight rows to the next; you gave the size of the whole box.",
                    lambda start, rows: replace(_box(start, rows), sbo=128 * rows),
                ),
            ),
            ignored=("lbo",),
            wider=_cases(start=_STARTS, rows=range(8, 264, 8)),
        ),
        minutes=10,
        only=("tcemu.layouts.Descriptor.__post_init__", "tcemu.layouts.Descriptor.encode"),
        know="swizzled tiles, SBO",
        section="9.7.15.5.1.2.1, 9.7.15.5.1.2.2",
        hints=(
            "A row of 64 f16 is 128 bytes: one line of the swizzle. LBO is not used then.",
            "SBO leads from one group of eight rows to the next.",
            "Does SBO depend on the number of rows?",
        ),
    ),
    Exercise(
        "descriptor_mn_major",
        "B as it is in memory: MN-major",
        "B has `depth` rows along K and 256 f16 columns, stored row by row, so it is MN-major. TMA copies it in "
        "boxes of 64 columns and `depth` rows with the 128-byte swizzle, one box after the other from byte `start` on. "
        "Write `descriptor_mn_major(start, depth)`, which returns the descriptor of the whole tile (imm-trans-b = 1). "
        "Work out the fields yourself, without `for_tile`.",
        Descriptors(
            _cases(start=(0, 4096), depth=(16, 32, 64)),
            _boxes_of_columns,
            (
                (
                    "LBO leads to the next 64 columns, so it is the size of a box: depth rows of 128 bytes.",
                    lambda start, depth: replace(_boxes_of_columns(start, depth), lbo=1024),
                ),
                (
                    "In an MN-major tile with a swizzle, LBO leads to the next 64 columns: it is used.",
                    lambda start, depth: replace(_boxes_of_columns(start, depth), lbo=16),
                ),
            ),
            wider=_cases(start=_STARTS, depth=range(8, 136, 8)),
        ),
        minutes=20,
        only=("tcemu.layouts.Descriptor.__post_init__", "tcemu.layouts.Descriptor.encode"),
        know="canonical layouts of MN-major tiles",
        section="9.7.15.5.1.2.1",
        hints=(
            "With a swizzle, MN-major swaps the roles: LBO leads along MN, SBO along K.",
            "One line of 128 bytes is 64 columns of one k. Where is the next k, and where the one 8 further on?",
            "Where is column 64 of the same k?",
        ),
        points=2,
    ),
]
