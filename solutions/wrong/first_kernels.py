"""Wrong answers of notebook 02's kernels, with words that the diagnosis contains."""

import numpy as np

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


# ---------------------------------------------------------------------------------------------- the kernels


def parts(warp, a, b, k):
    """16 steps of k."""
    g, t = warp.laneid // 4, warp.laneid % 4
    held_a = np.hstack([warp.ld_global(a.at(g + 8 * (r % 2), k + 8 * (r // 2) + 2 * t)) for r in range(4)])
    held_b = np.hstack([warp.ld_global(b.at(g, k + 8 * r + 2 * t)) for r in range(2)])
    return warp.run(MMA, held_a, held_b, warp.registers(4, fill=0))


def stored(warp, out, total):
    """The sum, to global memory."""
    g, t = warp.laneid // 4, warp.laneid % 4
    for h in range(2):
        warp.st_global(out.at(g + 8 * h, 2 * t), total[:, 2 * h : 2 * h + 2], "v2.b32")


def summed(warp):
    """The four parts."""
    loaded = [warp.ld_shared(512 * each + 16 * warp.laneid, "v4.b32").view(np.float32) for each in range(4)]
    return sum(loaded)


def still_a_race(warp, a, b, out):
    """No barrier."""
    warp.st_shared(16 * warp.threads, parts(warp, a, b, 16 * warp.warpid), "v4.b32")
    if warp.warpid == 0:
        stored(warp, out, summed(warp))


def barrier_of_one(warp, a, b, out):
    """The barrier inside the branch."""
    warp.st_shared(16 * warp.threads, parts(warp, a, b, 16 * warp.warpid), "v4.b32")
    if warp.warpid == 0:
        warp.bar_sync()
        stored(warp, out, summed(warp))


def barrier_too_early(warp, a, b, out):
    """The barrier before the store."""
    part = parts(warp, a, b, 16 * warp.warpid)
    warp.bar_sync()
    warp.st_shared(16 * warp.threads, part, "v4.b32")
    if warp.warpid == 0:
        stored(warp, out, summed(warp))


def warp_barrier(warp, a, b, out):
    """A barrier of the warp in place of the block's."""
    warp.st_shared(16 * warp.threads, parts(warp, a, b, 16 * warp.warpid), "v4.b32")
    warp.bar_warp_sync()
    if warp.warpid == 0:
        stored(warp, out, summed(warp))


def without_its_own(warp, a, b, out):
    """Warp 0 adds the parts of the others."""
    warp.st_shared(16 * warp.threads, parts(warp, a, b, 16 * warp.warpid), "v4.b32")
    warp.bar_sync()
    if warp.warpid == 0:
        stored(warp, out, sum(warp.ld_shared(512 * each + 16 * warp.threads, "v4.b32").view(np.float32)
                              for each in range(1, 4)))  # fmt: skip


def first_part(warp, a, b, out):
    """Nobody adds."""
    part = parts(warp, a, b, 16 * warp.warpid)
    warp.bar_sync()
    if warp.warpid == 0:
        stored(warp, out, part)


def row_major(warp, a, b, out, steps=(0, 16), flip=False, chained=True):
    """The kernel, with mistakes to choose from."""
    g, t = warp.laneid // 4, warp.laneid % 4
    d = warp.registers(4, fill=0)
    for k in steps:
        held_a = np.hstack([warp.ld_global(a.at(g + 8 * (r % 2), k + 8 * (r // 2) + 2 * t)) for r in range(4)])
        pairs = []
        for r in range(2):
            one, two = (warp.ld_global(b.at(k + 8 * r + 2 * t + each, g), "b16") for each in range(2))
            pairs.append(two | one << 16 if flip else one | two << 16)
        d = warp.run(MMA, held_a, np.hstack(pairs), d if chained else warp.registers(4, fill=0))
    stored(warp, out, d)


def by_words(warp, a, b, out):
    """32 bits at once, from an aligned address."""
    g, t = warp.laneid // 4, warp.laneid % 4
    d = warp.registers(4, fill=0)
    for k in (0, 16):
        held_a = np.hstack([warp.ld_global(a.at(g + 8 * (r % 2), k + 8 * (r // 2) + 2 * t)) for r in range(4)])
        held_b = np.hstack([warp.ld_global(b.at(k + 8 * r + 2 * t, g // 2 * 2)) for r in range(2)])
        d = warp.run(MMA, held_a, held_b, d)
    stored(warp, out, d)


def by_the_map_of_a(warp, a, b, out):
    """Rows of B by lane // 4."""
    g, t = warp.laneid // 4, warp.laneid % 4
    d = warp.registers(4, fill=0)
    for k in (0, 16):
        held_a = np.hstack([warp.ld_global(a.at(g + 8 * (r % 2), k + 8 * (r // 2) + 2 * t)) for r in range(4)])
        held_b = np.hstack([warp.ld_global(b.at(k + 8 * r + g, 2 * t)) for r in range(2)])
        d = warp.run(MMA, held_a, held_b, d)
    stored(warp, out, d)


def flipped(warp, a, b, out):
    """The halves of a register swapped."""
    row_major(warp, a, b, out, flip=True)


def one_step(warp, a, b, out):
    """K = 16 in place of 32."""
    row_major(warp, a, b, out, steps=(0,))


def unchained(warp, a, b, out):
    """Each step from zero."""
    row_major(warp, a, b, out, chained=False)


# ---------------------------------------------------------------------------------------------- to repair


def swap_at_once(warp, x, out):
    warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))
    warp.st_global(out.at(warp.laneid), warp.ld_shared(4 * (31 - warp.laneid)))


def swap_synced_late(warp, x, out):
    warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))
    warp.st_global(out.at(warp.laneid), warp.ld_shared(4 * (31 - warp.laneid)))
    warp.bar_warp_sync()


def swap_nothing(warp, x, out):
    warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))
    warp.bar_warp_sync()
    warp.st_global(out.at(warp.laneid), warp.ld_shared(4 * warp.laneid))


def padding_forgotten(warp, x, out):
    with warp.only(warp.laneid < 24):
        warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))
    warp.bar_warp_sync()
    pair = warp.ld_shared(4 * warp.laneid) + warp.ld_shared(4 * (31 - warp.laneid))
    warp.st_global(out.at(warp.laneid), pair)


def padding_half(warp, x, out):
    with warp.only(warp.laneid < 24):
        warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid)))
    with warp.only(warp.laneid >= 28):
        warp.st_shared(4 * warp.laneid, 0)
    warp.bar_warp_sync()
    pair = warp.ld_shared(4 * warp.laneid) + warp.ld_shared(4 * (31 - warp.laneid))
    warp.st_global(out.at(warp.laneid), pair)


def padding_repeats(warp, x, out):
    warp.st_shared(4 * warp.laneid, warp.ld_global(x.at(warp.laneid % 24)))
    warp.bar_warp_sync()
    pair = warp.ld_shared(4 * warp.laneid) + warp.ld_shared(4 * (31 - warp.laneid))
    warp.st_global(out.at(warp.laneid), pair)


def edge_ignored(warp, x, out):
    warp.st_global(out.at(warp.threads), 2 * warp.ld_global(x.at(warp.threads)))


def edge_one_too_far(warp, x, out):
    with warp.only(warp.threads <= 48):
        warp.st_global(out.at(warp.threads), 2 * warp.ld_global(x.at(warp.threads)))


def edge_one_warp(warp, x, out):
    if warp.warpid == 0:
        warp.st_global(out.at(warp.threads), 2 * warp.ld_global(x.at(warp.threads)))


def counts_as_they_were(warp, x, out):
    warp.st_shared(4 * warp.threads, warp.ld_global(x.at(warp.threads)))
    warp.bar_sync(1, 96 if warp.warpid == 3 else 128)
    warp.st_global(out.at(warp.threads), warp.ld_shared(4 * (127 - warp.threads)))


def counts_too_few(warp, x, out):
    warp.st_shared(4 * warp.threads, warp.ld_global(x.at(warp.threads)))
    warp.bar_sync(1, 96)
    warp.st_global(out.at(warp.threads), warp.ld_shared(4 * (127 - warp.threads)))


def counts_of_a_warp(warp, x, out):
    warp.st_shared(4 * warp.threads, warp.ld_global(x.at(warp.threads)))
    warp.bar_sync(1, 32)
    warp.st_global(out.at(warp.threads), warp.ld_shared(4 * (127 - warp.threads)))


WRONG = {
    "summed_by_warps": [
        (still_a_race, "Put bar.sync between the two accesses"),
        (barrier_of_one, "threads that have exited"),
        (barrier_too_early, "Put bar.sync between the two accesses"),
        (warp_barrier, "Put bar.sync between the two accesses"),
        (first_part, "Only one warp's part"),
        (without_its_own, "The part of warp 0 is missing"),
    ],
    "row_major_b": [
        (flipped, "two halves of each register of B are swapped"),
        (one_step, "Only the first 16 columns"),
        (by_the_map_of_a, "Every 8 × 8 block of B is transposed"),
        (by_words, "A load of 32 bits takes two neighbours in a row"),
        (unchained, "Only the last 16 columns"),
    ],
    "repair_swap": [
        (swap_at_once, "Put bar.warp.sync between the two accesses"),
        (swap_synced_late, "Put bar.warp.sync between the two accesses"),
        (swap_nothing, "Nothing is swapped"),
    ],
    "repair_padding": [
        (padding_forgotten, "Write all of the bytes before reading them"),
        (padding_half, "Write all of the bytes before reading them"),
        (padding_repeats, "they repeat the first ones"),
    ],
    "repair_edge": [
        (edge_ignored, "disable the lanes that are outside"),
        (edge_one_too_far, "disable the lanes that are outside"),
        (edge_one_warp, "second warp are missing"),
    ],
    "repair_counts": [
        (counts_as_they_were, "Give each barrier the same number everywhere"),
        (counts_too_few, "barrier"),
        (counts_of_a_warp, "bar.sync"),
    ],
}
