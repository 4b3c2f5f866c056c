"""Wrong answers of notebook 08 that people give, with words that the diagnosis contains."""

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


# ---------------------------------------------------------------------------------------------- metadata_of_a_row


def first_index_high(places):
    """The first index in the high two bits, as one writes it on paper."""
    return sum(int(first << 2 | second) << 4 * chunk for chunk, (first, second) in enumerate(places))


def from_the_left(places):
    """Chunk 0 in the highest bits, as in a hexadecimal number read from the left."""
    word = 0
    for first, second in places:
        word = word << 4 | int(first | second << 2)
    return word


def bit_mask(places):
    """A bit for each element that stays."""
    return sum((1 << int(first) | 1 << int(second)) << 4 * chunk for chunk, (first, second) in enumerate(places))


def first_chunk(places):
    """Only one chunk."""
    return int(places[0, 0] | places[0, 1] << 2)


# ---------------------------------------------------------------------------------------------- lane_of_metadata


def selector_low(row, chunk, selector):
    """The selector as the lowest bit of the lane."""
    return 4 * (row % 8) + selector + 2 * (chunk // 4), 4 * (row // 8) + chunk % 4


def eight_bit_rule(row, chunk, selector):
    """The layout of s8 m16n8k32."""
    return 4 * (row % 8) + 2 * selector + row // 8, chunk


def short_shape(row, chunk, selector):
    """The layout of f16 m16n8k16."""
    return 4 * (row % 8) + selector, 4 * (row // 8) + chunk % 4


def bits_for_groups(row, chunk, selector):
    """The number of the lowest bit."""
    return 4 * (row % 8) + 2 * selector + chunk // 4, 4 * (4 * (row // 8) + chunk % 4)


def upper_rows_only(row, chunk, selector):
    """Rows 8 to 15 forgotten."""
    return 4 * (row % 8) + 2 * selector + chunk // 4, chunk % 4


# ---------------------------------------------------------------------------------------------- decompress_a_tile


def _decompressed(stored, code):
    dense = np.zeros((16, 32), np.float16)
    for row in range(16):
        for chunk in range(8):
            places = code(row, chunk)
            dense[row, 4 * chunk + (places & 3)] = stored[row, 2 * chunk]
            dense[row, 4 * chunk + (places >> 2)] = stored[row, 2 * chunk + 1]
    return dense


def high_bits_first(stored, metadata):
    """The high two bits for the first element."""

    def code(row, chunk):
        lane, group = 4 * (row % 8) + chunk // 4, 4 * (row // 8) + chunk % 4
        bits = int(metadata[lane]) >> 4 * group & 15
        return (bits & 3) << 2 | bits >> 2

    return _decompressed(stored, code)


def rule_of_eight_bits(stored, metadata):
    """A lane for each row."""
    return _decompressed(stored, lambda row, chunk: int(metadata[4 * (row % 8) + row // 8]) >> 4 * chunk & 15)


def first_two_places(stored, metadata):
    """Without the metadata."""
    return _decompressed(stored, lambda row, chunk: 0b0100)


def lanes_of_the_other_selector(stored, metadata):
    """Lanes 2 and 3 of each group."""

    def code(row, chunk):
        lane, group = 4 * (row % 8) + 2 + chunk // 4, 4 * (row // 8) + chunk % 4
        return int(metadata[lane]) >> 4 * group & 15

    return _decompressed(stored, code)


def rows_exchanged(stored, metadata):
    """Row g in the upper half."""

    def code(row, chunk):
        lane, group = 4 * (row % 8) + chunk // 4, 4 * (1 - row // 8) + chunk % 4
        return int(metadata[lane]) >> 4 * group & 15

    return _decompressed(stored, code)


def lane_is_row(stored, metadata):
    """The register of lane r taken for row r."""
    return _decompressed(stored, lambda row, chunk: int(metadata[row]) >> 4 * chunk & 15)


def one_lane_of_four(stored, metadata):
    """Chunks 4 to 7 taken from the first lane, too."""

    def code(row, chunk):
        return int(metadata[4 * (row % 8)]) >> 16 * (row // 8) + 4 * (chunk % 4) & 15

    return _decompressed(stored, code)


# ---------------------------------------------------------------------------------------------- ordered_metadata


def _place(row, chunk):
    return 4 * (row % 8) + chunk // 4, 16 * (row // 8) + 4 * (chunk % 4)


def _sorted(stored, metadata, exchange_codes, exchange_values):
    stored, metadata = stored.copy(), metadata.copy()
    for row in range(16):
        for chunk in range(8):
            lane, low = _place(row, chunk)
            register = int(metadata[lane])
            first, second = register >> low & 3, register >> low + 2 & 3
            if exchange_codes(first, second):
                metadata[lane] = register & ~(15 << low) | (second | first << 2) << low
            if exchange_values(first, second):
                stored[row, 2 * chunk : 2 * chunk + 2] = stored[row, 2 * chunk : 2 * chunk + 2][::-1].copy()
    return stored, metadata


def only_the_metadata(stored, metadata):
    """The values are forgotten."""
    return _sorted(stored, metadata, lambda i, j: i > j, lambda i, j: False)


def all_of_them(stored, metadata):
    """Every chunk exchanged, whether in order or not."""
    return _sorted(stored, metadata, lambda i, j: True, lambda i, j: True)


def all_values(stored, metadata):
    """the right codes, but all values exchanged."""
    return _sorted(stored, metadata, lambda i, j: i > j, lambda i, j: True)


def nothing(stored, metadata):
    """Given back as it came."""
    return stored, metadata


def as_for_eight_bits(stored, metadata):
    """The values sorted by the register of lane r."""
    stored, fixed = stored.copy(), _sorted(stored, metadata, lambda i, j: i > j, lambda i, j: False)[1]
    for row in range(16):
        for chunk in range(8):
            code = int(metadata[2 * row]) >> 4 * chunk & 15
            if code & 3 > code >> 2:
                stored[row, 2 * chunk : 2 * chunk + 2] = stored[row, 2 * chunk : 2 * chunk + 2][::-1].copy()
    return stored, fixed


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
        (half_of_the_row, "each chunk of four keeps two"),
        (smallest, "two smallest elements"),
    ],
    "metadata_of_a_row": [
        (first_index_high, "the two indices exchanged"),
        (from_the_left, "you put it in the highest"),
        (bit_mask, "you set a bit for each element that stays"),
        (first_chunk, "the first chunk only"),
    ],
    "lane_of_metadata": [
        (selector_low, "you have them exchanged"),
        (eight_bit_rule, "the rule of 8-bit elements"),
        (short_shape, "the rule of m16n8k16"),
        (bits_for_groups, "you counted bits"),
        (upper_rows_only, "does not depend on row // 8"),
    ],
    "decompress_a_tile": [
        (high_bits_first, "the low two bits are the index of the first one"),
        (rule_of_eight_bits, "the rule of 8-bit elements"),
        (first_two_places, "in the first two places of each chunk"),
        (lanes_of_the_other_selector, "you read the lanes of selector 1"),
        (rows_exchanged, "rows g and g + 8 are exchanged"),
        (lane_is_row, "register of lane r for the metadata of row r"),
        (one_lane_of_four, "they are in the next lane"),
    ],
    "ordered_metadata": [
        (only_the_metadata, "exchange values too"),
        (all_of_them, "also of those that were in order"),
        (all_values, "you exchanged the values of every chunk"),
        (nothing, "the metadata is as it was given"),
        (as_for_eight_bits, "the metadata is right, but the stored values"),
    ],
    "sparse_tile": [
        (_kernel(_right, chained=False), "starts from zero"),
        (_kernel(lambda upper, lower, t: upper), "every lane passes the word of row lane // 4"),
        (_kernel(lambda upper, lower, t: _right(lower, upper, t)), "rows g and g + 8 is exchanged"),
        (_kernel(lambda upper, lower, t: _right(upper, lower, 0 * t)), "even and odd lanes pass the same metadata"),
        (_kernel(_right, register=lambda i: (8 * (i // 2), 8 * (i % 2))), "a1 and a2 are exchanged"),
    ],
}
