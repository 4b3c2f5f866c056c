"""Wrong answers of notebook 08 about metadata, with words that the diagnosis contains."""

import numpy as np

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
    """Every chunk swapped, whether in order or not."""
    return _sorted(stored, metadata, lambda i, j: True, lambda i, j: True)


def all_values(stored, metadata):
    """the right codes, but all values swapped."""
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


WRONG = {
    "metadata_of_a_row": [
        (first_index_high, "the two indices swapped"),
        (from_the_left, "you put it in the highest"),
        (bit_mask, "you set a bit for each element that stays"),
        (first_chunk, "the first chunk only"),
    ],
    "lane_of_metadata": [
        (selector_low, "you have them swapped"),
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
        (rows_exchanged, "rows g and g + 8 are swapped"),
        (lane_is_row, "register of lane r for the metadata of row r"),
        (one_lane_of_four, "they are in the next lane"),
    ],
    "ordered_metadata": [
        (only_the_metadata, "swap values too"),
        (all_of_them, "even of those that were in order"),
        (all_values, "you swapped the values of every chunk"),
        (nothing, "the metadata is as it was given"),
        (as_for_eight_bits, "the metadata is right, but the stored values"),
    ],
}
