"""Wrong answers of notebook 08 about pruning and sparse products, with words that the diagnosis contains."""

import numpy as np

MMA_SP = "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32"

# ---------------------------------------------------------------------------------------------- prune_a_row


def by_value(row):
    """Without abs: the large negative numbers go."""
    chunks = row.reshape(-1, 4)
    result = np.zeros_like(chunks)
    best = np.argsort(-chunks, axis=1, kind="stable")[:, :2]
    np.put_along_axis(result, best, np.take_along_axis(chunks, best, 1), 1)
    return result.reshape(-1)


def the_last_of_equals(row):
    """argsort in ascending order, and the last two taken: of equal elements the last one stays."""
    chunks = row.reshape(-1, 4).copy()
    small = np.argsort(np.abs(chunks), axis=1, kind="stable")[:, :2]
    np.put_along_axis(chunks, small, 0, 1)
    return chunks.reshape(-1)


def as_large_as_the_second(row):
    """Of equal ones all stay."""
    size = np.abs(row.reshape(-1, 4))
    return np.where(size >= np.sort(size, axis=1)[:, 2:3], row.reshape(-1, 4), 0).reshape(-1)


def half_of_the_row(row):
    """The threshold of the whole row, as in unstructured pruning."""
    return np.where(np.abs(row) >= np.sort(np.abs(row))[len(row) // 2], row, 0).astype(np.float32)


def smallest(row):
    """The wrong end of the sorted chunk."""
    chunks = row.reshape(-1, 4)
    result = np.zeros_like(chunks)
    worst = np.argsort(np.abs(chunks), axis=1, kind="stable")[:, :2]
    np.put_along_axis(result, worst, np.take_along_axis(chunks, worst, 1), 1)
    return result.reshape(-1)


# ---------------------------------------------------------------------------------------------- sparse_tile


def _kernel(metadata, chained=True, register=lambda i: (8 * (i % 2), 8 * (i // 2)), rows=(0, 8)):
    """The kernel with another way to put metadata together, start a step or load A."""

    def sparse_tile(warp, stored, words, b, d):
        g, t = warp.laneid // 4, warp.laneid % 4
        c = warp.registers(4, fill=0)
        held_a, held_b = warp.registers(4), warp.registers(4)
        for step in range(4):
            for i in range(4):
                down, along = register(i)
                held_a[:, i] = warp.ld_global(stored.at(g + down, 16 * step + 2 * t + along))[:, 0]
                held_b[:, i] = warp.ld_global(b.at(g, 32 * step + 2 * t + 8 * i))[:, 0]
            upper, lower = (np.asarray(warp.ld_global(words.at(row, step))[:, 0]) for row in (g, g + 8))
            start = c if chained else warp.registers(4, fill=0)
            c = warp.run(MMA_SP, held_a, held_b, start, metadata(upper, lower, t).astype(np.uint32), 0)
        for half, row in enumerate(rows):
            warp.st_global(d.at(g + row, 2 * t), c[:, 2 * half : 2 * half + 2], "v2.b32")

    return sparse_tile


def _right(upper, lower, t):
    return upper >> 16 * (t % 2) & 0xFFFF | (lower >> 16 * (t % 2) & 0xFFFF) << 16


WRONG = {
    "prune_a_row": [
        (by_value, "not their magnitudes"),
        (the_last_of_equals, "you kept the last one"),
        (as_large_as_the_second, "three or four elements of a chunk stay"),
        (half_of_the_row, "each chunk of four keeps two"),
        (smallest, "two smallest elements"),
    ],
    "sparse_tile": [
        (_kernel(_right, chained=False), "starts from zero"),
        (_kernel(lambda upper, lower, t: upper), "every lane passes the word of row lane // 4"),
        (_kernel(lambda upper, lower, t: _right(lower, upper, t)), "rows g and g + 8 is swapped"),
        (_kernel(lambda upper, lower, t: _right(upper, lower, 0 * t)), "even and odd lanes pass the same metadata"),
        (_kernel(_right, register=lambda i: (8 * (i // 2), 8 * (i % 2))), "a1 and a2 are swapped"),
    ],
}
