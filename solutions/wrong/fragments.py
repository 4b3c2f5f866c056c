"""Wrong answers of notebook 02 that people give, with words that the diagnosis contains."""

import numpy as np

import tcemu

MMA = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"


# ---------------------------------------------------------------------------------------------- where_of_a


def transposed(row, column):
    """The map of the transposed matrix."""
    return 4 * (column % 8) + row // 2 % 4, 2 * (row // 8) + column // 8


def without_the_lower_half(row, column):
    """The eight rows below are in other registers, which is easily forgotten."""
    return 4 * (row % 8) + column // 2 % 4, 2 * (column // 8)


def as_in_memory(row, column):
    """Registers counted along the row first, as a matrix is stored."""
    return 4 * (row % 8) + column // 2 % 4, 2 * (row // 8) + column // 8


def eight_columns(row, column):
    """The lane from a column of 0 to 15 without its remainder."""
    return 4 * (row % 8) + column // 2, 2 * (column // 8) + row // 8


def elements(row, column):
    """Elements counted, and not registers."""
    return 4 * (row % 8) + column // 2 % 4, 4 * (column // 8) + 2 * (row // 8) + column % 2


# ---------------------------------------------------------------------------------------------- what_is_in_a


def exchanged(lane, register):
    """Row and column swapped."""
    return 2 * (lane % 4) + 8 * (register // 2), lane // 4 + 8 * (register % 2)


def row_by_c(lane, register):
    """The register's two digits swapped."""
    return lane // 4 + 8 * (register // 2), 2 * (lane % 4) + 8 * (register % 2)


def line_and_place(lane, register):
    """Eight lanes to a line, so that t is large and g is small."""
    return lane % 8 + 8 * (register % 2), 2 * (lane // 8) + 8 * (register // 2)


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


# ---------------------------------------------------------------------------------------------- where_of_b, bytes


def as_a(row, column):
    """B as if it were A: the row in the lane's high digits."""
    return 4 * (row % 8) + column // 2, row // 8


def halves_forgotten(row, column):
    """Both halves of B in one register."""
    return 4 * column + row // 2 % 4, 0


def elements_of_b(row, column):
    """Elements counted, and not registers."""
    return 4 * column + row // 2 % 4, 2 * (row // 8) + row % 2


def as_f16(row, column):
    """Two neighbours in place of four."""
    return 4 * (row % 8) + column // 2 % 4, 2 * (column // 8) + row // 8, column % 2


def bytes_as_in_memory(row, column):
    """Registers counted along the row first."""
    return 4 * (row % 8) + column // 4 % 4, 2 * (row // 8) + column // 16, column % 4


def upper_rows(row, column):
    """The lower half forgotten."""
    return 4 * (row % 8) + column // 4 % 4, 2 * (column // 16), column % 4


# ---------------------------------------------------------------------------------------------- who_answers


def rows_of(probe, counts):
    """The rows of a probe that count, in the order in which their sums are in D."""
    A = tcemu.parse(MMA).fragments["a"].unpack(probe)
    return sorted(np.flatnonzero(counts(A)), key=lambda row: (row % 8, row))


def first_filled(probes):
    """The first row with elements, whether or not they cancel."""
    first = [rows_of(probe, lambda A: A.any(axis=1))[0] for probe in probes]
    return np.array([(4 * (row % 8), 2 * (row // 8)) for row in first])


def first_of_a(probes):
    """Where A is not zero, not D."""
    return [np.argwhere(probe)[0] for probe in probes]


def always_d0(probes):
    """Not told from the upper half."""
    return [(4 * (rows_of(probe, lambda A: A.sum(axis=1))[0] % 8), 0) for probe in probes]


def group_for_lane(probes):
    """The group for its first lane."""
    first = [rows_of(probe, lambda A: A.sum(axis=1))[0] for probe in probes]
    return [(row % 8, 2 * (row // 8)) for row in first]


# ---------------------------------------------------------------------------------------------- fragment_by_hand


def place(lane, register):
    """Row and column of the first element of a register: what is right."""
    return lane // 4 + 8 * (register % 2), 2 * (lane % 4) + 8 * (register // 2)


def fragment(A, bits=None, where=place, swap=False):
    """The registers, with mistakes to choose from."""
    bits = A.view(np.uint16).astype(np.uint32) if bits is None else bits
    registers = np.zeros((32, 4), np.uint32)
    for lane, register in np.ndindex(32, 4):
        row, column = where(lane, register)
        low, high = bits[row, column], bits[row, column + 1]
        registers[lane, register] = high | low << 16 if swap else low | high << 16
    return registers


def halves_swapped(A):
    """The first element in the high half."""
    return fragment(A, swap=True)


def of_the_transpose(A):
    """The matrix transposed first."""
    return fragment(np.ascontiguousarray(A.T))


def whole_numbers(A):
    """astype in place of view."""
    return fragment(A, bits=A.astype(np.uint32))


def registers_along_the_row(A):
    """Register digits swapped."""
    return fragment(A, where=row_by_c)


def registers_along_the_row_and_halves_lost(A):
    """Register digits swapped, and a uint16 shifted by 16."""
    return registers_along_the_row(A) & np.uint32(0xFFFF)


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
    "where_of_a": [
        (transposed, "transposed map"),
        (without_the_lower_half, "the register does not depend on row // 8"),
        (as_in_memory, "In the register, you swapped column // 8 and row // 8"),
        (elements, "counted elements instead of registers"),
    ],
    "what_is_in_a": [
        (exchanged, "transposed map"),
        (row_by_c, "You swapped register // 2 and register % 2"),
        (line_and_place, "You swapped lane // 4 and lane % 4"),
    ],
    "summed_by_warps": [
        (still_a_race, "Put bar.sync between the two accesses"),
        (barrier_of_one, "threads that have exited"),
        (barrier_too_early, "Put bar.sync between the two accesses"),
        (warp_barrier, "Put bar.sync between the two accesses"),
        (first_part, "Only one warp's part"),
        (without_its_own, "The part of warp 0 is missing"),
    ],
    "where_of_b": [
        (as_a, "the map of A"),
        (halves_forgotten, "the register does not depend on row // 8"),
        (elements_of_b, "counted elements instead of registers"),
    ],
    "where_of_bytes": [
        (as_f16, "four elements here, not two"),
        (bytes_as_in_memory, "In the register, you swapped column // 16 and row // 8"),
        (upper_rows, "the register does not depend on row // 8"),
    ],
    "who_answers": [
        (first_filled, "Elements of a row may cancel"),
        (first_of_a, "the first register of A that is not zero"),
        (always_d0, "the lower half of the rows"),
        (group_for_lane, "its first lane is 4 g"),
    ],
    "fragment_by_hand": [
        (halves_swapped, "halves of each register are swapped"),
        (of_the_transpose, "transposed map"),
        (whole_numbers, "use .view, not astype"),
        (registers_along_the_row, "you swapped column // 8 and row // 8"),
        (registers_along_the_row_and_halves_lost, "upper half of every wrong value is 0"),
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
