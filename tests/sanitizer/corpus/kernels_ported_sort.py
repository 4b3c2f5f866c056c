"""Ported kernels that sort and count: a pass of Onesweep, histograms of a cluster and of a block."""

import numpy as np
from kernels_ported_grid import INCLUSIVE, PARTIAL, zeros
from kernels_ported_table import ported
from kernels_wild_table import leader

RADIX, KEYS = 16, 4  # digits, keys of a lane
TILE = 64 * KEYS


def keys(count):
    return np.random.default_rng(count).integers(0, 1 << 16, count).astype(np.uint32)


def by_digit(a, *_):
    return np.concatenate([a[np.argsort(a % RADIX, kind="stable")], np.zeros(12, np.uint32)])


def exclusive(a):
    """The histogram of all tiles in front of the tiles' own, as Onesweep's scan kernel leaves it."""
    before = np.cumsum(np.bincount(a % RADIX, minlength=RADIX)) - np.bincount(a % RADIX, minlength=RADIX)
    return np.concatenate([before.astype(np.uint32) << 2 | INCLUSIVE, np.zeros(3 * RADIX, np.uint32)])


def ranked(warp, key, plain):
    """How many keys of the warp with the same digit came before, by a ballot for each bit and a counter of the warp."""
    digit = key % RADIX
    flags = np.full(32, 0xFFFFFFFF, np.uint32)
    for bit in range(4):
        has = key >> bit & 1 == 1
        flags &= np.where(has, 0, 0xFFFFFFFF).astype(np.uint32) ^ np.uint32(warp.vote_sync("ballot", has))
    before = np.bitwise_count(flags & ((1 << warp.laneid) - 1).astype(np.uint32))
    counter = 4 * RADIX * warp.warpid + 4 * digit.astype(np.int64)
    if plain:
        first = warp.ld_shared(counter)[:, 0]
        with warp.only(before == 0):
            warp.st_shared(counter, first + np.bitwise_count(flags))
    else:
        with warp.only(before == 0):
            first = warp.atom_shared("add.u32", counter, np.bitwise_count(flags))[:, 0]
    leaders = np.bitwise_count((flags & -flags.astype(np.int64)).astype(np.uint32) - 1)
    return warp.shfl_sync("idx", first, leaders) + before


def looked_back(warp, tile, passes, order):
    """Each digit's first place in the output, without the tile's own sums: a lane looks back for each digit."""
    number, sums = warp.laneid % RADIX, np.zeros(32, np.uint32)
    with warp.only(warp.laneid < RADIX):
        for k in range(tile, -1, -1):
            found = np.zeros(32, np.uint32)
            while not (found[:RADIX] & 3 > 0).all():
                found = warp.ld_global(passes.at(RADIX * k + number), order=order)[:, 0]
            sums = sums + (found >> 2)
        place = 4 * (TILE + number)
        warp.st_shared(place, sums - warp.ld_shared(place)[:, 0])


@ported(
    "b0nes164/GPUSorting GPUSortingCUDA/Sort/OneSweep.cu",
    lambda: (keys(756), exclusive(keys(756)), zeros(1), zeros(768)),
    by_digit,
    {
        "no barrier before the scatter": "shared-race",
        "plain counters of a warp": "lane-race",
        "look-back by plain loads": "global-race",
        "sums at once": "shared-race",
        "no barrier behind the scatter": "shared-race",
    },
    grid=3,
    block=64,
    shared=4 * (TILE + RADIX),
)
def onesweep_digit_binning(warp, fault, a, passes, index, out):
    """Keys are ranked by ballots and counters of each warp, scattered in shared memory, and placed by look-back."""
    t, lane, local = warp.threads, warp.laneid, 4 * TILE
    with warp.only(t < 2 * RADIX):
        warp.st_shared(4 * (t % (2 * RADIX)), 0)
    with leader(warp):
        warp.st_shared(4 * (TILE - 1), warp.atom_global("add.u32", index, 1))
    warp.bar_sync()
    tile = int(warp.ld_shared(4 * (TILE - 1))[0, 0])
    held = []
    for i in range(KEYS):
        place = TILE * tile + 32 * KEYS * warp.warpid + 32 * i + lane
        with warp.only(place < 756):
            loaded = warp.ld_global(a.at(np.minimum(place, 755)))[:, 0]
        held.append(np.where(place < 756, loaded, 0xFFFFFFFF))
    # <- plain counters of a warp; sums at once
    places = [ranked(warp, key, fault == "plain counters of a warp") for key in held]
    if fault != "sums at once":
        warp.bar_sync()
    if warp.warpid == 0:
        with warp.only(lane < RADIX):
            digits = 4 * (lane % RADIX)
            first = warp.ld_shared(digits)  # <- sums at once
            second = warp.ld_shared(4 * RADIX + digits)  # <- sums at once
            warp.st_shared(4 * RADIX + digits, first)
            total = (first + second)[:, 0]
            warp.atom_global("add.u32", passes.at(RADIX * (tile + 1) + lane % RADIX), total << 2 | PARTIAL)
            sums = total
            for step in (1, 2, 4, 8):
                other = warp.run("shfl.sync.up.b32", sums, step, 0x1000, 0xFFFF)
                sums = sums + np.where(lane % RADIX >= step, other, 0)
            warp.st_shared(local + digits, sums - total)
    warp.bar_sync()
    for i, key in enumerate(held):
        digit = 4 * (key % RADIX).astype(np.int64)
        places[i] = places[i] + warp.ld_shared(local + digit)[:, 0]
        if warp.warpid:
            places[i] = places[i] + warp.ld_shared(4 * RADIX * warp.warpid + digit)[:, 0]
    if fault != "no barrier before the scatter":
        warp.bar_sync()
    for key, place in zip(held, places, strict=True):
        # <- no barrier before the scatter; no barrier behind the scatter
        warp.st_shared(4 * place.astype(np.int64), key)
    if warp.warpid == 0:
        # <- look-back by plain loads
        looked_back(warp, tile, passes, "" if fault == "look-back by plain loads" else "volatile")
    if fault != "no barrier behind the scatter":
        warp.bar_sync()
    for i in range(KEYS):
        place = 64 * i + t
        key = warp.ld_shared(4 * place)[:, 0]  # <- no barrier behind the scatter
        to = warp.ld_shared(local + 4 * (key % RADIX).astype(np.int64))[:, 0] + place
        with warp.only(to < 768):
            warp.st_global(out.at(np.minimum(to, 767).astype(np.int64)), np.where(key == 0xFFFFFFFF, 0, key))
