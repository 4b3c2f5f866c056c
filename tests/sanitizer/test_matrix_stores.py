"""Tiles that stmatrix writes: one that is read with another swizzle is reported, and none that is right."""

from itertools import product as pairs

import numpy as np
import pytest
from tiles_table import half_swizzled, launched, multiply, padded, rows, steps, swizzled

import tcemu
from tcemu.layouts import Descriptor
from tcemu.machine.tensor_map import TensorMap

STMATRIX = "stmatrix.sync.aligned.m8n8.x4.shared.b16"


def named(each):
    return getattr(each, "__name__", str(each))


WAYS = {0: rows, 64: half_swizzled, 128: swizzled}


def written(warp, to, base=0):
    """64 rows of 64 f16, the values of which are (row, column), 16 rows by each of four warps."""
    lane, number = warp.laneid, warp.laneid // 8
    held_row = 16 * warp.warpid + lane // 4
    for column in range(0, 64, 16):
        held = np.zeros((32, 4), np.uint32)
        for each in range(4):
            row, first = held_row + 8 * (each % 2), column + 8 * (each // 2) + 2 * (lane % 4)
            held[:, each] = (64 * row + first) | (64 * row + first + 1) << 16
        row = 16 * warp.warpid + 8 * (number % 2) + lane % 8
        warp.run(STMATRIX, base + to(row, column // 8 + number // 2), held)


def stored(warp, out, to, swizzle, base):
    """The whole tile leaves by a tensor copy."""
    written(warp, to, base)
    warp.fence_proxy_async("shared::cta")
    warp.bar_sync()
    with warp.only(warp.threads == 0):
        width = 32 if swizzle == 64 else 64
        for first in range(0, 64, width):
            box = TensorMap.of(out, (width, 64), swizzle=swizzle)
            warp.cp_async_bulk_tensor_global_shared(box, (first, 0), base + 128 * first)
        warp.cp_async_bulk_commit_group()
        warp.cp_async_bulk_wait_group(0)


def narrow(row, unit):
    """Two boxes of 64 bytes in width, with the swizzle of 64 bytes."""
    return np.asarray(unit) // 4 * 4096 + 64 * row + 16 * ((np.asarray(unit) % 4) ^ row // 2 % 4)


@pytest.mark.parametrize(("to", "swizzle"), [
    (rows, 0), (swizzled, 128), (narrow, 64), (rows, 128), (swizzled, 0), (half_swizzled, 128), (half_swizzled, 0),
], ids=named)  # fmt: skip
@pytest.mark.parametrize("cluster", [1, 2])
def test_a_tensor_copy_with_another_swizzle_is_reported(to, swizzle, cluster):
    out = np.zeros((64, 64), np.uint16)
    result = tcemu.launch(
        stored, grid=cluster, cluster=cluster, block=128, args=(out, to, swizzle, 1024), shared=20480,
        sanitizer="collect",
    )  # fmt: skip
    right = np.array_equal(out, np.arange(4096).reshape(64, 64))
    rules = {each.rule for each in result.reports} - {"race-between-blocks", "global-race"}
    assert rules == (set() if right else {"swizzle-mismatch"})


def test_the_report_names_rows_and_what_to_do():
    out = np.zeros((64, 64), np.uint16)
    result = tcemu.launch(stored, block=128, args=(out, rows, 128, 1024), shared=20480, sanitizer="collect")
    (found,) = [each for each in result.reports if each.rule == "swizzle-mismatch"]
    assert found.message.endswith(
        "wrote it: of the matrix whose row 0 is at bytes 1040 to 1055, it takes row 1 from bytes 1152 to 1167, "
        "but stmatrix wrote that row to bytes 1168 to 1183"
    )
    assert found.fix == (
        "The tensor map has a swizzle of 128 bytes: let stmatrix store unit u of a line at its unit u ^ (line's "
        "address >> 7 & 7)."
    )
    assert found.earlier.what.startswith("stmatrix")


def multiplied(warp, out, to, tiles):
    written(warp, to)
    multiply(warp, out, tiles, tiles)


@pytest.mark.parametrize(("to", "swizzle"), list(pairs(WAYS.values(), (0, 64, 128))), ids=named)
def test_wgmma_reads_the_tile_with_its_swizzle_or_is_reported(to, swizzle):
    tiles = steps(32, 16, 1024, swizzle)
    reports = launched(multiplied, np.zeros((64, 8), np.float32), to, tiles)
    found = {each.rule for each in reports}
    rule = "swizzle-mismatch" if swizzle == 128 else "tile-layout"  # of 128 bytes a line has room for one row alone
    assert found - {"uninitialised-shared"} == (set() if (to, swizzle) == (swizzled, 128) else {rule})


def loaded(warp, to, back):
    written(warp, to)
    warp.bar_sync()
    row = 16 * warp.warpid + warp.laneid % 16
    for k in range(4):
        warp.run("ldmatrix.sync.aligned.m8n8.x4.shared.b16", back(row, 2 * k + warp.laneid // 16))


@pytest.mark.parametrize(("to", "back"), list(pairs((rows, padded, swizzled, half_swizzled), repeat=2)), ids=named)
def test_ldmatrix_reads_the_tile_with_its_swizzle_or_is_reported(to, back):
    found = {each.rule for each in launched(loaded, to, back)} - {"uninitialised-shared"}
    if padded in (to, back):
        assert to is not back or not found
    else:
        assert found == (set() if to is back else {"swizzle-mismatch"})


def overwritten(warp, out):
    """The buffer had another tile before, with another swizzle."""
    written(warp, swizzled, 1024)
    warp.bar_sync()
    stored(warp, out, rows, 0, 1024)


def test_what_is_there_no_longer_is_not_reported():
    out = np.zeros((64, 64), np.uint16)
    assert not launched(overwritten, out)
    assert np.array_equal(out, np.arange(4096).reshape(64, 64))


def exchanged(warp, out):
    """Whoever reads words of 16 bytes with ld.shared may have any layout."""
    written(warp, swizzled)
    warp.bar_sync()
    lane = warp.threads
    for first in range(0, 512, 128):
        unit = first + lane
        warp.st_global(int(out) + 16 * unit, warp.ld_shared(16 * unit, "v4.b32"), "v4.b32")


def test_plain_loads_are_silent():
    assert not launched(exchanged, np.zeros((64, 64), np.uint16))


def test_transposed_matrices():
    """stmatrix.trans of columns writes lines, and a descriptor for MN-major reads them as they are."""

    def kernel(warp, out):
        written(warp, swizzled)
        tiles = [Descriptor(2048 * number, 8192, 1024, 128) for number in range(4)]
        multiply(warp, out, tiles, tiles, more=(1, 1, 1, 1, 1))

    assert not launched(kernel, np.zeros((64, 8), np.float32))
