"""Tiles that threads write themselves: one that is read in another layout is reported, and none that is right.

Each kernel multiplies, and numpy says whether its product is right.
"""

from itertools import product as pairs

import numpy as np
import pytest
from kernels_table import barrier, finish
from kernels_wild_table import product, small
from quick import DAY, spread
from tiles_table import (
    cores,
    half_swizzled,
    launched,
    multiply,
    padded,
    row_cores,
    rows,
    steps,
    swizzled,
    turned,
)

from tcemu.layouts import Descriptor
from tcemu.layouts.descriptor import tile_addresses
from tcemu.machine.global_memory import Pointer
from tcemu.sanitizer.origins import Source
from tcemu.sanitizer.stored_tiles import exchanged, misplaced

WRITERS = [rows, padded, swizzled, half_swizzled, turned, cores, row_cores]

# ------------------------------------------------------------------------------------------------ the law

#: A matrix of 64 rows of 64 f16, 256 bytes from one to the next; the tile is its first 128 bytes of each row.
PITCH = 256
SOURCE = Source(4096, 4096 + 64 * PITCH, PITCH, "a", (64, 128), 2)


def memory(writer):
    """The origin of each byte of shared memory."""
    found = np.full(1 << 16, -1)
    for row, unit in pairs(range(64), range(8)):
        at, start = writer(row, unit), SOURCE.first + row * PITCH + 16 * unit
        found[at : at + 16] = np.arange(start, start + 16)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("writer", WRITERS, ids=lambda each: each.__name__)
def test_what_a_descriptor_misreads_is_right_and_nothing_right_is_misread(writer):
    """Whatever LBO, SBO, swizzle and start: the report names the element that the matrix has there."""
    origins, counts = memory(writer), [0, 0]
    numbers = (16, 128, 256, 512, 1024, 2048)
    for lbo, sbo, swizzle, start in spread(pairs(numbers, numbers, (0, 32, 64, 128), (0, 32, 2048)), 5, DAY):
        descriptor = Descriptor(start, lbo, sbo, swizzle)
        where = tile_addresses(descriptor, descriptor.layout("f16", "K"), np.arange(64), np.arange(16))
        taken = origins[where]
        wanted = taken[0, 0] + np.arange(64)[:, None] * PITCH + 2 * np.arange(16)
        found = misplaced(where, 2, origins, SOURCE, mn_major=False)
        fits = np.array_equal(taken, wanted)
        assert not (fits and found)
        counts[found is not None] += 1
        if found is not None:
            assert taken[found.element] != wanted[found.element] == found.origin == origins[found.wanted]
            assert all(way.descriptor != descriptor for way in found.fit.ways)
    assert min(counts) > 0 or writer is turned  # a tile that no swizzle and no rows describe


@pytest.mark.parametrize(("writer", "reader"), list(pairs(WRITERS, WRITERS)), ids=lambda each: each.__name__)
def test_ldmatrix_reads_rows_or_is_reported(writer, reader):
    """A unit of 8 rows; diagonals of a matrix are rows, too."""
    origins, found = memory(writer), []
    for first, unit in pairs(range(0, 64, 8), range(8)):
        where = reader(first + np.arange(8), unit)
        at = exchanged(where, origins, SOURCE)
        found.append(at)
        if at is not None:
            taken, wanted = (int(origins[each]) for each in (where[at[0]], at[1]))
            assert taken != wanted == origins[where[0]] + at[0] * PITCH
    assert not (any(found) and writer is reader)
    assert any(found) or writer is reader or not {writer, reader} <= {rows, swizzled, half_swizzled}


# ------------------------------------------------------------------------------------------------ products


def wide(warp, to, matrix, row, unit):
    warp.st_shared(to(row, unit), warp.ld_global(matrix.at(row, 8 * unit), "v4.b32"), "v4.b32")


def in_parts(warp, to, matrix, row, unit):
    """A wide load, and four stores."""
    loaded = warp.ld_global(matrix.at(row, 8 * unit), "v4.b32")
    for part in range(4):
        warp.st_shared(to(row, unit) + 4 * part, loaded[:, part])


def packed(warp, to, matrix, row, unit):
    """Four loads, and a wide store."""
    loaded = [warp.ld_global(matrix.at(row, 8 * unit + 2 * part)) for part in range(4)]
    warp.st_shared(to(row, unit), np.stack([np.asarray(each)[:, 0] for each in loaded], axis=1), "v4.b32")


def asynchronous(warp, to, matrix, row, unit):
    warp.cp_async(to(row, unit), matrix.at(row, 8 * unit), 16)


def copied(warp, matrix, to, how, count=64):
    """Rows of 64 f16 into shared memory, by all threads."""
    for first in range(0, 8 * count, 128):
        row, unit = np.divmod(first + warp.threads, 8)
        how(warp, to, matrix, row, unit)
    warp.cp_async_commit_group()
    warp.cp_async_wait_group(0)


def square(warp, a, out, to, how, tiles):
    """D = A times the transpose of its first 8 rows."""
    copied(warp, a, to, how)
    multiply(warp, out, tiles, tiles)


#: How the tile is written, the distance of k = 16, LBO, SBO and swizzle; whether it is right, or the rule.
TILES = {
    "swizzled": (swizzled, 32, 16, 1024, 128, ""),
    "core matrices": (cores, 2048, 1024, 128, 0, ""),
    "core matrices by rows": (row_cores, 256, 128, 1024, 0, ""),
    "rows as core matrices": (rows, 32, 16, 1024, 0, "tile-layout"),
    "rows as core matrices of one tile": (rows, 256, 128, 256, 0, "tile-layout"),
    "rows with a swizzle": (rows, 32, 16, 1024, 128, "tile-layout"),
    "a swizzle that is not read": (swizzled, 32, 16, 1024, 0, "swizzle-mismatch"),
    "another swizzle": (swizzled, 32, 16, 1024, 64, "swizzle-mismatch"),
    "another phase": (half_swizzled, 32, 16, 1024, 128, "tile-layout"),
    "SBO of 4 rows": (swizzled, 32, 16, 512, 128, "tile-layout"),
    "LBO and SBO exchanged": (cores, 256, 128, 1024, 0, "tile-layout"),
    "columns for rows": (row_cores, 2048, 1024, 128, 0, "tile-layout"),
}


@pytest.mark.parametrize("how", [wide, in_parts, packed, asynchronous], ids=lambda each: each.__name__)
@pytest.mark.parametrize("way", TILES)
def test_wrong_products_are_reported_and_right_ones_are_not(way, how):
    to, *tile, rule = TILES[way]
    a, out = small(64, 64), np.zeros((64, 8), np.float32)
    reports = launched(square, a, out, to, how, steps(*tile))
    assert np.array_equal(out, product(a, a[:8])) == (not rule)
    assert {each.rule for each in reports if each.rule != "uninitialised-shared"} == ({rule} if rule else set())


def test_the_report_says_which_bytes_and_which_descriptor_would_fit():
    def told(way):
        to, *tile, _ = TILES[way]
        return launched(square, small(64, 64), np.zeros((64, 8), np.float32), to, wide, steps(*tile))[0]

    first = told("rows as core matrices")
    assert first.message.endswith(
        "for element (m, k) = (1, 0) it takes bytes 16 to 17, which hold element [0, 8] of argument 0; element [1, 0] "
        "of argument 0 is at bytes 128 to 129"
    )
    assert first.fix.startswith("No descriptor reads the tile as it is: the tile is in rows that are 128 bytes apart")
    assert told("SBO of 4 rows").fix == (
        "The tile needs LBO 16, SBO 1024 and a swizzle of 128 bytes; this descriptor has LBO 16, SBO 512 and a swizzle "
        "of 128 bytes."
    )
    assert first.earlier.what.startswith("st.shared.v4.b32")


def bulk_rows(warp, a, out, to_swizzled):
    """A bulk copy for each row cannot swizzle it; the whole matrix, packed in advance, comes in one copy."""
    barrier(warp, 16384)
    with warp.only(warp.threads == 0):
        warp.mbarrier_arrive_expect_tx(16384, 8192)
        if to_swizzled:
            warp.cp_async_bulk_shared_global(0, a, 8192, 16384)
    if not to_swizzled:
        with warp.only(warp.threads < 64):
            warp.cp_async_bulk_shared_global(128 * (warp.threads % 64), a.at(warp.threads % 64, 0), 128, 16384)
    warp.mbarrier_wait(16384, 0)
    multiply(warp, out, steps(32, 16, 1024, 128), steps(32, 16, 1024, 128))


@pytest.mark.parametrize("right", [True, False])
def test_bulk_copies_of_rows_and_of_a_packed_matrix(right):
    a, out = small(64, 64), np.zeros((64, 8), np.float32)
    given = a.reshape(64, 8, 8)[np.arange(64)[:, None], np.arange(8) ^ np.arange(64)[:, None] % 8].reshape(64, 64)
    reports = launched(bulk_rows, given if right else a, out, right)
    assert np.array_equal(out, product(a, a[:8])) == right
    assert [each.rule for each in reports][:1] == ([] if right else ["tile-layout"])


def rows_of_24(warp, b, out, tile):
    """A row of ones times B, whose rows of 24 f16 are stored one after the other (and read as core matrices)."""
    for first in range(0, 192, 128):
        row, word = np.divmod(np.minimum(first + warp.threads, 191), 12)
        with warp.only(first + warp.threads < 192):
            warp.st_shared(48 * row + 4 * word, warp.ld_global(b.at(row, 2 * word)))
    warp.fence_proxy_async()
    warp.bar_sync()
    a = np.full((32, 4), 0x3C003C00, np.uint32)
    c = warp.registers(12, fill=0)
    warp.wgmma_fence()
    warp.run("wgmma.mma_async.sync.aligned.m64n24k16.f32.f16.f16", c, a, tile, 0, 1, 1, 1)
    finish(warp)


def test_rows_of_48_bytes_have_no_descriptor():
    """Public problem: no LBO and SBO read B [16][24] as it is."""
    reports = launched(rows_of_24, small(16, 24), np.zeros(24, np.float32), Descriptor(0, 192, 384))
    (found,) = [each for each in reports if each.rule == "tile-layout"]
    assert "No descriptor reads the tile as it is: the tile is in rows that are 48 bytes apart" in found.fix


# ------------------------------------------------------------------------------------------------ right kernels


def gathered(warp, a, out, order):
    """Rows in any order, each as a whole, read as they are stored."""

    def to(row, unit):
        return swizzled(np.argsort(order)[np.asarray(row)], unit)

    copied(warp, a, to, wide)
    multiply(warp, out, steps(32, 16, 1024, 128), steps(32, 16, 1024, 128))


def interleaved(warp, a, out, order):
    """Units of k in any order, the same for all rows."""

    def to(row, unit):
        return swizzled(row, np.asarray(order)[np.asarray(unit)])

    copied(warp, a, to, asynchronous)
    multiply(warp, out, steps(32, 16, 1024, 128), steps(32, 16, 1024, 128))


@pytest.mark.parametrize("kernel", [gathered, interleaved], ids=lambda each: each.__name__)
def test_rows_and_columns_in_another_order_are_silent(kernel):
    a, out = small(64, 64), np.zeros((64, 8), np.float32)
    order = np.random.default_rng(0).permutation(64 if kernel is gathered else 8)
    assert not launched(kernel, a, out, tuple(order.tolist()))
    taken = a[order] if kernel is gathered else a
    np.testing.assert_array_equal(out, product(taken, taken[:8]))


def transposed(warp, a, out, by_hand):
    """The transpose of A times its first 8 columns: by the transpose bits, or by stores of single elements."""
    if not by_hand:
        copied(warp, a, swizzled, wide)
        tiles = [Descriptor(2048 * number, 8192, 1024, 128) for number in range(4)]
        multiply(warp, out, tiles, tiles, more=(1, 1, 1, 1, 1))
        return
    for first in range(0, 4096, 128):
        row, column = np.divmod(first + warp.threads, 64)
        value = warp.ld_global(a.at(row, column), "u16")
        warp.st_shared(swizzled(column, row // 8) + 2 * (row % 8), value, "b16")
    multiply(warp, out, steps(32, 16, 1024, 128), steps(32, 16, 1024, 128))


@pytest.mark.parametrize("by_hand", [True, False])
def test_transposes_on_purpose_are_silent(by_hand):
    a, out = small(64, 64), np.zeros((64, 8), np.float32)
    assert not launched(transposed, a, out, by_hand)
    np.testing.assert_array_equal(out, product(a.T, a.T[:8]))


def windows(warp, image, out, channels):
    """im2col: pixel m has 64 / channels neighbours of `channels` numbers in a row; those outside are zeros."""
    units = channels // 8
    for first in range(0, 512, 128):
        row, unit = np.divmod(first + warp.threads, 8)
        pixel = row + unit // units - 2
        inside = (pixel >= 0) & (pixel < 64)
        source = image.at(np.clip(pixel, 0, 63), unit % units * 8)
        warp.cp_async(swizzled(row, unit), source, 16, np.where(inside, 16, 0))
    warp.cp_async_commit_group()
    warp.cp_async_wait_group(0)
    multiply(warp, out, steps(32, 16, 1024, 128), steps(32, 16, 1024, 128))


@pytest.mark.parametrize("channels", [16, 32])
def test_im2col_is_silent(channels):
    image, out = small(64, channels), np.zeros((64, 8), np.float32)
    assert not launched(windows, image, out, channels)
    wide_image = np.zeros((64 + 64 // channels, channels), np.float16)
    wide_image[2 : 2 + 64] = image
    a = np.stack([wide_image[m : m + 64 // channels].ravel() for m in range(64)])
    np.testing.assert_array_equal(out, product(a, a[:8]))


def again(warp, a, out):
    """The buffer has rows first, which threads load, and then the same matrix with a swizzle."""
    copied(warp, a, rows, asynchronous)
    warp.bar_sync()
    warp.ld_shared(16 * warp.threads, "v4.b32")
    warp.bar_sync()
    square(warp, a, out, swizzled, asynchronous, steps(32, 16, 1024, 128))


def doubled(warp, a, out):
    """What is stored is not what was loaded."""
    for first in range(0, 512, 128):
        row, unit = np.divmod(first + warp.threads, 8)
        loaded = np.asarray(warp.ld_global(a.at(row, 8 * unit), "v4.b32"))
        warp.st_shared(rows(row, unit), loaded ^ 0x80008000, "v4.b32")
    multiply(warp, out, steps(32, 16, 1024, 0), steps(32, 16, 1024, 0))


def zeros(warp, a, out):
    """Zeros that a thread loads are no sign of where those that it stores come from."""
    warp.ld_global(a.at(warp.threads % 64, 0), "v4.b32")
    for first in range(0, 512, 128):
        row, unit = np.divmod(first + warp.threads, 8)
        warp.st_shared(rows(row, unit), 0, "v4.b32")
    multiply(warp, out, steps(32, 16, 1024, 0), steps(32, 16, 1024, 0))


def from_a_vector(warp, a, out):
    """An array of one axis says nothing about rows."""
    vector = Pointer(int(a), a.dtype, (4096,))
    copied(warp, Flat(vector), rows, wide)
    multiply(warp, out, steps(256, 128, 256, 0), steps(256, 128, 256, 0))


class Flat:
    """A vector, addressed as rows of 64."""

    def __init__(self, vector):
        self.vector = vector

    def at(self, row, column):
        return self.vector.at(64 * row + column)


@pytest.mark.parametrize(
    ("kernel", "shape"),
    [(again, (64, 64)), (doubled, (64, 64)), (zeros, (64, 64)), (from_a_vector, (4096,)), (from_a_vector, (8, 512))],
    ids=lambda each: getattr(each, "__name__", str(each)),
)
def test_what_is_not_certain_is_silent(kernel, shape):
    a = small(*shape)
    if kernel is zeros:
        a[...] = 0
    reports = launched(kernel, a, np.zeros((64, 8), np.float32))
    assert {each.rule for each in reports} <= {"uninitialised-shared"}


def broadcast(warp, a, out):
    """An SBO of 0 takes the first 8 rows for all."""
    tiles = steps(32, 16, 0, 128)
    square(warp, a, out, swizzled, asynchronous, tiles)


def test_a_step_of_0_is_silent():
    a, out = small(64, 64), np.zeros((64, 8), np.float32)
    assert not launched(broadcast, a, out)
    np.testing.assert_array_equal(out, product(np.tile(a[:8], (8, 1)), a[:8]))


# ------------------------------------------------------------------------------------------------ ldmatrix


def loads(warp, a, to, back, how):
    copied(warp, a, to, how, 16)
    warp.bar_sync()
    for k in range(4):
        warp.run("ldmatrix.sync.aligned.m8n8.x4.shared.b16", back(warp.laneid % 16, 2 * k + warp.laneid // 16))


@pytest.mark.parametrize("how", [wide, asynchronous], ids=lambda each: each.__name__)
@pytest.mark.parametrize(
    ("to", "back"),
    [
        (rows, rows),
        (padded, padded),
        (swizzled, swizzled),
        (turned, turned),
        (cores, cores),
        (swizzled, rows),
        (rows, swizzled),
        (half_swizzled, swizzled),
        (swizzled, half_swizzled),
        (turned, rows),
    ],
    ids=lambda each: each.__name__,
)
def test_ldmatrix_and_stores_have_the_same_swizzle_or_are_reported(to, back, how):
    reports = launched(loads, small(16, 64), to, back, how)
    assert [each.rule for each in reports] == ([] if to is back else ["swizzle-mismatch"])
    if (to, back) == (swizzled, rows):
        assert "for row 1 of a matrix it takes bytes 144 to 159, which begin with element [1, 0]" in reports[0].message
        assert "element [1, 8] of argument 0 is at bytes 128 to 143" in reports[0].message
