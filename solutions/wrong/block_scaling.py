"""Wrong answers of notebook 09 about the lanes of scales, with words that the diagnosis contains."""

import numpy as np

MX8 = "mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0"

# ---------------------------------------------------------------------------------------------- lanes


def exchanged(row, thread_id):
    """thread-id in the lowest bit."""
    return 4 * (row % 8) + thread_id + 2 * (row // 8)


def rule_of_b(row, thread_id):
    """As for the 8 columns of B."""
    return 4 * (row % 8) + thread_id


def upper_rows(row, thread_id):
    """Rows 8 to 15 forgotten."""
    return 4 * (row % 8) + 2 * thread_id


def one_after_the_other(row, thread_id):
    """Half a warp for each thread-id."""
    return row + 16 * thread_id


def _word(scales, row):
    return sum(int(scale) << 8 * step for step, scale in enumerate(scales[row]))


def reversed_bytes(scales):
    """Step 0 in the highest byte."""
    registers = np.zeros(32, np.uint32)
    for row in range(16):
        registers[4 * (row % 8) + row // 8] = _word(scales[:, ::-1], row)
    return registers


def row_is_lane(scales):
    """Row r in lane r."""
    registers = np.zeros(32, np.uint32)
    registers[:16] = [_word(scales, row) for row in range(16)]
    return registers


def replaced(scales):
    """Each step replaces the one before."""
    registers = np.zeros(32, np.uint32)
    for row in range(16):
        for step in range(4):
            registers[4 * (row % 8) + row // 8] = np.uint32(scales[row, step]) << np.uint32(8 * step)
    return registers


def all_lanes(scales):
    """The lanes of thread-id 1 filled, too."""
    return np.array([_word(scales, lane // 4 + 8 * (lane % 2)) for lane in range(32)], np.uint32)


def two_lanes_on(scales):
    """Row g + 8 in lane 4 g + 2."""
    registers = np.zeros(32, np.uint32)
    for row in range(16):
        registers[4 * (row % 8) + 2 * (row // 8)] = _word(scales, row)
    return registers


# ---------------------------------------------------------------------------------------------- ids


def byte_and_thread_exchanged(step):
    """The thread changes first."""
    return step // 8, step // 4, step % 4 % 2, step % 4


def four_threads_of_a(step):
    """A with as many thread-ids as B."""
    return step // 8, step % 4, step // 4, step // 4


def one_register(step):
    """The second register forgotten."""
    return 0, step % 4, step // 4 % 2, step // 4


def two_threads_of_b(step):
    """B with as many thread-ids as A."""
    return step // 8, step % 4, step // 4 % 2, step // 4 % 2


# ---------------------------------------------------------------------------------------------- kernel


def _kernel(byte=lambda step: step, row=lambda g, t: g + 8 * (t % 2), column=lambda g, t: g, chained=True):
    """The kernel with another byte-id, or scales loaded from other rows or columns."""

    def scaled_product(warp, a, x, b, y, d):
        g, t = warp.laneid // 4, warp.laneid % 4
        c = warp.registers(4, fill=0)
        held_a, held_b = warp.registers(4), warp.registers(2)
        scale_a = warp.ld_global(x.at(row(g, t), 0))[:, 0]
        scale_b = warp.ld_global(y.at(column(g, t), 0))[:, 0]
        for step in range(4):
            for i in range(4):
                held_a[:, i] = warp.ld_global(a.at(g + 8 * (i % 2), 32 * step + 4 * t + 16 * (i // 2)))[:, 0]
            for i in range(2):
                held_b[:, i] = warp.ld_global(b.at(g, 32 * step + 4 * t + 16 * i))[:, 0]
            start = c if chained else warp.registers(4, fill=0)
            c = warp.run(MX8, held_a, held_b, start, scale_a, (byte(step), 0), scale_b, (byte(step), 0))
        for half in range(2):
            warp.st_global(d.at(g + 8 * half, 2 * t), c[:, 2 * half : 2 * half + 2], "v2.b32")

    return scaled_product


WRONG = {
    "lane_of_scale": [
        (exchanged, "you have them swapped"),
        (rule_of_b, "rows 8 to 15 need lanes of their own"),
        (upper_rows, "you left out row // 8"),
        (one_after_the_other, "does not choose a half of the warp"),
    ],
    "registers_of_scales": [
        (reversed_bytes, "bytes are in reverse order"),
        (row_is_lane, "row r is not in lane r"),
        (all_lanes, "they are to be 0 here"),
        (two_lanes_on, "not 4 g + 2"),
        (replaced, "something had replaced what was there"),
    ],
    "ids_of_a_step": [
        (byte_and_thread_exchanged, "you swapped byte-id and thread-id"),
        (four_threads_of_a, "A has only two thread-ids"),
        (one_register, "the register of A does not depend on the step"),
        (two_threads_of_b, "B has four thread-ids"),
    ],
    "scaled_product": [
        (_kernel(byte=lambda step: 0), "the byte-id is the step"),
        (_kernel(row=lambda g, t: g), "odd lanes load the scales of row g + 8"),
        (_kernel(row=lambda g, t: g + 8 - 8 * (t % 2)), "rows g and g + 8 are swapped"),
        (_kernel(chained=False), "starts from zero"),
        (_kernel(byte=lambda step: 3 - step), "the byte-ids run backwards"),
    ],
}
