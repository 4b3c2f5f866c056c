"""Tiles that tensor copies wrote: each descriptor reads the matrix, or is reported, and none that reads it is."""

import re
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from kernels_table import barrier, finish
from kernels_wild_table import product as times
from kernels_wild_table import small

import tcemu
from tcemu.layouts import Descriptor
from tcemu.layouts.descriptor import tile_addresses
from tcemu.machine.tensor_map import TensorMap
from tcemu.sanitizer.tiles import Box, Boxes, misread

#: Element names of tensor maps with their bytes; the bytes of a swizzle.
ELEMENTS = {"u8": 1, "f16": 2, "f32": 4}
WIDTHS = (0, 32, 64, 128)
#: The matrix in global memory.
LINES, ROW = 128, 256
ZERO = np.zeros(1, np.int64), np.zeros(1, np.int64)


class Scene:
    """A matrix of 128 lines of 256 bytes in global memory, of which boxes are copied into shared memory.

    `numbers` says which byte of the matrix is at each address of shared memory.
    """

    def __init__(self, size):
        self.size, self.boxes, self.count = size, Boxes(), 0
        self.numbers, self.owners = np.full(1 << 17, -1), np.zeros(1 << 17, np.int64)

    def map(self, box, swizzle=0, sizes=None, strides=(ROW,)):
        name = next(name for name, size in ELEMENTS.items() if size == self.size)
        return TensorMap(0, name, sizes or (ROW // self.size, LINES), strides, box, swizzle)

    def copy(self, at, tensor_map, *coordinates):
        """One box to `at`: its bytes are copied in three parts, 8 bits of their numbers each."""
        places = tensor_map.pieces(coordinates, at)
        parts = []
        for shift in (0, 8, 16):
            near = np.zeros(1 << 17, np.uint8)
            tensor_map.load_at(places, (np.arange(LINES * ROW) >> shift).astype(np.uint8), near)
            parts.append(near.astype(np.int64) << shift)
        self.count += 1
        self.boxes.add(self.count, Box(tensor_map, coordinates, places.shared_addresses, places.size))
        where = (places.shared_addresses[:, None] + np.arange(places.size)).ravel()
        self.owners[where], self.numbers[where] = self.count, sum(parts)[where]

    def judge(self, descriptor, mn, k, major):
        """Which byte of the matrix each element (mn, k) begins with, and the element that is misread."""
        layout = descriptor.layout(8 * self.size, major)
        where = tile_addresses(descriptor, layout, np.arange(mn), np.arange(k))
        found = misread(where, self.size, self.owners[where], self.boxes, mn_major=major == "MN")
        return self.numbers[where], found


def scenes():
    """(name, scene, right descriptor, mn, k, major) for each way to copy a tile."""
    for size, width, major in product(ELEMENTS.values(), WIDTHS, ("K", "MN")):
        if major == "MN" and size != 2:
            continue
        line, mn, k = width or 16, 64, 32 // size
        count = max(-(-(k if major == "K" else mn) * size // line), 1)
        name = f"{size} bytes, swizzle {width}, {major}-major"
        right = Descriptor.for_tile(
            8 * size, mn, k, major=major, swizzle=width, atoms_along="MN" if major == "K" else "K", pitch=64 * line
        )
        scene = Scene(size)
        box = scene.map((line // size, 64), width)
        for number in range(count):
            scene.copy(number * 64 * line, box, number * line // size, 0)
        yield f"{name}, boxes side by side", scene, right, mn, k, major
        scene = Scene(size)
        sizes, strides = (line // size, LINES, ROW // line), (ROW, line)
        scene.copy(0, scene.map((line // size, 64, count), width, sizes, strides), 0, 0, 0)
        yield f"{name}, three dimensions", scene, right, mn, k, major


SCENES = list(scenes())


@pytest.mark.parametrize(("name", "scene", "right", "mn", "k", "major"), SCENES, ids=[each[0] for each in SCENES])
def test_a_descriptor_reads_the_tile_or_is_reported(name, scene, right, mn, k, major):
    """Whatever LBO, SBO, swizzle and base offset: from its first element on it is the tile, or it is reported.

    Another rule reports bytes that nothing has written.
    """
    lines, along = np.meshgrid(np.arange(mn), np.arange(k), indexing="ij")
    wanted = (lines * ROW + along * scene.size) if major == "K" else (along * ROW + lines * scene.size)
    numbers = sorted({0, 128, 1024, 2048, 8192, right.lbo, right.sbo})
    counts = [0, 0]
    for lbo, sbo, swizzle, base in product(numbers, numbers, WIDTHS, (0, 1)):
        descriptor = replace(right, lbo=lbo, sbo=sbo, swizzle=swizzle, base_offset=base)
        taken, found = scene.judge(descriptor, mn, k, major)
        unwritten, taken = (taken < 0).any(), taken - taken[0, 0]
        fits = np.array_equal(taken, wanted)
        if unwritten:
            continue
        assert fits == (found is None), (descriptor, found)
        counts[fits] += 1
        if found is not None and found.wanted >= 0:
            first = scene.numbers[tile_addresses(descriptor, descriptor.layout(8 * scene.size, major), *ZERO)].item()
            there = scene.numbers[scene.boxes.get(found.record).address(found.wanted)] - first
            assert there == wanted[found.element] != taken[found.element], (descriptor, found)
    assert min(counts) > 0


@pytest.mark.parametrize("width", [32, 64, 128])
@pytest.mark.parametrize("size", ELEMENTS.values())
def test_steps_along_k_and_parts_of_a_tile_are_silent(size, width):
    """K-major, 128 lines of 256 bytes: 16 rows and 32 bytes of them, from every place where a tile may be cut."""
    scene = Scene(size)
    box = scene.map((width // size, LINES), width)
    for number in range(ROW // width):
        scene.copy(number * LINES * width, box, number * width // size, 0)
    whole = Descriptor.for_tile(8 * size, LINES, ROW // size, swizzle=width)
    for mn, k in product(range(0, LINES - 8, 8), range(0, ROW // size, 32 // size)):
        taken, found = scene.judge(whole.advance(8 * size, mn, k), 16, 32 // size, "K")
        assert taken[0, 0] == mn * ROW + k * size
        assert found is None, (mn, k, found)


def test_a_step_past_the_end_of_a_line_is_reported():
    """k = 64 of f16 is in the next box, not 128 bytes further on: there, the next row begins."""
    scene = Scene(2)
    box = scene.map((64, 64), 128)
    for number in range(2):
        scene.copy(number * 8192, box, 64 * number, 0)
    _, found = scene.judge(Descriptor.for_tile("f16", 64, 64, swizzle=128).step(128), 64, 16, "K")
    assert found is not None
    assert found.element == (63, 0)


def test_a_tile_that_is_longer_than_its_box_is_silent():
    """16 rows of queries in a wgmma of 64: the others are whatever follows, and their sums are not used."""
    scene = Scene(2)
    scene.copy(0, scene.map((64, 16), 128), 0, 0)
    scene.copy(2048, scene.map((64, 48), 128, (64, 256), (128,)), 0, 0)
    _, found = scene.judge(Descriptor.for_tile("f16", 64, 64, swizzle=128), 64, 16, "K")
    assert found is None


def test_boxes_that_continue_the_one_before_are_silent():
    """A window of 64 rows over boxes of 32, from row 8 on; and pages in any order."""
    for order in ((0, 1, 2), (2, 0, 1)):
        scene = Scene(2)
        box = scene.map((64, 32), 128)
        for place, number in enumerate(order):
            scene.copy(4096 * place, box, 0, 32 * number)
        start = Descriptor.for_tile("f16", 96, 64, swizzle=128)
        for row in (0, 8, 24):
            assert scene.judge(start.advance("f16", row, 0), 64, 16, "K")[1] is None


def test_what_was_overwritten_since_is_not_looked_at():
    """The last rows of a box are cleared by stores."""
    scene = Scene(2)
    scene.copy(0, scene.map((64, 64), 128), 0, 0)
    scene.owners[4096:8192] = 77
    assert scene.judge(Descriptor.for_tile("f16", 64, 64, swizzle=128), 64, 16, "K")[1] is None


def test_a_transposed_tile_is_silent():
    """The same box is A by rows, and its transpose by columns."""
    scene = Scene(2)
    scene.copy(0, scene.map((64, 64), 128), 0, 0)
    for major in ("K", "MN"):
        tile = Descriptor.for_tile("f16", 64, 64, major=major, swizzle=128, atoms_along="MN" if major == "K" else "K")
        assert scene.judge(tile, 64, 16, major)[1] is None


# ------------------------------------------------------------------------------------------------ kernels

#: The number of f16 in a line of the box, its swizzle, and the swizzle, LBO and SBO of the descriptors for 64 rows.
WAYS = {
    "swizzled": (64, 128, 128, 16, 1024),
    "core matrices": (8, 0, 0, 1024, 128),
    "whole rows": (64, 0, 0, 16, 1024),
    "whole rows, packed": (64, 0, 0, 1024, 128),
    "another swizzle": (64, 128, 64, 16, 1024),
    "no swizzle in the map": (64, 0, 128, 16, 1024),
    "SBO of 4 rows": (64, 128, 128, 16, 512),
    "SBO in units of 16 bytes": (64, 128, 128, 16, 64),
    "exchanged": (8, 0, 0, 128, 1024),
}
RIGHT = ("swizzled", "core matrices")


def multiplies(warp, a, out, way):
    """D = A times the transpose of its first 8 rows, from the same tile."""
    width, swizzle, read, lbo, sbo = WAYS[way]
    barrier(warp, 16384)
    box = TensorMap.of(a, (width, 64), swizzle=swizzle)
    with warp.only(warp.threads == 0):
        warp.mbarrier_arrive_expect_tx(16384, 8192)
        for k in range(0, 64, width):
            warp.cp_async_bulk_tensor_shared_global(k * 128, box, (k, 0), 16384)
    warp.mbarrier_wait(16384, 0)
    d = warp.registers(4, fill=0)
    warp.wgmma_fence()
    for k in range(0, 64, 16):
        step = Descriptor(k * 2 if width == 64 and lbo == 16 else k * 128, lbo, sbo, read)
        warp.run("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16", d, step, step, 1, 1, 1, 0, 0)
    finish(warp)
    rows, column = 16 * warp.warpid + warp.laneid // 4, warp.laneid % 4 * 2
    for i in range(4):
        warp.st_global(out.at(rows + 8 * (i // 2), column + i % 2), d[:, i])


@pytest.mark.parametrize("way", WAYS)
def test_wrong_products_are_reported_and_right_ones_are_not(way):
    a, out = small(64, 64), np.zeros((64, 8), np.float32)
    result = tcemu.launch(multiplies, block=128, args=(a, out, way), shared=16640, sanitizer="collect")
    assert np.array_equal(out, times(a, a[:8])) == (way in RIGHT) == (not result.reports)
    rule = "tile-layout" if WAYS[way][1] == WAYS[way][2] else "swizzle-mismatch"
    found = [report for report in result.reports if report.rule != "uninitialised-shared"]  # past the end of A
    assert {report.rule for report in found} == ({rule} if way not in RIGHT else set())
    for report in found:
        assert re.search(r"for element \([mn], k\) = \(\d+, \d+\) it takes bytes \d+ to \d+, which", report.message)


def test_the_report_says_which_bytes_and_which_layout_would_fit():
    def told(way):
        result = tcemu.launch(
            multiplies,
            block=128,
            args=(small(64, 64), np.zeros((64, 8), np.float32), way),
            shared=16640,
            sanitizer="collect",
        )
        return result.reports[0]

    rows = told("whole rows")
    assert (
        "for element (m, k) = (1, 0) it takes bytes 16 to 17, which hold element 8 of line 0 of the box; element 0 of "
        "line 1 is at bytes 128 to 129"
    ) in rows.message
    assert rows.fix == (
        "No LBO and SBO fit lines of 128 bytes without a swizzle. Give the tensor map and the descriptor a swizzle of "
        "128 bytes; or copy boxes of 16 bytes (8 elements) in width side by side, each 1024 bytes after the last."
    )
    assert "need a descriptor with LBO 1024 and SBO 128 if" in told("exchanged").fix
    assert "this one has LBO 16 and SBO 512" in told("SBO of 4 rows").fix


def loads(warp, a, out, wrong):
    """ldmatrix from a box with a swizzle, and the box back by another tensor copy."""
    barrier(warp, 1024)
    there, back = TensorMap.of(a, (32, 8), swizzle=64), TensorMap.of(out, (32, 8), swizzle=0 if "back" in wrong else 64)
    with warp.only(warp.laneid == 0):
        warp.mbarrier_arrive_expect_tx(1024, 512)
        warp.cp_async_bulk_tensor_shared_global(0, there, (0, 0), 1024)
    warp.mbarrier_wait(1024, 0)
    row = warp.laneid % 8
    unit = 1 if "ldmatrix" in wrong else 1 ^ row // 2
    warp.run("ldmatrix.sync.aligned.m8n8.x1.shared.b16", 64 * row + 16 * unit)
    with warp.only(warp.laneid == 0):
        warp.cp_async_bulk_tensor_global_shared(back, (0, 0), 0)
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)


@pytest.mark.parametrize("wrong", ["", "ldmatrix", "back"])
def test_other_readers_of_a_box(wrong):
    a, out = small(8, 32), np.zeros((8, 32), np.float16)
    reports = tcemu.launch(loads, args=(a, out, wrong), shared=1152, sanitizer="collect").reports
    assert [each.rule for each in reports] == (["swizzle-mismatch"] if wrong else [])
    assert np.array_equal(a, out) == (wrong != "back")
    if wrong == "ldmatrix":
        assert "for row 2 of a matrix it takes bytes 144 to 159, which hold bytes 0 to 15 of" in reports[0].message
        assert "u ^ (address >> 7 & 3)" in reports[0].fix
